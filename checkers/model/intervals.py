"""Half-open intervals of time, and their union, difference and intersection."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Span(NamedTuple):
    """The time from `start_ns` up to but not including `end_ns`; empty if `end_ns` is not later."""

    start_ns: int
    end_ns: int

    @property
    def length_ns(self) -> int:
        return max(self.end_ns - self.start_ns, 0)


def joined(spans: Iterable[Span]) -> list[Span]:
    """Return the union of the spans: as few spans as possible, sorted, none of them empty."""
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
    """Return the time in `spans` that is not in `removed`: sorted spans that do not overlap."""
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
    """Return the time that is in both: sorted spans that do not overlap."""
    others = joined(other)
    return joined(
        Span(max(a.start_ns, b.start_ns), min(a.end_ns, b.end_ns)) for a in one for b in others
    )
