"""Calls a listener without any order (RocketMQ: ConsumeMessageConcurrentlyService).

It sends a failed message back, so that it comes again from the retry topic; if that fails, it retries the message here.
Either way other messages go on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial

from staticfire.system_under_test.client.consumer.consumption import ConsumerParts
from staticfire.system_under_test.client.consumer.process_queue import ProcessQueue
from staticfire.system_under_test.client.consumer.queue_puller import QueuePuller
from staticfire.system_under_test.client.listening import ConsumeResult, listen
from staticfire.system_under_test.protocol.message import Message

RETRY_S = 5.0  # RocketMQ: ConsumeMessageConcurrentlyService.submitConsumeRequestLater
EXPIRED_MAX = 16  # RocketMQ: ProcessQueue.cleanExpiredMsg, in one round
EXPIRED_DELAY_LEVEL = 3


class ConcurrentConsumption:
    """See `consumption.Consumption`. It has one task per call of the listener, and none between calls."""

    def __init__(self, puller: QueuePuller, parts: ConsumerParts) -> None:
        self.consumed_at_s = 0.0
        self._puller = puller
        self._parts = parts
        self._env = parts.client.env
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[int, asyncio.Task[None]] = {}  # by serial number
        # Messages that no broker accepted, one per call: newer messages may have passed them.
        self._retries: deque[list[Message]] = deque()
        self._expiring: asyncio.Task[None] | None = None
        self._last_task = 0
        self._is_closed = False
        self._is_dropped = False

    def wake(self, messages: ProcessQueue) -> None:
        calls_max = self._parts.calls_max
        while len(self._tasks) < calls_max and (batch := self._next_batch(messages)):
            number = self._last_task = self._last_task + 1
            self._tasks[number] = self._loop.create_task(self._consume(number, messages, batch))

    def close(self) -> None:
        self._is_closed = True

    def drop(self) -> None:
        self._is_closed = self._is_dropped = True

    @property
    def calls(self) -> list[asyncio.Task[None]]:
        return list(self._tasks.values())

    async def _consume(self, number: int, messages: ProcessQueue, batch: list[Message]) -> None:
        try:
            while batch:
                await self._consume_batch(messages, batch)
                batch = self._next_batch(messages)
        finally:
            del self._tasks[number]

    def _next_batch(self, messages: ProcessQueue) -> list[Message]:
        """The messages of the next call; empty if there are none, or no further call may begin."""
        if self._is_closed:
            return []
        if self._retries:
            return self._retries.popleft()
        return messages.take(self._parts.consume_batch)

    async def _consume_batch(self, messages: ProcessQueue, batch: list[Message]) -> None:
        started_s = self._loop.time()
        messages.begin(batch, started_s)
        result = await listen(self._env, self._parts.listener, batch, self._puller.queue)
        self.consumed_at_s = now_s = self._loop.time()
        failed = result.failed(batch)
        took_s = now_s - started_s
        self._parts.figures.consumed(now_s, len(batch), took_s, succeeded=not failed)
        if self._is_dropped:
            return
        if not failed:
            messages.finish(batch)
        else:
            messages.finish(batch[: len(batch) - len(failed)])
            await self._failed(messages, [m for m in failed if messages.holds(m)], result)
        self._puller.resume()

    async def _failed(
        self, messages: ProcessQueue, failed: list[Message], result: ConsumeResult
    ) -> None:
        if self._parts.drops_failed:
            self._env.log.warning("messages are dropped", queue=str(self._puller.queue))
            messages.finish(failed)
            return
        kept = await self._send_back(messages, failed, result.delay_level)
        if kept:
            self._loop.call_later(RETRY_S, partial(self._retry, messages, kept))

    async def _send_back(
        self, messages: ProcessQueue, failed: list[Message], delay_level: int
    ) -> list[Message]:
        """Send messages back and finish them; return those that no broker accepted."""
        send_back = self._parts.send_back
        if send_back is None:
            return failed
        kept = []
        for message in failed:
            if await send_back(message, self._puller.queue, delay_level):
                messages.finish([message])
            else:
                kept.append(message)
        return kept

    def _retry(self, messages: ProcessQueue, batch: list[Message]) -> None:
        if still_here := [message for message in batch if messages.holds(message)]:
            for message in still_here:
                message.reconsume_times += 1
            self._retries.append(still_here)
            self.wake(messages)

    def expire(self, messages: ProcessQueue) -> None:
        """Send back messages at the queue's front that the listener has had for longer than the consume timeout."""
        if self._parts.send_back is None or self._expiring is not None or self._is_closed:
            return
        since_s = self._loop.time() - self._parts.consume_timeout_s
        if expired := messages.begun_before(since_s, EXPIRED_MAX):
            self._expiring = self._loop.create_task(self._expire(messages, expired))

    async def _expire(self, messages: ProcessQueue, expired: list[Message]) -> None:
        try:
            self._env.log.warning("the listener takes too long", messages=len(expired))
            await self._send_back(messages, expired, EXPIRED_DELAY_LEVEL)
            self._puller.resume()
        finally:
            self._expiring = None
