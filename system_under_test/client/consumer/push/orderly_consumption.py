"""Calls a listener in the order of the queue (RocketMQ: ConsumeMessageOrderlyService).

There is one call at a time, and a failed message is retried before any other.
"""

from __future__ import annotations

import asyncio

from staticfire.system_under_test.client.consumer.consumption import UNLIMITED, ConsumerParts
from staticfire.system_under_test.client.consumer.process_queue import ProcessQueue
from staticfire.system_under_test.client.consumer.queue_puller import QueuePuller
from staticfire.system_under_test.client.listening import ConsumeResult, listen
from staticfire.system_under_test.protocol.message import Message

SUSPEND_MIN_S, SUSPEND_MAX_S = (
    0.01,
    30.0,
)  # RocketMQ: ConsumeMessageOrderlyService.submitConsumeRequestLater


class OrderlyConsumption:
    """See `consumption.Consumption`."""

    def __init__(self, puller: QueuePuller, parts: ConsumerParts) -> None:
        self.consumed_at_s = 0.0
        self._puller = puller
        self._parts = parts
        self._env = parts.client.env
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._suspension: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._is_dropped = False

    def wake(self, messages: ProcessQueue) -> None:
        if self._task is None and self._suspension is None and messages.has_pending:
            self._task = self._loop.create_task(self._consume(messages))

    def close(self) -> None:
        self._is_closed = True
        if self._suspension is not None:
            self._suspension.cancel()

    def drop(self) -> None:
        self._is_dropped = True
        self.close()

    @property
    def calls(self) -> list[asyncio.Task[None]]:
        return [] if self._task is None else [self._task]

    def expire(self, messages: ProcessQueue) -> None:
        """Do nothing: however long the listener takes, no message may overtake another."""

    async def _consume(self, messages: ProcessQueue) -> None:
        try:
            while (batch := self._next_batch(messages)) and await self._call(messages, batch):
                pass
        finally:
            self._task = None

    def _next_batch(self, messages: ProcessQueue) -> list[Message]:
        if self._is_closed or not self._parts.may_consume(self._puller.queue):
            return []
        return messages.take(self._parts.consume_batch)

    async def _call(self, messages: ProcessQueue, batch: list[Message]) -> bool:
        """Call the listener; return whether the queue may go on."""
        started_s = self._loop.time()
        messages.begin(batch, started_s)
        result = await listen(self._env, self._parts.listener, batch, self._puller.queue)
        self.consumed_at_s = now_s = self._loop.time()
        self._parts.figures.consumed(
            now_s, len(batch), now_s - started_s, succeeded=result.succeeded
        )
        if self._is_dropped:
            return False
        failed = list(result.failed(batch))
        messages.finish(batch[: len(batch) - len(failed)])
        kept = await self._without_spent(messages, failed, result)
        self._puller.resume()
        if not kept:
            return True
        for message in kept:
            message.reconsume_times += 1
        messages.give_back(kept)
        self._suspend(messages, result.suspend_s)
        return False

    async def _without_spent(
        self, messages: ProcessQueue, failed: list[Message], result: ConsumeResult
    ) -> list[Message]:
        """Send messages at the head that were tried often enough back as dead letters; return the others.

        A later message must not become a dead letter while an earlier one is still being retried.
        """
        limit, send_back = self._parts.reconsume_times_max, self._parts.send_back
        while failed and limit != UNLIMITED and send_back is not None:
            if failed[0].reconsume_times < limit:
                break
            if not await send_back(failed[0], self._puller.queue, result.delay_level):
                break
            messages.finish([failed.pop(0)])
        return failed

    def _suspend(self, messages: ProcessQueue, wanted_s: float | None) -> None:
        if self._is_closed:
            return
        seconds = self._parts.suspend_s if wanted_s is None else wanted_s
        seconds = min(max(seconds, SUSPEND_MIN_S), SUSPEND_MAX_S)
        self._suspension = self._loop.call_later(seconds, self._go_on, messages)

    def _go_on(self, messages: ProcessQueue) -> None:
        self._suspension = None
        self.wake(messages)
