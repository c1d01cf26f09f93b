"""Reservations (try, confirm, cancel): those confirmed, and those that a delayed message cancelled.

Source: the TCC pattern; see `harness/workloads/reservations.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from staticfire.checkers.guarantees.promises import NS_PER_S
from staticfire.checkers.guarantees.verdict import seconds
from staticfire.checkers.op_kinds.values import ConsumeReport, SendValue
from staticfire.harness.results.run_result import RunResult
from staticfire.harness.workloads.reservations import CONFIRMS


@dataclass(slots=True)
class Reservation:
    """One try, identified by the key of its delayed message."""

    key: str
    made_ns: int
    confirmed_ns: int | None = None
    due_ns: int | None = None  # when the delayed message was first consumed


def reservations(result: RunResult) -> list[str]:
    """Return a paragraph if a reservation was made."""
    made = _made(result)
    if not made:
        return []
    looked = [one for one in made if one.due_ns is not None]
    taken_back = [one for one in looked if one.confirmed_ns is None or one.confirmed_ns > _due(one)]
    text = (
        f"{len(made)} reservations were made, each with a delayed message. {len(looked) - len(taken_back)} had been "
        f"confirmed when it came and stayed as they were"
    )
    if taken_back:
        first = taken_back[0]
        text += (
            f"; {len(taken_back)} had not, because their producer gave up, died or was cut off, and were taken back, "
            f"{first.key} of t={seconds(first.made_ns)} first, {(_due(first) - first.made_ns) / NS_PER_S:.1f} s later"
        )
    if open_ := [one for one in made if one.due_ns is None and one.confirmed_ns is None]:
        return [
            f"{text}. {len(open_)} stayed reserved: their delayed messages never came ({open_[0].key})."
        ]
    return [f"{text}. None stayed reserved: no coordinator needs to outlive a producer."]


def _due(one: Reservation) -> int:
    assert one.due_ns is not None
    return one.due_ns


def _made(result: RunResult) -> list[Reservation]:
    """Return acknowledged reservations in the order of time, with their later events."""
    if result.campaign.workload != "reservations":
        return []
    made: dict[str, Reservation] = {}
    for op in result.ops:
        if op.type != "ok":
            continue
        if op.f == "send":
            send: SendValue = op.value
            confirms = send.get("properties", {}).get(CONFIRMS, "")
            if confirms in made:
                made[confirms].confirmed_ns = op.time_ns
            elif "delay_ms" in send:
                made[send["key"]] = Reservation(send["key"], op.time_ns)
        elif op.f == "consume":
            delivery: ConsumeReport = op.value
            for message in delivery["messages"]:
                one = made.get(message[0])
                if one is not None and one.due_ns is None:
                    one.due_ns = op.time_ns
    return [*made.values()]
