"""The timer of delayed delivery; it runs only while a delayed message waits."""

from __future__ import annotations

import asyncio

from staticfire.system_under_test.broker.delivery.delayed_delivery import (
    LOOK_INTERVAL_MAX_MS,
    DelayedDelivery,
)
from staticfire.system_under_test.runtime.env import Log

FAILURE_PAUSE_MS = 10_000  # RocketMQ, DELAY_FOR_A_PERIOD
MS_PER_S = 1_000


class DelayTimer:
    """Calls `DelayedDelivery.deliver_due` when a message may be due."""

    def __init__(self, delivery: DelayedDelivery, log: Log) -> None:
        self._delivery = delivery
        self._log = log
        self._timer: asyncio.TimerHandle | None = None
        self._runs = False

    def start(self) -> None:
        self._runs = True
        self._arm(0)

    def stop(self) -> None:
        """Stop delivering."""
        self._runs = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def expect(self) -> None:
        """Start the timer if it does not run: a delayed message is about to be put. The shortest delay is a second."""
        self._delivery.notice_clock_step()
        if self._timer is None and self._runs:
            self._arm(LOOK_INTERVAL_MAX_MS)

    def _arm(self, wait_ms: int) -> None:
        self._timer = asyncio.get_running_loop().call_later(wait_ms / MS_PER_S, self._deliver_due)

    def _deliver_due(self) -> None:
        self._timer = None
        try:
            wait_ms = self._delivery.deliver_due()
        except Exception as error:
            self._log.error("delayed delivery failed", error=repr(error))
            wait_ms = FAILURE_PAUSE_MS
        if wait_ms is not None and self._runs:
            self._arm(wait_ms)
