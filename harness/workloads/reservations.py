"""Reservations without a coordinator: try, then confirm; a delayed message cancels what was not confirmed.

Source: the TCC pattern (try, confirm, cancel) over a message queue. With each reservation the client sends a delayed
message to the owner of the resource. When that message arrives, the owner cancels the reservation unless it was
confirmed.
"""

from __future__ import annotations

from random import Random

from staticfire.checkers.op_kinds.values import SendValue
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.generators.keyed_sends import KeyedSends
from staticfire.harness.workloads.delay_levels import delay_levels_ms
from staticfire.harness.workloads.delayed import awaits
from staticfire.harness.workloads.workload import Workload

DELAY_LEVEL = 3  # 10 s in RocketMQ's table: longer than a confirmation takes
GIVEN_UP_SHARE = 0.15  # share of the reservations that is never confirmed
CONFIRMS = "confirms"  # property with the key of the confirmed reservation


class Reservations(KeyedSends):
    """Makes each process reserve with a delayed message, and confirm with its next one unless it gives up or dies."""

    def __init__(self, random: Random, campaign: Campaign) -> None:
        super().__init__(random, campaign)
        self._delay_ms = delay_levels_ms(campaign)[DELAY_LEVEL - 1]
        self._open: dict[int, str] = {}  # by process

    def _dress(self, process: int, message: SendValue) -> None:
        reserved = self._open.pop(process, None)
        if reserved is not None:
            message["properties"] = {CONFIRMS: reserved}
            return
        message |= {"delay_level": DELAY_LEVEL, "delay_ms": self._delay_ms}
        if self._random.random() >= GIVEN_UP_SHARE:
            self._open[process] = message["key"]


RESERVATIONS = Workload(
    name="reservations",
    summary="a delayed message cancels each reservation that was never confirmed (try, confirm, cancel)",
    generator=Reservations,
    awaits=awaits,
    settle_s=60.0,
    avoids=("disk-lost",),  # a delayed message of a master that never returns is never delivered
    options={"batch_share": 0.0, "one_way_share": 0.0},
)
