"""Consumers that poll: applications around a pull or lite pull consumer, which calls no listener.

A batch goes to the listener that a push consumer would call. If the listener fails, or does not end before the member
stops, the member seeks back to the begin of the batch, so that it comes again. Members that choose their queues divide
them by a fixed rule. The brokers do not notify them of each other, so the queues of an absent member wait for it. A
member gives up the queues of a broker that is no longer in the client's route.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol
from zlib import crc32

from staticfire.harness.clients.consumer_kinds import CHOOSING, LITE_PULL_COMMIT, PULL
from staticfire.system_under_test.client.consumer.pull.lite_pull_consumer import (
    LitePullConfig,
    LitePullConsumer,
)
from staticfire.system_under_test.client.consumer.pull.pull_consumer import (
    PullConsumer,
    PullConsumerConfig,
)
from staticfire.system_under_test.client.consumer.pulling import PullAnswer, PullOutcome
from staticfire.system_under_test.client.consumer.push.consumer_config import ConsumerConfig
from staticfire.system_under_test.client.consumer.rebalance.assignment import OnCommit
from staticfire.system_under_test.client.consumer.rebalance.rebalancing import OnAssignment
from staticfire.system_under_test.client.errors import BrokerRefused, ClientError
from staticfire.system_under_test.client.listening import Listener, has_succeeded
from staticfire.system_under_test.client.offsets.offset_store import OnCommitSent, OnOffsetRead
from staticfire.system_under_test.client.routing.routes import MASTER_ID
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.message import Message
from staticfire.system_under_test.remoting import RemotingError
from staticfire.system_under_test.runtime.ending import end_tasks
from staticfire.system_under_test.runtime.env import Env

POLL_S = 1.0  # seconds between two checks of a member without messages for other work
COMMIT_S = 1.0  # between two commits of a lite pull member
COMMIT_OFFSET_S = 5.0  # of a plain pull member; RocketMQ: persistConsumerOffsetInterval
ROUTE_REFRESH_S = 5.0  # between two queries; RocketMQ: topicMetadataCheckIntervalMillis, 30 s
PAUSE_S = 0.1  # pause after a pull that found nothing, and after a failed batch of lite pull
ERROR_PAUSE_S = 1.0
PULL_TIMEOUT_S = 3.0
# A restarted broker may report an offset as beyond its queue until it has recovered all of the queue.
ILLEGAL_ANSWERS_MIN = 3
CANNOT_KNOW = (ClientError, RemotingError, ValueError)


class PolledMember(Protocol):
    """One member of a group."""

    async def start(self) -> None:
        """Connect to the cluster."""
        ...

    async def run(self) -> None:
        """Consume until cancelled."""
        ...

    async def stop(self) -> None:
        """Commit the offsets of consumed messages, and leave the group. `run()` must have returned."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Callbacks:
    """The callbacks of a member.

    `on_commit_unclear` takes offsets of a commit that no broker has confirmed but one may still carry out.
    """

    on_assignment: OnAssignment
    on_commit: OnCommit
    on_commit_unclear: OnCommit
    on_offset_read: OnOffsetRead
    on_commit_sent: OnCommitSent


def polled_member(
    env: Env,
    config: ConsumerConfig,
    kind: str,
    share: tuple[int, int],
    listener: Listener,
    callbacks: Callbacks,
) -> PolledMember:
    """Return a member of this kind.

    `share` is its index in the group and the number of members, for kinds that choose their queues.
    """
    if kind == PULL:
        return PullMember(env, config, share, listener, callbacks)
    return LitePullMember(env, config, kind, share, listener, callbacks)


def share_of(queues: Iterable[MessageQueue], share: tuple[int, int]) -> list[MessageQueue]:
    """Return the queues of one member, sorted. A queue's member does not depend on the number of other queues."""
    index, members = share
    return sorted(
        queue
        for queue in queues
        if (crc32(queue.broker_name.encode()) + queue.queue_id) % members == index
    )


