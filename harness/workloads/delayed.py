"""Messages with a delay level: none is early, none is late while no fault is on, and none is lost."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from staticfire.checkers.model.history import Op
from staticfire.checkers.op_kinds.values import ConsumeReport, SendValue
from staticfire.faults.model.draws import pick
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.generators.keyed_sends import KeyedSends
from staticfire.harness.workloads.delay_levels import delay_levels_ms
from staticfire.harness.workloads.workload import Workload

DELAYED_SHARE = 0.8
LEVEL_MS_MAX = 60_000  # longer levels would outlast the run
NS_PER_MS = 1_000_000
# A master that is down delivers its delayed messages late, since its slave does not deliver them.
TRAVEL_NS = 2_000 * NS_PER_MS


class DelayedSends(KeyedSends):
    """Gives most messages one of the levels that are short enough for a run."""

    def __init__(self, random: Random, campaign: Campaign) -> None:
        super().__init__(random, campaign)
        self._levels = [
            (number, delay_ms)
            for number, delay_ms in enumerate(delay_levels_ms(campaign), start=1)
            if delay_ms <= LEVEL_MS_MAX
        ]

    def _dress(self, process: int, message: SendValue) -> None:
        if self._random.random() < DELAYED_SHARE:
            level, delay_ms = pick(self._random, self._levels)
            message |= {"delay_level": level, "delay_ms": delay_ms}


def awaits(ops: Sequence[Op], now_ns: int) -> str | None:
    """Count acknowledged messages that are not due yet, or due and not yet delivered."""
    waiting: dict[str, int] = {}
    began: dict[str, int] = {}
    for op in ops:
        if op.f == "send" and "delay_ms" in op.value:
            send: SendValue = op.value
            began.setdefault(send["key"], op.time_ns)
            if op.type == "ok":
                due_ns = began[send["key"]] + send["delay_ms"] * NS_PER_MS
                waiting[send["key"]] = due_ns + TRAVEL_NS
        elif op.f == "consume":
            delivery: ConsumeReport = op.value
            for message in delivery["messages"]:
                waiting.pop(message[0], None)
    if not waiting:
        return None
    undue = sum(due_ns > now_ns for due_ns in waiting.values())
    return f"{len(waiting)} delayed messages have not come, {undue} of them not due"


DELAYED = Workload(
    name="delayed",
    summary="all delayed messages arrive, neither early nor late",
    generator=DelayedSends,
    awaits=awaits,
    settle_s=120.0,
    options={"batch_share": 0.0, "one_way_share": 0.0},
)
