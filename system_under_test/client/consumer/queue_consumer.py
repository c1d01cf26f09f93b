"""Consumes one assigned queue: passes pulled messages to the listener, and tracks the offset to commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from staticfire.system_under_test.client.consumer.consumption import Consumption
from staticfire.system_under_test.client.consumer.queue_puller import PullParts, QueuePuller
from staticfire.system_under_test.client.waiting import wait_until
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.bodies_clients import ProcessQueueInfo


class QueueConsumer:
    """Consumes one queue from `start()` to `drop()`. A queue assigned again gets a new object.

    Args:
        consumption: makes the object that consumes the puller's messages.
    """

    def __init__(
        self,
        queue: MessageQueue,
        parts: PullParts,
        consumption: Callable[[QueuePuller], Consumption],
    ) -> None:
        self.queue = queue
        self._client = parts.client
        self._loop = asyncio.get_running_loop()
        self._puller = QueuePuller(queue, parts, self._arrived)
        self._consumption = consumption(self._puller)

    def start(self) -> None:
        self._puller.start()

    def start_at(self, offset: int) -> None:
        """Begin at `offset`, regardless of the group's stored offset."""
        self._puller.start_at(offset)

    def resume(self) -> None:
        """Pull again if flow control or a pause has stopped it."""
        self._puller.resume()

    def drop(self) -> None:
        """Stop: the queue belongs to another member now. Later answers and results do not count."""
        self._puller.drop()
        self._consumption.drop()

    def close(self) -> None:
        """Stop pulling and calling the listener; results of calls under way still count."""
        self._puller.drop()
        self._consumption.close()

    async def finish(self, timeout_s: float | None) -> None:
        """Close, and wait for the listener to finish its messages."""
        self.close()
        await self.ended(timeout_s)

    async def ended(self, timeout_s: float | None) -> None:
        """Wait until the calls of the listener under way have ended."""
        await wait_until(self._consumption.calls, lambda: False, timeout_s)

    @property
    def cached(self) -> int:
        """The number of messages that have arrived and are not finished."""
        messages = self._puller.messages
        return 0 if messages is None else len(messages)

    @property
    def is_busy(self) -> bool:
        """Whether a call of the listener is under way."""
        return bool(self._consumption.calls)

    @property
    def commit_offset(self) -> int | None:
        """The offset that may be committed now; None until the start is known."""
        messages = self._puller.messages
        return None if messages is None else messages.commit_offset

    @property
    def waits_for(self) -> str | None:
        """The address of the broker that owes this queue an answer."""
        return self._puller.waits_for

    def replicas_changed(self) -> None:
        """A broker has fallen silent or come back."""
        self._puller.replicas_changed()

    def expire(self) -> None:
        """Send back messages that the listener has had for too long."""
        if self._puller.messages is not None:
            self._consumption.expire(self._puller.messages)

    def info(self, *, locked_at_s: float | None = None) -> ProcessQueueInfo:
        """The state of the queue for administrators. `locked_at_s`: when we last requested its lock."""
        messages = self._puller.messages
        if messages is None:
            return ProcessQueueInfo()
        return ProcessQueueInfo(
            commit_offset=messages.commit_offset,
            cached_msg_min_offset=messages.commit_offset if len(messages) else 0,
            cached_msg_max_offset=messages.last_offset,
            cached_msg_count=len(messages),
            cached_msg_size_in_mi_b=messages.size_bytes >> 20,
            dropped=self._puller.is_dropped,
            locked=locked_at_s is not None,
            last_lock_timestamp=self._wall_ms(locked_at_s or 0.0),
            last_pull_timestamp=self._wall_ms(self._puller.pulled_at_s),
            last_consume_timestamp=self._wall_ms(self._consumption.consumed_at_s),
        )

    def _wall_ms(self, at_s: float) -> int:
        """A time of the loop's clock as milliseconds since 1970."""
        if at_s == 0.0:
            return 0
        return self._client.env.clock.wall_ms() - int((self._loop.time() - at_s) * 1000)

    def _arrived(self) -> None:
        if self._puller.messages is not None:
            self._consumption.wake(self._puller.messages)
