"""Counts the copies of one message over time, in memory and on disk, and marks its acknowledgement.

The data cover two kinds of moments: the acknowledgement, at which the harness reads the nodes, and a recovery, which
reports the end of a node's log. A power cut in between loses the copies that are only in memory. A copy counts again if
the recovery finds it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from staticfire.checkers.guarantees.verdict import Finding

POWER = ("power-cut", "power-cut-in-operation", "cluster-power-cut")


@dataclass(frozen=True, slots=True)
class Step:
    """The numbers of copies from a given time on."""

    time_ns: int
    memory: int  # nodes that have it only in memory
    disk: int
    text: str


@dataclass(frozen=True, slots=True)
class Copies:
    steps: Sequence[Step]

    @property
    def at_ack(self) -> Step:
        return self.steps[0]


def copies_of(
    witness: Finding,
    observations: Sequence[Mapping[str, Any]],
    faults: Sequence[Mapping[str, Any]],
    nodes: Collection[str],
) -> Copies | None:
    """Return the copies of the message; None if the harness did not read the disks at its acknowledgement."""
    ack = next(
        (
            seen
            for seen in observations
            if seen["kind"] == "ack_durability" and seen["key"] == witness.key
        ),
        None,
    )
    if witness.key is None or ack is None:
        return None
    disk, memory = set(ack["durable_on"]), set(ack["cached_on"]) - set(ack["durable_on"])
    steps = [Step(ack["time_ns"], len(memory), len(disk), "acknowledged")]
    # nodes that lost it; a later record at its position is another message
    without: set[str] = set()
    for time_ns, node, seen in _moments(observations, faults, nodes):
        if time_ns <= ack["time_ns"]:
            continue
        before = set(memory), set(disk)
        memory.discard(node)
        text = f"power of {node} is cut"
        if seen is not None:
            has = seen["end_offset"] > (witness.physical_offset or 0) and node not in without
            (disk.add if has else disk.discard)(node)
            if not has:
                without.add(node)
            text = f"{node} recovers {'with' if has else 'without'} it"
        if (memory, disk) != before:
            steps.append(Step(time_ns, len(memory), len(disk), text))
    return Copies(steps)


def _moments(
    observations: Sequence[Mapping[str, Any]],
    faults: Sequence[Mapping[str, Any]],
    nodes: Collection[str],
) -> list[tuple[int, str, Mapping[str, Any] | None]]:
    """Return the times at which a node lost its memory (None) or recovered after an unclean end (the observation)."""
    cuts: list[tuple[int, str, Mapping[str, Any] | None]] = [
        (fault["struck_ns"], node, None)
        for fault in faults
        if fault["kind"] in POWER and fault["bitten"] and fault["struck_ns"] is not None
        for node in fault["targets"]
    ]
    recoveries = [
        (seen["time_ns"], str(seen["node"]), seen)
        for seen in observations
        if seen["kind"] == "recovery"
        and seen["node"] in nodes
        and "end_offset" in seen
        and seen.get("clean") is False
    ]
    return sorted([*cuts, *recoveries], key=lambda moment: moment[:2])
