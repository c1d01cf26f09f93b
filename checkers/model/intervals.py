"""Intervals of time as half-open (start_ns, end_ns) pairs, and operations on several."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Span(NamedTuple):
    """From `start_ns` to before `end_ns`."""

    start_ns: int
    end_ns: int

    @property
    def length_ns(self) -> int:
        return max(self.end_ns - self.start_ns, 0)


def joined(spans: Iterable[Span]) -> list[Span]:
    """Return the same time in as few spans as possible, sorted, without empty ones."""
    found: list[Span] = []
    for span in sorted(spans):
        start_ns, end_ns = span
        if start_ns >= end_ns:
            continue
        if not found or start_ns > found[-1].end_ns:
            found.append(span)
        elif end_ns > found[-1].end_ns:
            found[-1] = Span(found[-1].start_ns, end_ns)
    return found


def without(spans: Iterable[Span], removed: Iterable[Span]) -> list[Span]:
    """Return the time in `spans` that is not in `removed`, sorted."""
    left: list[Span] = []
    holes = joined(removed)
    for start_ns, end_ns in joined(spans):
        for hole in holes:
            if hole.start_ns >= end_ns:
                break
            if hole.start_ns > start_ns:
                left.append(Span(start_ns, hole.start_ns))
            start_ns = max(start_ns, hole.end_ns)
        if start_ns < end_ns:
            left.append(Span(start_ns, end_ns))
    return left


def shared(one: Iterable[Span], other: Iterable[Span]) -> list[Span]:
    """Return the time in both, sorted."""
    others = joined(other)
    return joined(
        Span(max(a.start_ns, b.start_ns), min(a.end_ns, b.end_ns)) for a in one for b in others
    )
