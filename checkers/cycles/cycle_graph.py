"""The dependency graph of transactions, reduced to the edges that may lie on a cycle.

Transactions are numbered in the order of their completions. An edge between data is *ww* (both sent, to neighbouring
positions of a log), *wr* (one sent a message that the other polled) or *rw* (one polled up to a position, and the other
sent the message at the next position). Edges of a process or of real time always lead forward in this
numbering, so a cycle needs an edge between data that leads *back*. Each such edge spans the numbers between its ends.
Merged spans are disjoint segments, and every strongly connected component lies inside one segment. The search ignores
all other transactions, so a graph of a million transactions shrinks to the few that ran at the same time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple

from staticfire.checkers.cycles.txn_log import TxnLog, Value, reads_of

Kind = Literal["ww", "wr", "rw", "process", "realtime"]


class Edge(NamedTuple):
    """Transaction number `before` must precede transaction number `after`. The other fields give the reason."""

    before: int
    after: int
    kind: Kind
    key: str = ""
    value: Value = ""
    next_value: Value = ""


class Segment(NamedTuple):
    """Consecutive transactions that may lie on cycles, from `first` to `last`, and the data edges among them."""

    first: int
    last: int
    edges: Sequence[Edge]


def data_edges(log: TxnLog) -> Iterator[Edge]:
    """Yield ww, wr and rw edges between different committed transactions."""
    readers = _readers(log)
    for key, value, next_value in log.neighbours():
        after = log.writer_of.get((key, next_value))
        if after is None or not log.committed[after]:
            continue
        before = log.writer_of.get((key, value))
        if before is not None and before != after and log.committed[before]:
            yield Edge(before, after, "ww", key, value, next_value)
        for reader in readers.last.get((key, value), ()):
            if reader != after:
                yield Edge(reader, after, "rw", key, value, next_value)
    for (key, value), all_readers in readers.all.items():
        writer = log.writer_of.get((key, value))
        if writer is not None and log.committed[writer]:
            yield from (Edge(writer, r, "wr", key, value) for r in all_readers if r != writer)


class _Readers(NamedTuple):
    """Successful transactions by the messages that they polled, and by the last message of a key that they polled."""

    all: dict[tuple[str, Value], list[int]]
    last: dict[tuple[str, Value], list[int]]


def _readers(log: TxnLog) -> _Readers:
    readers = _Readers({}, {})
    for number, txn in enumerate(log.txns):
        if txn.type != "ok":
            continue
        furthest: dict[str, tuple[int, Value]] = {}
        for key, _, value in reads_of(txn):
            of_message = readers.all.setdefault((key, value), [])
            if not of_message or of_message[-1] != number:
                of_message.append(number)
            offset = log.offset_of.get((key, value))
            if offset is not None and (key not in furthest or offset > furthest[key][0]):
                furthest[key] = (offset, value)
        for key, (_, value) in furthest.items():
            readers.last.setdefault((key, value), []).append(number)
    return readers


def segments(edges: Iterable[Edge]) -> list[Segment]:
    """Return the segments: only transactions between the ends of edges that lead back can be on a cycle."""
    edges = list(edges)
    spans: list[tuple[int, int]] = []
    for first, last in sorted((e.after, e.before) for e in edges if e.after < e.before):
        if spans and first <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(last, spans[-1][1]))
        else:
            spans.append((first, last))
    starts = [first for first, _ in spans]
    inside: list[list[Edge]] = [[] for _ in spans]
    for edge in edges:
        low, high = min(edge[:2]), max(edge[:2])
        at = bisect_left(starts, low + 1) - 1
        if at >= 0 and high <= spans[at][1]:
            inside[at].append(edge)
    return [Segment(*span, sorted(set(of))) for span, of in zip(spans, inside, strict=True)]


def process_edges(log: TxnLog, segment: Segment) -> Iterator[Edge]:
    """Yield an edge from each successful transaction to the committed ones after it in its process.

    The last of these is the next successful one. Edges to later transactions follow from the yielded ones.
    """
    last: dict[int, int] = {}
    for number in _committed(log, segment):
        process = log.txns[number].process
        if process in last:
            yield Edge(last[process], number, "process")
        if log.txns[number].type == "ok":
            last[process] = number


def realtime_edges(log: TxnLog, segment: Segment) -> Iterator[Edge]:
    """Yield an edge from each successful transaction to the committed ones that began after it had ended.

    Edges that follow from others are left out. An unclear transaction may take effect at any time after it began.
    """
    ended = [number for number in _committed(log, segment) if log.txns[number].type == "ok"]
    ends = [log.txns[number].op_index for number in ended]
    latest_begin = list(accumulate((log.txns[n].invoke_index for n in ended), max))
    for number in _committed(log, segment):
        before = bisect_left(ends, log.txns[number].invoke_index)  # how many had ended
        for at in range(before - 1, -1, -1):
            if ends[at] < latest_begin[before - 1]:
                break  # another one began after that one had ended, and ended before this one began
            yield Edge(ended[at], number, "realtime")


def _committed(log: TxnLog, segment: Segment) -> Iterator[int]:
    numbers = range(segment.first, segment.last + 1)
    return (number for number in numbers if log.committed[number])
