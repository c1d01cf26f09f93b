"""Arranges the life of a message in rows and lanes: one row per event, one lane per node."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from staticfire.harness.explain.event import Event
from staticfire.harness.html_report.svg import at_s

LANES_MAX = 10
ROWS_MAX = 60  # of more rows, the first and the last half
CLUSTER = "cluster"  # the lane of events without a single node

# The kind of an event by words in its text; the first match counts.
KINDS = (
    ("the message is gone", "gone"),
    (" strikes", "fault"),
    ("ends by itself", "fault"),
    (" is over", "heal"),
    ("is answered SEND_OK", "ack"),
    ("is acknowledged at the same offset", "other"),
    ("is refused", "refused"),
    ("has no certain answer", "refused"),
    (" gets it", "given"),
    (" at that offset", "other"),
    ("on disk of", "look"),
)
MARKS = {
    "gone": ("✕", "the message is gone"),
    "fault": ("▼", "a fault strikes, or a node ends by itself"),
    "heal": ("△", "a fault is over"),
    "ack": ("✓", "acknowledged"),
    "refused": ("–", "no or no certain answer"),
    "given": ("◆", "given to a listener"),
    "other": ("◇", "another message in its place"),
    "look": ("○", "what the harness saw"),
    "": ("●", "another event"),
}


@dataclass(frozen=True, slots=True)
class LaneRow:
    """One event. `lanes` are numbers of lanes. A row without a time stands for omitted events."""

    time: str
    after: str  # time since the previous row
    text: str
    lanes: Collection[int]
    kind: str

    @property
    def mark(self) -> str:
        return MARKS[self.kind][0]


@dataclass(frozen=True, slots=True)
class Lanes:
    names: Sequence[str]
    rows: Sequence[LaneRow]


def lanes_of(events: Sequence[Event], roles: Mapping[str, int]) -> Lanes:
    """Return lanes in the order of a message's path: producers, servers, consumers, others (`roles`: node to rank)."""
    shown, left_out = _bounded(events)
    nodes = {node for event in shown for node in _nodes(event)}
    names = sorted(nodes, key=lambda node: (roles.get(node, len(roles)), node))
    names = names[:LANES_MAX]
    lane_of = {name: number for number, name in enumerate(names)}
    rows: list[LaneRow] = []
    before_ns: int | None = None
    for number, event in enumerate(shown):
        if left_out and number == len(shown) // 2:
            rows.append(LaneRow("", "", f"{left_out} more events", (), ""))
        after = "" if before_ns is None else _after(event.time_ns - before_ns)
        lanes = [lane_of[node] for node in _nodes(event) if node in lane_of]
        before_ns = event.time_ns
        rows.append(LaneRow(at_s(event.time_ns), after, event.text, lanes, _kind(event.text)))
    return Lanes(names, rows)


def _bounded(events: Sequence[Event]) -> tuple[Sequence[Event], int]:
    if len(events) <= ROWS_MAX:
        return events, 0
    half = ROWS_MAX // 2
    return [*events[:half], *events[-half:]], len(events) - 2 * half


def _nodes(event: Event) -> list[str]:
    return event.where.split(", ") if event.where else [CLUSTER]


def _kind(text: str) -> str:
    return next((kind for words, kind in KINDS if words in text), "")


def _after(gap_ns: int) -> str:
    if gap_ns <= 0:
        return ""
    return f"+{gap_ns / 1e6:.3g} ms" if gap_ns < 1_000_000_000 else f"+{gap_ns / 1e9:.3g} s"
