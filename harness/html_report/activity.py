"""Counts events in each slice of a run: sends, deliveries, unseen messages; and unseen messages by queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.model.columns import UNKNOWN, Ints, Names, Outcome
from staticfire.harness.html_report.history_rows import QueueEvents, Rows

NS_PER_S = 1_000_000_000
NEVER_NS = 1 << 62
SLICES_MAX = 600
GROUPS_MAX = 6  # groups with a line of their own
OUTCOMES = {
    Outcome.OK: "acknowledged",
    Outcome.WEAK: "weak status",
    Outcome.UNKNOWN: "unclear",
    Outcome.FAILED: "refused",
}


@dataclass(frozen=True, slots=True)
class Slices:
    """The run's time in equal slices: `count` slices of `length_s` whole seconds."""

    count: int
    length_s: int

    def of(self, time_ns: Ints) -> Ints:
        """Return the slice of each time. Times behind the end belong to the last slice."""
        return np.clip(time_ns // (self.length_s * NS_PER_S), 0, self.count - 1)

    def counts(self, time_ns: Ints) -> Ints:
        return np.bincount(self.of(time_ns), minlength=self.count)


def slices_until(end_s: float) -> Slices:
    """Return at most SLICES_MAX slices that reach beyond `end_s`."""
    seconds = int(end_s) + 1
    length_s = -(-seconds // SLICES_MAX)
    return Slices(count=-(-seconds // length_s), length_s=length_s)


@dataclass(slots=True)
class Unseen:
    """Acknowledged messages of one group's topics, by slice of acknowledgement and of first delivery to the group."""

    acked: Ints  # acknowledged messages by slice
    given: Ints
    left: dict[int, int] = field(default_factory=dict)  # queue -> messages that the group never got

    def over_time(self) -> list[int]:
        """Return the number of acknowledged messages without a delivery, at the end of each slice."""
        found: list[int] = np.cumsum(self.acked - self.given).tolist()
        return found


class Activity:
    """The counts of a run, added up queue by queue."""

    def __init__(self, names: Names, facts: RunFacts, slices: Slices) -> None:
        self.names, self.slices = names, slices
        self.sends: dict[str, Ints] = {
            name: np.zeros(slices.count, np.int64) for name in OUTCOMES.values()
        }
        self.deliveries: dict[str, Ints] = {}  # group -> calls of its listeners by slice
        self.unseen: dict[str, Unseen] = {}
        self.slowest: tuple[int, int, int] = (-1, UNKNOWN, UNKNOWN)  # lag in ns, message, queue
        self._topics = {
            group: set(topics)
            for group, topics in facts.groups.items()
            if group not in facts.wanted_tags and group not in facts.assigned
        }

    def add(self, events: QueueEvents) -> None:
        for outcome, name in OUTCOMES.items():
            times = events.sends["invoke_ns"][events.sends["outcome"] == outcome]
            self.sends[name] += self.slices.counts(times)
        for number in np.unique(events.deliveries["group"]).tolist():
            times = events.deliveries["invoke_ns"][events.deliveries["group"] == number]
            counts, group = self.slices.counts(times), self.names.groups[number]
            self.deliveries[group] = self.deliveries.get(group, 0) + counts
        if events.queue != UNKNOWN:
            self._add_unseen(events)

    def _add_unseen(self, events: QueueEvents) -> None:
        topic = self.names.logs[events.queue].topic
        acked = events.sends.where(events.sends["outcome"] == Outcome.OK)
        for group, topics in self._topics.items():
            if topic not in topics or not len(acked):
                continue
            number = self.names.groups.index(group) if group in self.names.groups else UNKNOWN
            mine = events.deliveries.where(events.deliveries["group"] == number)
            first_ns = first_given_ns(acked, mine)
            unseen = self.unseen.get(group)
            if unseen is None:
                nothing = np.zeros(self.slices.count, np.int64)
                unseen = self.unseen[group] = Unseen(nothing, nothing.copy())
            was_given = first_ns != NEVER_NS
            seen_ns = np.maximum(first_ns[was_given], acked["time_ns"][was_given])
            unseen.acked += self.slices.counts(acked["time_ns"])
            unseen.given += self.slices.counts(seen_ns)
            if left := int((~was_given).sum()):
                unseen.left[events.queue] = left
            self._note_slowest(events.queue, acked, first_ns, was_given)

    def _note_slowest(self, queue: int, acked: Rows, first_ns: Ints, was_given: Ints) -> None:
        if not was_given.any():
            return
        lag_ns = np.where(was_given, first_ns - acked["time_ns"], -1)
        at = int(lag_ns.argmax())
        found = (int(lag_ns[at]), int(acked["message"][at]), queue)
        self.slowest = max(self.slowest, found)

    def main_groups(self) -> list[str]:
        """Return at most GROUPS_MAX groups: those with the most delivered and undelivered messages."""
        sizes = {group: int(unseen.acked.sum()) for group, unseen in self.unseen.items()}
        for group, counts in self.deliveries.items():
            sizes[group] = max(sizes.get(group, 0), int(counts.sum()))
        return sorted(sizes, key=lambda group: (-sizes[group], group))[:GROUPS_MAX]


def first_given_ns(sends: Rows, deliveries: Rows) -> Ints:
    """Return the time of each sent message's first delivery, NEVER_NS if there is none; shape (sends,)."""
    messages, where = np.unique(deliveries["message"], return_inverse=True)
    first = np.full(len(messages) + 1, NEVER_NS, np.int64)
    np.minimum.at(first, where, deliveries["invoke_ns"])
    at = np.searchsorted(messages, sends["message"])
    at_known = np.minimum(at, max(len(messages) - 1, 0))
    known = messages[at_known] == sends["message"] if len(messages) else np.zeros(len(sends), bool)
    found: Ints = first[np.where(known, at_known, len(messages))]
    return found


@dataclass(frozen=True, slots=True)
class Measured:
    """Durations of one kind by slice, in microseconds; -1 where nothing was measured."""

    name: str
    p50: Sequence[int]
    p99: Sequence[int]
    longest: Sequence[int]


def measured_series(seconds: Sequence[Mapping[str, object]], slices: Slices) -> list[Measured]:
    """Return the series of the checker `latency`, in the slices of the report.

    A slice of several seconds has their worst p99 and maximum, and the median of the second with the most messages.
    Raises KeyError, TypeError, ValueError for malformed rows.
    """
    rows: dict[str, list[tuple[int, int, int, int, int]]] = {}
    for row in seconds:
        p50, p99, longest, count, second = (
            int(row[name])  # type: ignore[call-overload]
            for name in ("p50", "p99", "max", "count", "second")
        )
        rows.setdefault(str(row["what"]), []).append((second, count, p50, p99, longest))
    return [_series(name, found, slices) for name, found in rows.items()]


def _series(name: str, rows: Sequence[tuple[int, int, int, int, int]], slices: Slices) -> Measured:
    p50, p99, longest, most = ([-1] * slices.count for _ in range(4))
    for second, count, middle, high, top in rows:
        at = min(max(second // slices.length_s, 0), slices.count - 1)
        if count > most[at]:
            most[at], p50[at] = count, middle
        p99[at], longest[at] = max(p99[at], high), max(longest[at], top)
    return Measured(name, p50, p99, longest)
