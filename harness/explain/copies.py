"""Counts the copies of a message over time: the nodes that had it on disk, and those that had it only in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from staticfire.checkers.guarantees.verdict import Finding, seconds
from staticfire.harness.explain.life import Record, is_moved
from staticfire.harness.recording.stored_logs import StoredLogs, log_position

EMPTYING = ("disk-lost", "wiped-slave")  # kinds of faults that leave a target without data


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The copies from a given time on."""

    time_ns: int
    durable: tuple[str, ...]  # nodes that have it on disk
    volatile: tuple[str, ...]  # nodes that have it only in memory
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """A part of an explanation. `answer_ns`: when the producer had its answer."""

    answer_ns: int
    steps: Sequence[Step]
    name: str = "copies"

    def lines(self) -> list[str]:
        if len(self.steps) == 1:  # the event of the answer has the same information
            return []
        return [
            "copies    "
            + "; ".join(
                f"{seconds(step.time_ns)} {step.why}: {len(step.durable)} on disk, "
                f"{len(step.volatile)} in memory alone"
                for step in self.steps
            )
        ]

    def to_json(self) -> dict[str, object]:
        return {"answer_ns": self.answer_ns, "steps": [asdict(step) for step in self.steps]}


def copies_of(
    witness: Finding,
    observations: Sequence[Record],
    faults: Sequence[Record],
    nodes: Collection[str],
    stored_logs: StoredLogs | None,
) -> Copies | None:
    """Return the copies of a message; None if no observer recorded them (real machines), or those of another record."""
    seen = next(
        (
            one
            for one in observations
            if one["kind"] == "ack_durability" and one["key"] == witness.key is not None
        ),
        None,
    )
    if seen is None or witness.physical_offset is None or seen["end_offset"] is None:
        return None
    if is_moved(witness, seen):
        return None
    where = (witness.physical_offset, int(seen["end_offset"]))
    durable = set(seen["durable_on"])
    volatile = set(seen["cached_on"]) - durable
    steps = [_step(seen["time_ns"], durable, volatile, "answer")]
    changes = [
        *_power_cuts(faults, where, stored_logs),
        *_emptied(faults),
        *_recovered(observations, where[0]),
    ]
    for time_ns, node, has_it, why in sorted(changes):
        if time_ns < seen["time_ns"] or node not in {*durable, *volatile} or node not in nodes:
            continue
        before = (set(durable), set(volatile))
        if not has_it:
            durable.discard(node)
        elif node in volatile:
            durable.add(node)
        volatile.discard(node)
        if (durable, volatile) != before:
            steps.append(_step(time_ns, durable, volatile, why))
    return Copies(answer_ns=seen["time_ns"], steps=steps)


def _step(time_ns: int, durable: set[str], volatile: set[str], why: str) -> Step:
    return Step(
        time_ns=time_ns, durable=tuple(sorted(durable)), volatile=tuple(sorted(volatile)), why=why
    )


_Change = tuple[int, str, bool, str]  # time, node, whether it then has the message, reason


def _power_cuts(
    faults: Sequence[Record], where: tuple[int, int], stored_logs: StoredLogs | None
) -> Iterator[_Change]:
    """Yield the changes by power cuts: a copy in memory that survived a power cut is on disk."""
    for fault in faults:
        for incident in fault.get("incidents", ()):
            if incident["what"] == "power cut":
                gone = any(_overlaps(one, where, stored_logs) for one in incident["dropped"])
                yield incident["at_ns"], incident["node"], not gone, "power cut"


def _overlaps(
    dropped: Mapping[str, Any], where: tuple[int, int], stored_logs: StoredLogs | None
) -> bool:
    """Whether a record, by its position in the log, overlaps the dropped bytes."""
    base = log_position(stored_logs, dropped["path"])
    if base is None:
        return False
    return bool(base + dropped["start"] < where[1] and where[0] < base + dropped["end"])


def _emptied(faults: Sequence[Record]) -> Iterator[_Change]:
    for fault in faults:
        if fault["kind"] in EMPTYING and fault.get("struck_ns") is not None:
            for node in fault["targets"]:
                yield fault["struck_ns"], node, False, fault["kind"]


def _recovered(observations: Sequence[Record], start: int) -> Iterator[_Change]:
    for seen in observations:
        if seen["kind"] == "recovery" and "end_offset" in seen and seen["end_offset"] <= start:
            yield seen["time_ns"], str(seen.get("node", "")), False, "recovery"
