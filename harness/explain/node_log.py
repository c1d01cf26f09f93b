"""Picks the lines that the servers of a queue logged during the life of a message, nearest to the finding."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from staticfire.checkers.guarantees.verdict import Finding, seconds
from staticfire.harness.explain.event import Event
from staticfire.harness.run_folder.node_logs import NodeLine

AFTER_NS = 1_000_000_000  # after the last moment of the message's life
LINES_MAX = 3  # in text
FIELDS_MAX = 3  # of a line, in text
VALUE_LENGTH_MAX = 60
SHOWN_AS_EVENTS = (" started", " stopped", "store opened")  # ends of lines


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLog:
    """A part of an explanation.

    Attributes:
        found: of each kind of line of a node the one nearest to the finding, warnings first, then the nearest.
        counts: how many lines of that kind there were, as in `found`.
        firsts_ns: when the first line of that kind was logged, as in `found`.
    """

    found: Sequence[NodeLine]
    counts: Sequence[int]
    firsts_ns: Sequence[int]
    name: str = "log"

    def lines(self) -> list[str]:
        shown = list(zip(self.found, self.counts, self.firsts_ns, strict=True))[:LINES_MAX]
        shown.sort(key=lambda one: one[0].time_ns)
        return [f"log       {_text(line, count, first_ns)}" for line, count, first_ns in shown]

    def to_json(self) -> list[dict[str, object]]:
        return [
            {
                "time_ns": line.time_ns,
                "node": line.node,
                "level": line.level,
                "event": line.event,
                "fields": dict(line.fields),
                "count": count,
                "first_ns": first_ns,
            }
            for line, count, first_ns in zip(self.found, self.counts, self.firsts_ns, strict=True)
        ]


def node_log_of(
    witness: Finding,
    events: Sequence[Event],
    lines: Iterable[NodeLine],
    nodes: Collection[str],
) -> NodeLog | None:
    """Return the log around a message's life; None if the servers logged nothing then that the events do not show.

    Args:
        events: the life of the message, oldest first.
        nodes: servers of the message's queue; empty: all servers count.
    """
    times = [witness.time_ns, *(event.time_ns for event in events)]
    begin_ns, end_ns = min(times), max(times) + AFTER_NS
    kinds: dict[tuple[str, str], list[NodeLine]] = {}
    for line in lines:
        is_near = begin_ns <= line.time_ns <= end_ns
        if (
            is_near
            and (not nodes or line.node in nodes)
            and not line.event.endswith(SHOWN_AS_EVENTS)
        ):
            kinds.setdefault((line.node, line.event), []).append(line)

    def distance_ns(line: NodeLine) -> int:
        return abs(line.time_ns - witness.time_ns)

    found = [
        (min(of_kind, key=distance_ns), len(of_kind), min(line.time_ns for line in of_kind))
        for of_kind in kinds.values()
    ]
    found.sort(key=lambda one: (one[0].level in ("", "info"), distance_ns(one[0])))
    if not found:
        return None
    nearest, counts, firsts_ns = zip(*found, strict=True)
    return NodeLog(found=nearest, counts=counts, firsts_ns=firsts_ns)


def _text(line: NodeLine, count: int, first_ns: int) -> str:
    more = f", {count} times, first at {seconds(first_ns)}" if count > 1 else ""
    return f"{seconds(line.time_ns)} {line.node}: {line.event}{_fields_text(line.fields)}{more}"


def _fields_text(fields: Mapping[str, object]) -> str:
    """Return the fields with short values."""
    texts = [
        f"{name} {value}"
        for name, value in fields.items()
        if isinstance(value, str | int | float) and len(str(value)) <= VALUE_LENGTH_MAX
    ]
    return f" ({', '.join(texts[:FIELDS_MAX])})" if texts else ""
