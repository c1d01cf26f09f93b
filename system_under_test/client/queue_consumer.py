"""One assigned queue: find the start, pull, hand to the listener, know what may be committed.

One pull is outstanding at a time and answers are callbacks; there is one task while the start is looked for and one
while the listener has messages, none in between (RocketMQ: PullMessageService, ConsumeMessageConcurrentlyService).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from system_under_test.client.client_instance import ClientInstance
from system_under_test.client.consume_figures import ConsumeFigures
from system_under_test.client.errors import ClientError
from system_under_test.client.offset_store import ConsumeFrom, OffsetStore, OffsetUnknown
from system_under_test.client.process_queue import ProcessQueue
from system_under_test.client.pulling import PullAnswer, PullOutcome, pull_command, read_answer
from system_under_test.client.routes import MASTER_ID
from system_under_test.client.subscription import Subscription
from system_under_test.client.waiting import wait_until
from system_under_test.protocol.bodies import MessageQueue
from system_under_test.protocol.bodies_clients import ProcessQueueInfo
from system_under_test.protocol.command import RemotingCommand
from system_under_test.protocol.message import Message

PULL_TIMEOUT_S = 30.0  # RocketMQ: CONSUMER_TIMEOUT_MILLIS_WHEN_SUSPEND
HOLD_S = 15.0  # RocketMQ: BROKER_SUSPEND_MAX_TIME_MILLIS
ERROR_PAUSE_S = 1.0  # RocketMQ: pullTimeDelayMillsWhenException
EMPTY_PAUSE_S = 0.2  # after an empty answer that the broker did not hold back
RETRY_S = 5.0  # RocketMQ: ConsumeMessageConcurrentlyService.submitConsumeRequestLater
# RocketMQ drops the queue on OFFSET_ILLEGAL and starts again 10 s later. A broker that has just restarted may say so
# before it has found its whole queue again, so here the answer counts when it comes this many times in a row.
ILLEGAL_ANSWERS_MIN = 3

Listener = Callable[[list[Message], MessageQueue], Awaitable[bool]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowLimits:
    """When to stop pulling until the listener has caught up, for one queue."""

    count_max: int = 1000  # RocketMQ: pullThresholdForQueue
    size_bytes_max: int = 100 << 20  # RocketMQ: pullThresholdSizeForQueue
    span_max: int = 2000  # RocketMQ: consumeConcurrentlyMaxSpan

    def allow(self, queue: ProcessQueue) -> bool:
        return (
            len(queue) <= self.count_max
            and queue.size_bytes <= self.size_bytes_max
            and (not len(queue) or queue.span <= self.span_max)
        )


DEFAULT_LIMITS = FlowLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerParts:
    """What all queues of one consumer share."""

    client: ClientInstance
    group: str
    subscription: Subscription
    offsets: OffsetStore
    listener: Listener
    consume_from: ConsumeFrom
    pull_batch: int
    consume_batch: int
    limits: FlowLimits
    figures: ConsumeFigures


class QueueConsumer:
    """Consumes one queue from `start()` to `drop()`. A queue that comes back gets a new one."""

    def __init__(self, queue: MessageQueue, parts: ConsumerParts) -> None:
        self.queue = queue
        self._parts = parts
        self._client = parts.client
        self._loop = asyncio.get_running_loop()
        self._messages: ProcessQueue | None = None  # None until the start is known
        self._is_dropped = False
        self._locating: asyncio.Task[None] | None = None
        self._consuming: asyncio.Task[None] | None = None
        self._pull_answer: asyncio.Future[RemotingCommand] | None = None
        self._pulled_from = (MASTER_ID, "")  # broker id and address of the outstanding pull
        self._pulled_at_s = 0.0
        self._consumed_at_s = 0.0
        self._suggested_id = MASTER_ID  # RocketMQ: PullAPIWrapper.pullFromWhichNodeTable
        self._next_pull: asyncio.TimerHandle | None = None
        self._illegal_answers = 0

    def start(self) -> None:
        self._locating = self._loop.create_task(self._locate())

    def start_at(self, offset: int) -> None:
        """Begin there, whatever the group has stored."""
        self._messages = ProcessQueue(offset)
        self._pull()

    def info(self) -> ProcessQueueInfo:
        """What is pulled and not yet consumed."""
        messages = self._messages
        if messages is None:
            return ProcessQueueInfo()
        return ProcessQueueInfo(
            commit_offset=messages.commit_offset,
            cached_msg_min_offset=messages.commit_offset if len(messages) else 0,
            cached_msg_max_offset=messages.last_offset,
            cached_msg_count=len(messages),
            cached_msg_size_in_mi_b=messages.size_bytes >> 20,
            dropped=self._is_dropped,
            last_pull_timestamp=self._wall_ms(self._pulled_at_s),
            last_consume_timestamp=self._wall_ms(self._consumed_at_s),
        )

    def _wall_ms(self, at_s: float) -> int:
        """A time of the loop's clock as milliseconds since 1970."""
        if at_s == 0.0:
            return 0
        return self._client.env.clock.wall_ms() - int((self._loop.time() - at_s) * 1000)

    def drop(self) -> None:
        """The queue belongs to somebody else now: nothing it still answers or finishes counts."""
        self._is_dropped = True
        if self._next_pull is not None:
            self._next_pull.cancel()
        if self._locating is not None:
            self._locating.cancel()

    async def finish_batch(self, timeout_s: float) -> None:
        """Take no further messages and wait for the listener to finish those that it has."""
        if self._messages is not None:
            self._messages.take(len(self._messages))
        if self._consuming is not None:
            await wait_until([self._consuming], lambda: False, timeout_s)

    @property
    def commit_offset(self) -> int | None:
        """What may be committed now; None until the start is known."""
        return None if self._messages is None else self._messages.commit_offset

    @property
    def waits_for(self) -> str | None:
        """The address of the broker that owes this queue an answer."""
        return None if self._pull_answer is None else self._pulled_from[1]

    def replicas_changed(self) -> None:
        """A broker fell silent or came back: if the pull is not with the best replica, pull there."""
        replica = self._replica()
        if replica is None or (self._pull_answer is not None and replica == self._pulled_from):
            return
        if self._messages is not None:
            self._pull_answer = None  # whatever it still answers does not count
            self._pull_soon(0)

    # Start

    async def _locate(self) -> None:
        while True:
            try:
                start = await self._parts.offsets.start_offset(self.queue, self._parts.consume_from)
                break
            except OffsetUnknown as error:
                self._client.env.log.info("start is not known yet", error=str(error))
                await asyncio.sleep(ERROR_PAUSE_S)
        self._messages = ProcessQueue(start)
        self._pull()

    # Pull

    def _replica(self) -> tuple[int, str] | None:
        return self._client.replica(self.queue.broker_name, self._suggested_id)

    def _pull_soon(self, delay_s: float) -> None:
        if self._next_pull is not None:
            self._next_pull.cancel()
        self._next_pull = self._loop.call_later(delay_s, self._pull)

    def _pull(self) -> None:
        """Ask for the next messages, unless the listener is too far behind: its progress asks then."""
        self._next_pull = None
        messages = self._messages
        if self._is_dropped or messages is None or not self._parts.limits.allow(messages):
            return
        replica = self._replica()
        if replica is None:
            self._pull_soon(ERROR_PAUSE_S)
            return
        self._pulled_from = replica
        self._pulled_at_s = self._loop.time()
        command = pull_command(
            self._parts.group,
            self.queue,
            self._parts.subscription,
            offset=messages.next_offset,
            # A slave stores no offset on the way (RocketMQ, PullAPIWrapper: clearCommitOffsetFlag).
            commit_offset=messages.commit_offset if replica[0] == MASTER_ID else None,
            count_max=self._parts.pull_batch,
            hold_s=HOLD_S,
        )
        self._pull_answer = self._client.ask(replica[1], command, PULL_TIMEOUT_S)
        self._pull_answer.add_done_callback(self._pull_ended)

    def _pull_ended(self, future: asyncio.Future[RemotingCommand]) -> None:
        # Only the pull that this queue waits for counts: not one of before it was dropped, moved or corrected.
        if self._is_dropped or future is not self._pull_answer or future.cancelled():
            return
        self._pull_answer = None
        error = future.exception()
        if error is not None:
            self._after_error(str(error))
            return
        try:
            answer = read_answer(future.result())
        except (ValueError, ClientError) as invalid:
            self._after_error(str(invalid))
            return
        self._take_in(answer)

    def _after_error(self, text: str) -> None:
        self._client.env.log.info("pull failed", queue=str(self.queue), error=text)
        self._suggested_id = MASTER_ID
        another = self._replica()
        has_other = another is not None and another != self._pulled_from
        self._pull_soon(0 if has_other else ERROR_PAUSE_S)

    def _take_in(self, answer: PullAnswer) -> None:
        messages = self._messages
        assert messages is not None, "nothing is pulled before the start is known"
        self._suggested_id = answer.suggested_broker_id
        if answer.outcome is PullOutcome.OFFSET_ILLEGAL:
            self._offset_illegal(answer.next_offset)
            return
        self._illegal_answers = 0
        before = messages.next_offset
        now_s = self._loop.time()
        if answer.messages:
            self._parts.figures.pulled(now_s, len(answer.messages), now_s - self._pulled_at_s)
        messages.put(self._parts.subscription.matching(answer.messages), answer.next_offset)
        self._consume()
        if messages.next_offset > before:
            self._pull()
        else:
            was_held = self._loop.time() - self._pulled_at_s > 1.0
            self._pull_soon(0 if was_held else EMPTY_PAUSE_S)

    def _offset_illegal(self, correction: int) -> None:
        """The broker says that our offset is outside of the queue.

        A slave may simply be behind, so only the master counts. Messages at hand are finished first: the correction
        must not let the committed offset pass them.
        """
        messages = self._messages
        assert messages is not None
        self._illegal_answers += 1
        is_certain = self._illegal_answers >= ILLEGAL_ANSWERS_MIN
        if self._pulled_from[0] != MASTER_ID or not is_certain or len(messages):
            self._pull_soon(ERROR_PAUSE_S)
            return
        self._client.env.log.warning(
            "offset corrected", queue=str(self.queue), was=messages.next_offset, now=correction
        )
        self._illegal_answers = 0
        self._messages = ProcessQueue(correction)
        self._parts.offsets.commit({self.queue: correction})
        self._pull()

    # Consume

    def _consume(self) -> None:
        if self._consuming is None and self._messages is not None and self._messages.has_pending:
            self._consuming = self._loop.create_task(self._consume_pending())

    async def _consume_pending(self) -> None:
        messages = self._messages
        assert messages is not None
        while not self._is_dropped and (batch := messages.take(self._parts.consume_batch)):
            started_s = self._loop.time()
            succeeded = await self._listen(batch)
            self._consumed_at_s = now_s = self._loop.time()
            took_s = now_s - started_s
            self._parts.figures.consumed(now_s, len(batch), took_s, succeeded=succeeded)
            if succeeded:
                messages.finish(batch)
                self._resume_pulling()
            else:
                self._loop.call_later(RETRY_S, partial(self._retry, messages, batch))
        self._consuming = None

    async def _listen(self, batch: list[Message]) -> bool:
        try:
            return await self._parts.listener(batch, self.queue)
        except Exception as error:
            self._client.env.log.warning(
                "listener failed", queue=str(self.queue), error=repr(error)
            )
            return False

    def _retry(self, messages: ProcessQueue, batch: list[Message]) -> None:
        if self._is_dropped:
            return
        for message in batch:
            message.reconsume_times += 1
        messages.give_back(batch)
        self._consume()

    def _resume_pulling(self) -> None:
        """Pull again if flow control had stopped it."""
        if self._pull_answer is None and self._next_pull is None:
            self._pull()
