"""Merges many short spans of time, and selects a few of them that cover the same time.

Each message is evidence for one short span of time. A checker that uses the merged spans gets the same result from a
few of the messages, so that it need not hold the others (`Checker.rows`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from staticfire.checkers.model.columns import Ints
from staticfire.checkers.model.intervals import Span


def covering(starts_ns: Ints, ends_ns: Ints, apart_ns: int) -> Iterator[Ints]:
    """Yield, for each merged span, the indices of a few spans that cover it, in order of time.

    Spans less than `apart_ns` apart are merged. The first index is that of the span that begins the merged span, the
    last index that of the span that ends it.

    Args:
        starts_ns: start of each span, shape (spans,).
        ends_ns: end of each span, shape (spans,).
        apart_ns: gaps below this are closed.
    """
    if not len(starts_ns):
        return
    order = np.argsort(starts_ns, kind="stable")
    starts_ns, ends_ns = starts_ns[order], ends_ns[order]
    is_highest = ends_ns == np.maximum.accumulate(ends_ns)
    furthest = np.maximum.accumulate(np.where(is_highest, np.arange(len(order)), 0))
    chosen = [0]
    while True:
        end_ns = ends_ns[chosen[-1]]
        reached = int(np.searchsorted(starts_ns, end_ns + apart_ns))
        best = int(furthest[reached - 1])
        if ends_ns[best] > end_ns:
            chosen.append(best)
            continue
        yield order[chosen]
        if reached == len(order):
            return
        chosen = [reached]


def merged_spans(starts_ns: Ints, ends_ns: Ints, apart_ns: int) -> list[Span]:
    """Return the union of spans with these starts and ends, with gaps below `apart_ns` closed, sorted."""
    return [
        Span(int(starts_ns[chosen[0]]), int(ends_ns[chosen[-1]]))
        for chosen in covering(starts_ns, ends_ns, apart_ns)
    ]
