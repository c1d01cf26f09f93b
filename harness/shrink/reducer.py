"""Reduction by trying simpler candidates: pure, whatever a candidate is and however it is tried."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
Pass = Callable[[T], Iterable[T]]  # simpler candidates of this one, the boldest first
# The first of the candidates that fails in the same way, as it is to be kept; None if none does.
TryAll = Callable[[Sequence[T]], T | None]


def without_chunks(items: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """Complement-based delta debugging: nothing at all, then without each half, quarter, ... single item."""
    size = len(items)
    while size:
        for start in range(0, len(items), size):
            yield (*items[:start], *items[start + size :])
        size //= 2


def smaller_numbers(number: int, least: int) -> Iterator[int]:
    """From the least on in doubling steps, and at last one less than the number."""
    step = 1
    value = least
    while value < number:
        yield value
        value, step = value + step, step * 2
    if number - 1 >= least:
        yield number - 1


class Reducer(Generic[T]):
    """Goes through the passes again and again until none of them finds anything simpler.

    Args:
        passes: by name, in order.
        try_all: tries candidates at once.
        improved: takes the name of the pass and the new best.
        key: what tells candidates apart; none is tried twice.
        width: candidates that are tried at once.
    """

    def __init__(
        self,
        passes: dict[str, Pass[T]],
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
        """The simplest one found."""
        self._tried.add(self._key(best))
        while True:
            before = best
            for name, simpler in self._passes.items():
                while (found := self._first(simpler(best))) is not None:
                    best = found
                    self._tried.add(self._key(best))
                    self._improved(name, best)
            if best is before:
                return best

    def _first(self, candidates: Iterable[T]) -> T | None:
        batch: list[T] = []
        for candidate in candidates:
            key = self._key(candidate)
            if key in self._tried:
                continue
            self._tried.add(key)
            batch.append(candidate)
            if len(batch) == self._width:
                if (found := self._try_all(batch)) is not None:
                    return found
                batch = []
        return self._try_all(batch) if batch else None
