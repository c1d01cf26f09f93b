"""Reduces by trying simpler candidates. It does not depend on the kind of candidate or on how it is tried."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

T = TypeVar("T")
# The index and the kept form of the first candidate that fails in the same way; None if none does.
TryAll = Callable[[Sequence[T]], "tuple[int, T] | None"]


@dataclass(frozen=True, slots=True)
class Variants(Generic[T]):
    """A pass that tries simpler candidates of the best so far, the simplest first, and restarts after each success."""

    of: Callable[[T], Iterable[T]]


@dataclass(frozen=True, slots=True)
class Deletion(Generic[T]):
    """A pass that deletes items of a list: complement-based delta debugging (CDD).

    It removes all items, then each half, quarter, ... single item. After a deletion it continues after the deleted part
    with chunks of the same size.
    """

    items: Callable[[T], Sequence[Any]]
    with_items: Callable[[T, Sequence[Any]], T | None]  # None: not possible


Pass = Variants[T] | Deletion[T]


def without_chunks(items: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """Yield no items, then the items without each half, quarter, ... single item."""
    size = len(items)
    while size:
        for start in range(0, len(items), size):
            yield (*items[:start], *items[start + size :])
        size //= 2


def smaller_numbers(number: int, least: int) -> Iterator[int]:
    """Return numbers from the least on in doubling steps, and finally one less than the number."""
    step = 1
    value = least
    while value < number:
        yield value
        value, step = value + step, step * 2
    if number - 1 >= least:
        yield number - 1


class Reducer(Generic[T]):
    """Repeats the passes until none of them finds anything simpler.

    Args:
        passes: the passes by name, in order.
        try_all: tries candidates concurrently; also takes the name of the pass.
        improved: takes the name of the pass and the new best.
        key: identifies candidates, none of which is tried twice.
        width: number of candidates that are tried concurrently.
    """

    def __init__(
        self,
        passes: Mapping[str, Pass[T]],
        try_all: TryAll[T],
        improved: Callable[[str, T], None],
        key: Callable[[T], Hashable],
        width: int,
    ) -> None:
        self._passes = passes
        self._try_all = try_all
        self._improved = improved
        self._key = key
        self._width = width
        self._tried: set[Hashable] = set()

    def reduce(self, best: T) -> T:
        """Return the simplest candidate found."""
        self._tried.add(self._key(best))
        while True:
            before = best
            for name, one in self._passes.items():
                best = self._go_through(name, one, best)
            if best is before:
                return best

    def _go_through(self, name: str, one: Pass[T], best: T) -> T:
        if isinstance(one, Deletion):
            return self._delete(name, one, best)
        return self._vary(name, one, best)

    def _vary(self, name: str, variants: Variants[T], best: T) -> T:
        while (found := self._first((one, one) for one in variants.of(best))) is not None:
            best = self._keep(name, found[1])
        return best

    def _delete(self, name: str, deletion: Deletion[T], best: T) -> T:
        items = deletion.items(best)
        size = len(items)
        while size:
            start = 0
            while start < len(items):
                chunks = _chunks_deleted(deletion, best, items, start, size)
                found = self._first(chunks)
                if found is None:
                    break
                start, best = found[0], self._keep(name, found[1])
                items = deletion.items(best)
            size //= 2
        return best

    def _keep(self, name: str, best: T) -> T:
        self._tried.add(self._key(best))
        self._improved(name, best)
        return best

    def _first(self, candidates: Iterable[tuple[Any, T]]) -> tuple[Any, T] | None:
        """Return the mark and the kept form of the first candidate that fails in the same way."""
        untried = self._untried(candidates)
        while batch := list(islice(untried, self._width)):
            found = self._try_all([candidate for _, candidate in batch])
            if found is not None:
                index, kept = found
                return batch[index][0], kept
        return None

    def _untried(self, candidates: Iterable[tuple[Any, T]]) -> Iterator[tuple[Any, T]]:
        for mark, candidate in candidates:
            key = self._key(candidate)
            if key not in self._tried:
                self._tried.add(key)
                yield mark, candidate


def _chunks_deleted(
    deletion: Deletion[T], best: T, items: Sequence[Any], start: int, size: int
) -> Iterator[tuple[int, T]]:
    """Yield the candidates without each chunk from `start` on, with the index at which the chunk began."""
    for at in range(start, len(items), size):
        candidate = deletion.with_items(best, [*items[:at], *items[at + size :]])
        if candidate is not None:
            yield at, candidate