def raise_errors(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Raise the error of a task that has failed: the member ends with it."""
    for task in tasks:
        if task.done() and not task.cancelled():
            task.result()


async def keep_route(consumer: PullConsumer | LitePullConsumer, topic: str) -> None:
    """Ask for the route periodically. A task of its own does this, so that a silent name server delays no message."""
    while True:
        with suppress(*CANNOT_KNOW):
            await consumer.fetch_queues(topic)
        await asyncio.sleep(ROUTE_REFRESH_S)


class LitePullMember:
    """Polls a LitePullConsumer."""

    def __init__(
        self,
        env: Env,
        config: ConsumerConfig,
        kind: str,
        share: tuple[int, int],
        listener: Listener,
        callbacks: Callbacks,
    ) -> None:
        self._config = config
        self._share = share
        self._chooses = kind in CHOOSING
        self._commits = kind == LITE_PULL_COMMIT
        self._listener = listener
        self._on_assignment = callbacks.on_assignment
        self._consumer = LitePullConsumer(
            env,
            LitePullConfig(
                group=config.group,
                name_servers=config.name_servers,
                client_id=config.client_id,
                consume_from=config.consume_from,
                consume_timestamp_ms=config.consume_timestamp_ms,
                auto_commit=not self._commits,
                pull_batch=config.consume_batch,
                limits=config.limits,
                strategy=config.strategy,
                machine_rooms=config.machine_rooms,
                credentials=config.credentials,
            ),
            on_assignment=callbacks.on_assignment,
            on_commit=callbacks.on_commit,
            on_offset_read=callbacks.on_offset_read,
            on_commit_sent=callbacks.on_commit_sent,
        )
        self._now_s = asyncio.get_running_loop().time
        self._beginning: dict[MessageQueue, asyncio.Task[None]] = {}  # latest task of each queue
        self._committed_at_s = 0.0

    async def start(self) -> None:
        await self._consumer.start()
        if not self._chooses:
            config = self._config
            self._consumer.subscribe(
                config.topic, config.expression, expression_type=config.expression_type
            )

    async def run(self) -> None:
        tasks = []
        if self._chooses:
            refresh = keep_route(self._consumer, self._config.topic)
            tasks = [asyncio.get_running_loop().create_task(refresh)]
        try:
            await self._poll(tasks)
        finally:
            await end_tasks([*tasks, *self._beginning.values()])

    async def _poll(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        while True:
            raise_errors([*tasks, *self._beginning.values()])
            if self._chooses:
                wanted = share_of(self._consumer.known_queues(self._config.topic), self._share)
                if wanted != self._consumer.assignment:
                    await self._choose(wanted)
            polled = await self._consumer.poll_queue(POLL_S)
            if polled is not None:
                await self._consume(*polled)
            if self._commits and self._now_s() >= self._committed_at_s + COMMIT_S:
                self._consumer.commit()
                self._committed_at_s = self._now_s()

    async def stop(self) -> None:
        if self._commits:
            self._consumer.commit()
        await self._consumer.stop()

    async def _consume(self, queue: MessageQueue, messages: list[Message]) -> None:
        succeeded = False
        try:
            succeeded = has_succeeded(await self._listener(messages, queue))
        finally:
            if not succeeded:
                self._go_back(queue, messages)
        if not succeeded:
            await asyncio.sleep(PAUSE_S)

    def _go_back(self, queue: MessageQueue, messages: Sequence[Message]) -> None:
        """Seek back so that the batch is delivered again, unless the member has lost the queue since, even briefly."""
        if queue not in self._consumer.assignment:
            return
        if self._consumer.position(queue) == messages[-1].queue_offset + 1:
            self._consumer.seek(queue, messages[0].queue_offset)

    async def _choose(self, queues: list[MessageQueue]) -> None:
        """Assign exactly these queues, and begin each new one at the group's offset.

        A new queue is paused until its offset is known, so that a silent broker delays no message of the others.
        """
        before = self._consumer.assignment
        new = [queue for queue in queues if queue not in before]
        self._consumer.pause(new)
        await self._consumer.assign(queues)
        self._on_assignment(queues)
        for queue in new:
            if queue in self._beginning:
                self._beginning[queue].cancel()
            begin = self._begin(queue)
            self._beginning[queue] = asyncio.get_running_loop().create_task(begin)

    async def _begin(self, queue: MessageQueue) -> None:
        """Seek to the committed offset and resume; if that is unknown, the consumer itself chooses the start."""
        with suppress(*CANNOT_KNOW):
            offset = await self._consumer.committed(queue)
            if offset is None:
                await self._consumer.seek_to_begin(queue)
            else:
                self._consumer.seek(queue, offset)
        self._consumer.resume([queue])


class PullMember:
    """Reads each queue of its share in a task of its own."""

    def __init__(
        self,
        env: Env,
        config: ConsumerConfig,
        share: tuple[int, int],
        listener: Listener,
        callbacks: Callbacks,
    ) -> None:
        self._config = config
        self._share = share
        self._listener = listener
        self._callbacks = callbacks
        self._consumer = PullConsumer(
            env,
            PullConsumerConfig(
                group=config.group,
                name_servers=config.name_servers,
                client_id=config.client_id,
                pull_timeout_s=PULL_TIMEOUT_S,
                credentials=config.credentials,
            ),
            on_offset_read=callbacks.on_offset_read,
            on_commit_sent=callbacks.on_commit_sent,
        )
        self._readers: dict[MessageQueue, tuple[QueueReader, asyncio.Task[None]]] = {}

    async def start(self) -> None:
        await self._consumer.start()

    async def run(self) -> None:
        refresh = keep_route(self._consumer, self._config.topic)
        refreshing = asyncio.get_running_loop().create_task(refresh)
        try:
            while True:
                queues = self._consumer.known_queues(self._config.topic)
                await self._read(share_of(queues, self._share))
                await asyncio.sleep(POLL_S)
                raise_errors([refreshing, *(task for _, task in self._readers.values())])
        finally:
            await end_tasks([refreshing])

    async def stop(self) -> None:
        await self._end(list(self._readers))
        await self._consumer.stop()

    async def _read(self, queues: list[MessageQueue]) -> None:
        """Read exactly these queues."""
        if queues == sorted(self._readers):
            return
        await self._end([queue for queue in self._readers if queue not in queues])
        for queue in queues:
            if queue not in self._readers:
                reader = QueueReader(
                    self._consumer, queue, self._config, self._listener, self._callbacks
                )
                task = asyncio.get_running_loop().create_task(reader.run())
                self._readers[queue] = (reader, task)
        self._callbacks.on_assignment(queues)

    async def _end(self, queues: Sequence[MessageQueue]) -> None:
        """End reading these queues, and commit their consumed offsets."""
        ended = [self._readers.pop(queue) for queue in queues]
        await end_tasks(task for _, task in ended)
        await asyncio.gather(*(reader.commit() for reader, _ in ended))


class QueueReader:
    """Pulls one queue with a PullConsumer, batch by batch, and commits every COMMIT_OFFSET_S seconds."""

    def __init__(
        self,
        consumer: PullConsumer,
        queue: MessageQueue,
        config: ConsumerConfig,
        listener: Listener,
        callbacks: Callbacks,
    ) -> None:
        self._consumer = consumer
        self._queue = queue
        self._config = config
        self._listener = listener
        self._callbacks = callbacks
        self._offset: int | None = (
            None  # the offset below which everything is consumed; None until it is known
        )
        self._illegal_answers = 0

    async def run(self) -> None:
        """Read until cancelled."""
        offset = await self._start()
        committing = asyncio.get_running_loop().create_task(self._commit_regularly())
        try:
            while True:
                raise_errors([committing])
                self._offset = offset
                offset = await self._go_on(offset)
        finally:
            await end_tasks([committing])

    async def _commit_regularly(self) -> None:
        """Commit until cancelled. A task of its own does this, so that a silent replica delays no commit."""
        while True:
            await asyncio.sleep(COMMIT_OFFSET_S)
            await self.commit()

    async def commit(self) -> None:
        """Commit the consumed offset; repeat an unchanged one, since the broker may have lost it with its disk."""
        offset = self._offset
        if offset is None:
            return
        try:
            await self._consumer.commit(self._queue, offset)
        except BrokerRefused:
            return
        except (*CANNOT_KNOW, asyncio.CancelledError) as error:
            self._callbacks.on_commit_unclear({self._queue: offset})
            if isinstance(error, asyncio.CancelledError):
                raise
            return
        self._callbacks.on_commit({self._queue: offset})

    async def _start(self) -> int:
        while True:
            try:
                stored = await self._consumer.committed_offset(self._queue)
                return await self._consumer.min_offset(self._queue) if stored is None else stored
            except CANNOT_KNOW:
                await asyncio.sleep(ERROR_PAUSE_S)

    async def _go_on(self, offset: int) -> int:
        """Pull once; return the offset of the next pull."""
        try:
            answer = await self._consumer.pull(
                self._queue,
                offset,
                count_max=self._config.consume_batch,
                expression=self._config.expression,
                expression_type=self._config.expression_type,
            )
        except CANNOT_KNOW:
            await asyncio.sleep(ERROR_PAUSE_S)
            return offset
        if answer.outcome is PullOutcome.OFFSET_ILLEGAL:
            return await self._corrected(offset, answer)
        self._illegal_answers = 0
        if answer.messages and not has_succeeded(
            await self._listener(answer.messages, self._queue)
        ):
            await asyncio.sleep(ERROR_PAUSE_S)
            return offset
        if answer.next_offset <= offset:
            await asyncio.sleep(PAUSE_S)
        return max(offset, answer.next_offset)

    async def _corrected(self, offset: int, answer: PullAnswer) -> int:
        """Correct the offset once the master has repeatedly reported it as out of the queue's range."""
        self._illegal_answers += 1
        if self._illegal_answers < ILLEGAL_ANSWERS_MIN or answer.broker_id != MASTER_ID:
            await asyncio.sleep(ERROR_PAUSE_S)
            return offset
        self._illegal_answers = 0
        return answer.next_offset
