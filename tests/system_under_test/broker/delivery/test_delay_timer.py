"""When the timer of delayed delivery looks: between its start and its end, and only while something waits."""

from __future__ import annotations

import asyncio
from typing import cast

from staticfire.system_under_test.broker.delivery.delay_timer import FAILURE_PAUSE_MS, DelayTimer
from staticfire.system_under_test.broker.delivery.delayed_delivery import (
    LOOK_INTERVAL_MAX_MS,
    DelayedDelivery,
)
from tests.system_under_test.client.virtual_time import in_virtual_time, now_s
from tests.system_under_test.remoting.manual_loop import MemoryLog

LOOK_S = LOOK_INTERVAL_MAX_MS / 1000


class Delivery:
    """Notes when it is looked at; then it says when to look again: None for never, an error raises."""

    def __init__(self, *waits_ms: int | Exception | None) -> None:
        self.looks_s: list[float] = []
        self._waits_ms = list(waits_ms)

    def notice_clock_step(self) -> None: ...

    def deliver_due(self) -> int | None:
        self.looks_s.append(round(now_s(), 3))
        wait_ms = self._waits_ms.pop(0)
        if isinstance(wait_ms, Exception):
            raise wait_ms
        return wait_ms


def make_timer(delivery: Delivery) -> DelayTimer:
    return DelayTimer(cast(DelayedDelivery, delivery), MemoryLog())


@in_virtual_time
async def test_it_looks_as_long_as_something_waits_and_again_when_more_comes() -> None:
    delivery = Delivery(2_000, None, None)
    timer = make_timer(delivery)
    timer.start()
    await asyncio.sleep(10)
    assert delivery.looks_s == [0.0, 2.0]
    timer.expect()
    timer.expect()
    await asyncio.sleep(10)
    assert delivery.looks_s == [0.0, 2.0, 10 + LOOK_S]


@in_virtual_time
async def test_before_its_start_and_after_its_end_it_never_looks() -> None:
    delivery = Delivery(2_000)
    timer = make_timer(delivery)
    timer.expect()
    await asyncio.sleep(5)
    assert delivery.looks_s == []
    timer.start()
    await asyncio.sleep(1)
    timer.stop()
    timer.expect()
    await asyncio.sleep(30)
    assert delivery.looks_s == [5.0]


@in_virtual_time
async def test_after_a_failure_it_pauses() -> None:
    delivery = Delivery(OSError("no disk"), None)
    make_timer(delivery).start()
    await asyncio.sleep(60)
    assert delivery.looks_s == [0.0, FAILURE_PAUSE_MS / 1000]
