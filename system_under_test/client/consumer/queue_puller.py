"""Pulls one assigned queue into a process queue, from its start on (RocketMQ: PullMessageService).

There is one outstanding pull at a time, answered by a callback; there is a task only while it looks for the start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from staticfire.system_under_test.client.consumer.consume_figures import ConsumeFigures
from staticfire.system_under_test.client.consumer.process_queue import ProcessQueue
from staticfire.system_under_test.client.consumer.pulling import (
    PullAnswer,
    PullOutcome,
    pull_command,
    read_answer,
)
from staticfire.system_under_test.client.consumer.subscription import Subscription
from staticfire.system_under_test.client.errors import BrokerRefused, ClientError
from staticfire.system_under_test.client.message_properties import RETRY_PREFIX, RETRY_TOPIC
from staticfire.system_under_test.client.offsets.offset_store import Offsets, OffsetUnknown
from staticfire.system_under_test.client.offsets.queue_bounds import ConsumeFrom
from staticfire.system_under_test.client.routing.client_instance import ClientInstance
from staticfire.system_under_test.client.routing.routes import MASTER_ID
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import Message

PULL_TIMEOUT_S = 30.0  # RocketMQ: CONSUMER_TIMEOUT_MILLIS_WHEN_SUSPEND
HOLD_S = 15.0  # RocketMQ: BROKER_SUSPEND_MAX_TIME_MILLIS
ERROR_PAUSE_S = 1.0  # RocketMQ: pullTimeDelayMillsWhenException
REFUSED_FOR_NOW_PAUSE_S = 0.02  # RocketMQ: PULL_TIME_DELAY_MILLS_WHEN_BROKER_FLOW_CONTROL
EMPTY_PAUSE_S = 0.2  # after an empty answer, if the broker did not hold the pull
# RocketMQ drops the queue on OFFSET_ILLEGAL and starts again 10 s later. A broker that has just restarted may answer so
# before it has its whole queue again, so here the answer counts only after so many in a row.
ILLEGAL_ANSWERS_MIN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowLimits:
    """Limits at which pulling one queue stops until the listener has caught up.

    The span ends at the last message that arrived; in RocketMQ at the last unfinished one. There a message that hangs
    slows its queue down. Here it stops the queue, so that no more messages than this come again after a crash.

    Limits of a topic are divided evenly among the consumer's queues of the topic, and replace the limits of a queue.
    """

    count_max: int = 1000  # RocketMQ: pullThresholdForQueue
    size_bytes_max: int = 100 << 20  # RocketMQ: pullThresholdSizeForQueue
    span_max: int | None = 2000  # RocketMQ: consumeConcurrentlyMaxSpan; None for queues in order
    topic_count_max: int | None = None  # RocketMQ: pullThresholdForTopic
    topic_size_bytes_max: int | None = None  # RocketMQ: pullThresholdSizeForTopic

    def allow(self, queue: ProcessQueue, queues_owned: int = 1) -> bool:
        """Whether to pull more. `queues_owned` is the number of queues of the topic that the consumer has."""
        return (
            len(queue) <= self._count_max_of_one(queues_owned)
            and queue.size_bytes <= self._size_max_of_one(queues_owned)
            and (self.span_max is None or queue.span <= self.span_max)
        )

    # RocketMQ: RebalancePushImpl.messageQueueChanged, which counts in MiB

    def _count_max_of_one(self, queues_owned: int) -> int:
        if self.topic_count_max is None:
            return self.count_max
        return max(self.topic_count_max // max(queues_owned, 1), 1)

    def _size_max_of_one(self, queues_owned: int) -> int:
        if self.topic_size_bytes_max is None:
            return self.size_bytes_max
        return max(self.topic_size_bytes_max // max(queues_owned, 1), 1 << 20)


DEFAULT_LIMITS = FlowLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class PullParts:
    """Options and services shared by all queues of one topic.

    `commits_on_pull`: whether pulls carry the group's offset to the master. `is_paused` is called before each pull of a
    queue; the caller that ends a pause must call `resume`. `queues_owned` returns how many queues of a topic the
    consumer has.
    """

    client: ClientInstance
    group: str
    subscription: Subscription
    offsets: Offsets
    consume_from: ConsumeFrom
    pull_batch: int
    limits: FlowLimits
    figures: ConsumeFigures
    commits_on_pull: bool = True
    is_paused: Callable[[MessageQueue], bool] = lambda _: False
    queues_owned: Callable[[str], int] = lambda _: 1


class QueuePuller:
    """Pulls one queue from `start()` to `drop()`. A queue assigned again gets a new object.

    Args:
        arrived: called whenever messages may have arrived.
    """

    def __init__(
        self,
        queue: MessageQueue,
        parts: PullParts,
        arrived: Callable[[], None],
    ) -> None:
        self.queue = queue
        self.messages: ProcessQueue | None = None  # None until the start is known
        self.is_dropped = False
        self.pulled_at_s = 0.0
        self._parts = parts
        self._arrived = arrived
        self._client = parts.client
        self._loop = asyncio.get_running_loop()
        self._locating: asyncio.Task[None] | None = None
        self._pull_answer: asyncio.Future[RemotingCommand] | None = None
        self._pulled_from = (MASTER_ID, "")  # broker id and address of the outstanding pull
        self._suggested_id = MASTER_ID  # RocketMQ: PullAPIWrapper.pullFromWhichNodeTable
        self._next_pull: asyncio.TimerHandle | None = None
        self._illegal_answers = 0
        self._is_retry = queue.topic.startswith(RETRY_PREFIX)

    def start(self) -> None:
        self._locating = self._loop.create_task(self._locate())

    def start_at(self, offset: int) -> None:
        """Begin at `offset`, regardless of the group's stored offset; drops pulled messages and the pull under way."""
        if self._locating is not None:
            self._locating.cancel()
        if self._next_pull is not None:
            self._next_pull.cancel()
        self._pull_answer = None
        self.messages = ProcessQueue(offset)
        self._pull()

    def drop(self) -> None:
        """Stop: the queue belongs to another member now. Later answers to pulls do not count."""
        self.is_dropped = True
        if self._next_pull is not None:
            self._next_pull.cancel()
        if self._locating is not None:
            self._locating.cancel()

    def resume(self) -> None:
        """Pull again if flow control or a pause has stopped it."""
        if self._pull_answer is None and self._next_pull is None:
            self._pull()

    @property
    def waits_for(self) -> str | None:
        """The address of the broker that owes this queue an answer."""
        return None if self._pull_answer is None else self._pulled_from[1]

    def replicas_changed(self) -> None:
        """A broker has fallen silent or come back: if the pull is not at the best replica, pull there."""
        replica = self._replica()
        if replica is None or (self._pull_answer is not None and replica == self._pulled_from):
            return
        if self.messages is not None:
            self._pull_answer = None  # a late answer does not count
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
        self.messages = ProcessQueue(start)
        self._pull()

    # Pull

    def _replica(self) -> tuple[int, str] | None:
        return self._client.replica(self.queue.broker_name, self._suggested_id)

    def _pull_soon(self, delay_s: float) -> None:
        if self._next_pull is not None:
            self._next_pull.cancel()
        self._next_pull = self._loop.call_later(delay_s, self._pull)

    def _pull(self) -> None:
        """Pull the next messages, unless the listener is too far behind; `resume` pulls again after its progress."""
        self._next_pull = None
        messages = self.messages
        if self.is_dropped or messages is None or self._parts.is_paused(self.queue):
            return
        if not self._parts.limits.allow(messages, self._parts.queues_owned(self.queue.topic)):
            return
        replica = self._replica()
        if replica is None:
            self._pull_soon(ERROR_PAUSE_S)
            return
        self._pulled_from = replica
        self.pulled_at_s = self._loop.time()
        # A slave stores no offset with a pull (RocketMQ, PullAPIWrapper: clearCommitOffsetFlag).
        commits = self._parts.commits_on_pull and replica[0] == MASTER_ID
        command = pull_command(
            self._parts.group,
            self.queue,
            self._parts.subscription,
            offset=messages.next_offset,
            commit_offset=messages.commit_offset if commits else None,
            count_max=self._parts.pull_batch,
            hold_s=HOLD_S,
        )
        self._pull_answer = self._client.ask(replica[1], command, PULL_TIMEOUT_S)
        self._pull_answer.add_done_callback(self._pull_ended)

    def _pull_ended(self, future: asyncio.Future[RemotingCommand]) -> None:
        # Only the answer that this queue waits for counts, not one from before it was dropped, moved or corrected.
        if self.is_dropped or future is not self._pull_answer or future.cancelled():
            return
        self._pull_answer = None
        error = future.exception()
        if error is not None:
            self._after_error(str(error))
            return
        try:
            answer = read_answer(future.result())
        except BrokerRefused as refusal:
            if refusal.code == ResponseCode.FLOW_CONTROL:
                self._pull_soon(REFUSED_FOR_NOW_PAUSE_S)
            else:
                self._after_error(str(refusal))
            return
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
        messages = self.messages
        assert messages is not None, "nothing is pulled before the start is known"
        self._suggested_id = answer.suggested_broker_id
        if answer.outcome is PullOutcome.OFFSET_ILLEGAL:
            self._offset_illegal(answer.next_offset)
            return
        self._illegal_answers = 0
        before = messages.next_offset
        now_s = self._loop.time()
        if answer.messages:
            self._parts.figures.pulled(now_s, len(answer.messages), now_s - self.pulled_at_s)
        wanted = self._parts.subscription.matching(answer.messages)
        messages.put(as_sent(wanted) if self._is_retry else wanted, answer.next_offset)
        self._arrived()
        if messages.next_offset > before:
            self._pull()
        else:
            was_held = self._loop.time() - self.pulled_at_s > 1.0
            self._pull_soon(0 if was_held else EMPTY_PAUSE_S)

    def _offset_illegal(self, correction: int) -> None:
        """The broker answers that our offset is outside the queue: correct it once that is certain.

        A slave may only be behind, so only answers of the master count. Messages here must be finished first: the
        correction must not let the committed offset pass them.
        """
        messages = self.messages
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
        self.messages = ProcessQueue(correction)
        self._parts.offsets.commit({self.queue: correction})
        self._pull()


def as_sent(messages: Sequence[Message]) -> Sequence[Message]:
    """Messages of a retry topic with their original topic."""
    for message in messages:
        message.topic = message.properties.get(RETRY_TOPIC, message.topic)
    return messages
