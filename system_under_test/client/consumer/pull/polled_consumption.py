"""Keeps the messages of one queue until the application polls them (RocketMQ: DefaultLitePullConsumerImpl)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from staticfire.system_under_test.client.consumer.process_queue import ProcessQueue
from staticfire.system_under_test.client.consumer.queue_puller import QueuePuller
from staticfire.system_under_test.protocol.message import Message


class PolledConsumption:
    """See `consumption.Consumption`. Messages handed out count as consumed only at the next poll or commit.

    Args:
        arrived: called when there may be something to poll.
    """

    calls: list[asyncio.Task[None]]

    def __init__(self, puller: QueuePuller, arrived: Callable[[], None]) -> None:
        self.consumed_at_s = 0.0
        self.calls = []
        self._puller = puller
        self._arrived = arrived
        self._handed_out: list[Message] = []
        self._is_closed = False

    def wake(self, messages: ProcessQueue) -> None:
        if messages.has_pending:
            self._arrived()

    def close(self) -> None:
        self._is_closed = True

    def drop(self) -> None:
        self._is_closed = True

    def expire(self, messages: ProcessQueue) -> None:
        """Do nothing: the application may take as long as it likes between polls."""

    def hand_out(self, count_max: int) -> list[Message]:
        """The next messages of the queue; empty if there are none."""
        messages = self._puller.messages
        if self._is_closed or messages is None:
            return []
        batch = messages.take(count_max)
        self._handed_out += batch
        return batch

    def finish(self, now_s: float) -> None:
        """Count the messages handed out as consumed."""
        messages, done = self._puller.messages, self._handed_out
        if done and messages is not None:
            self._handed_out = []
            self.consumed_at_s = now_s
            messages.finish(done)

    def forget(self) -> None:
        """Do not count the messages handed out: the application has sought another offset."""
        self._handed_out = []

    @property
    def position(self) -> int | None:
        """The offset after the last message handed out; None until the start is known."""
        messages = self._puller.messages
        if self._handed_out:
            return self._handed_out[-1].queue_offset + 1
        return None if messages is None else messages.commit_offset
