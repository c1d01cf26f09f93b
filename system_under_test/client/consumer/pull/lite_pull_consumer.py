"""A consumer that the application polls (RocketMQ: DefaultLitePullConsumerImpl).

It pulls in the background. `subscribe` makes it a member of its group, among which the queues are divided; `assign`
gives it queues outside the group. Messages of one poll count as consumed at the next poll or commit, so they come again
after a crash (RocketMQ until 4.6 committed fetched messages, issue 1470).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from staticfire.system_under_test.acl.signature import Credentials
from staticfire.system_under_test.client.consumer.consume_figures import ConsumeFigures
from staticfire.system_under_test.client.consumer.pull.lite_pull_info import LitePullInfo
from staticfire.system_under_test.client.consumer.pull.polled_consumption import PolledConsumption
from staticfire.system_under_test.client.consumer.queue_consumer import QueueConsumer
from staticfire.system_under_test.client.consumer.queue_puller import (
    DEFAULT_LIMITS,
    FlowLimits,
    PullParts,
    QueuePuller,
)
from staticfire.system_under_test.client.consumer.rebalance.allocation import strategy
from staticfire.system_under_test.client.consumer.rebalance.assignment import Assignment, OnCommit
from staticfire.system_under_test.client.consumer.rebalance.rebalancing import (
    OnAssignment,
    Rebalancing,
)
from staticfire.system_under_test.client.consumer.subscription import ALL, TAG, Subscription
from staticfire.system_under_test.client.errors import ClientError
from staticfire.system_under_test.client.offsets.offset_store import (
    OffsetStore,
    OnCommitSent,
    OnOffsetRead,
)
from staticfire.system_under_test.client.offsets.queue_bounds import ConsumeFrom
from staticfire.system_under_test.client.periodic_task import PeriodicTask
from staticfire.system_under_test.client.routing.client_instance import ClientInstance
from staticfire.system_under_test.protocol.bodies import ConsumerData, MessageQueue
from staticfire.system_under_test.protocol.message import Message
from staticfire.system_under_test.runtime.env import Env

QUIET_CHECK_INTERVAL_S = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class LitePullConfig:
    """`client_id` is `ip@name` and unique in the cluster. With `auto_commit`, polls commit messages of earlier polls.

    `cached_max`: pulling pauses while so many messages of all queues together wait to be polled.
    """

    group: str
    name_servers: tuple[str, ...]
    client_id: str
    consume_from: ConsumeFrom = ConsumeFrom.FIRST_OFFSET
    consume_timestamp_ms: int | None = None
    auto_commit: bool = True
    auto_commit_interval_s: float = 5.0  # RocketMQ: autoCommitIntervalMillis
    pull_batch: int = 10  # RocketMQ: pullBatchSize
    poll_timeout_s: float = 5.0  # RocketMQ: pollTimeoutMillis
    limits: FlowLimits = DEFAULT_LIMITS
    cached_max: int = 10_000  # RocketMQ: pullThresholdForAll
    strategy: str = "AVG"
    machine_rooms: tuple[str, ...] = ()
    credentials: Credentials | None = None


class LitePullConsumer:
    """Subscribe or assign, then poll.

    Args:
        on_assignment: called with all queues of a subscribed member, sorted, after a change.
        on_commit: called with the offsets just committed.
        on_offset_read: called with each offset that a broker returns.
        on_commit_sent: called with the brokers to which offsets were sent.
    """

    def __init__(
        self,
        env: Env,
        config: LitePullConfig,
        *,
        on_assignment: OnAssignment | None = None,
        on_commit: OnCommit | None = None,
        on_offset_read: OnOffsetRead | None = None,
        on_commit_sent: OnCommitSent | None = None,
    ) -> None:
        """Raises ValueError for an unknown strategy."""
        self.group = config.group
        self._env = env
        self._config = config
        self._client = ClientInstance(env, config)
        self._client.consumer = self
        self._offsets = OffsetStore(
            self._client,
            config.group,
            timestamp_ms=config.consume_timestamp_ms,
            on_read=on_offset_read,
            on_sent=on_commit_sent,
        )
        self._parts_of: dict[str, PullParts] = {}
        self._polled: dict[MessageQueue, PolledConsumption] = {}
        self._paused: dict[MessageQueue, None] = {}
        self._assigned = Assignment(
            self._make, self._offsets, on_commit=on_commit, on_change=lambda: None
        )
        self._rebalancing = Rebalancing(
            self._client,
            config.group,
            self._assigned,
            self._parts_of,
            allocate=strategy(config.strategy, config.machine_rooms),
            on_assignment=on_assignment,
        )
        info = LitePullInfo(
            config.group,
            {
                "PROP_NAMESERVER_ADDR": "".join(f"{name};" for name in config.name_servers),
                "PROP_CONSUMER_START_TIMESTAMP": str(env.clock.wall_ms()),
                "consumerGroup": config.group,
                "autoCommit": str(config.auto_commit).lower(),
                "pullBatchSize": str(config.pull_batch),
                "pullThresholdForAll": str(config.cached_max),
            },
            lambda: list(self._parts_of.values()),
            self._assigned,
            lambda: asyncio.get_running_loop().time(),
        )
        self._client.on_request = info.serve
        self._quiet_check = PeriodicTask(
            env.log, "quiet check", self._check_quiet, lambda: QUIET_CHECK_INTERVAL_S
        )
        self._is_assigned = False  # by `assign`
        self._arrival = asyncio.Event()
        self._turn = 0
        self._committed_at_s = 0.0

    async def start(self) -> None:
        self._committed_at_s = asyncio.get_running_loop().time()
        self._client.start()
        self._quiet_check.start()

    async def stop(self) -> None:
        """Commit the messages of earlier polls if auto_commit is on; then leave the group."""
        await self._rebalancing.task.stop()
        await self._quiet_check.stop()
        if self._config.auto_commit:
            self._finish()
        await self._assigned.stop(0.0)
        await self._client.stop()

    # What to consume

    def subscribe(self, topic: str, expression: str = ALL, *, expression_type: str = TAG) -> None:
        """Take a share of the topic's queues, like the other members of the group; call after start().

        Raises ValueError after assign().
        """
        if self._is_assigned:
            raise ValueError("this consumer has queues assigned; it cannot subscribe as well")
        self._add_topic(topic, expression, expression_type)
        self._rebalancing.task.start()
        self._rebalancing.wake()

    async def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Consume exactly these queues, even if other clients consume them. Raises ValueError after subscribe()."""
        if self._parts_of and not self._is_assigned:
            raise ValueError("this consumer has subscribed; it cannot have queues assigned as well")
        self._is_assigned = True
        wanted = sorted(queues)
        topics = dict.fromkeys([*self._parts_of, *(queue.topic for queue in wanted)])
        for topic in topics:
            if topic not in self._parts_of:
                self._add_topic(topic, ALL, TAG)
            await self._assigned.take_share(topic, [q for q in wanted if q.topic == topic])

    def _add_topic(self, topic: str, expression: str, expression_type: str) -> None:
        config = self._config
        self._parts_of[topic] = PullParts(
            client=self._client,
            group=config.group,
            subscription=Subscription(
                topic,
                expression,
                version_ms=self._env.clock.wall_ms(),
                expression_type=expression_type,
            ),
            offsets=self._offsets,
            consume_from=config.consume_from,
            pull_batch=config.pull_batch,
            limits=config.limits,
            figures=ConsumeFigures(),
            commits_on_pull=False,
            is_paused=self._is_paused,
        )
        self._client.use_topic(topic)
        self._client.register_again()

    @property
    def assignment(self) -> list[MessageQueue]:
        return self._assigned.queues

    async def fetch_queues(self, topic: str) -> list[MessageQueue]:
        """The readable queues of a topic, sorted, by a new query of the name servers. Raises ClientError."""
        return list((await self._client.look_up(topic)).read_queues)

    def known_queues(self, topic: str) -> list[MessageQueue]:
        """The readable queues of a topic by the route that the client has, sorted; empty without a route."""
        route = self._client.routes.route(topic)
        return [] if route is None else list(route.read_queues)

    # Polling

    async def poll(self, timeout_s: float | None = None) -> list[Message]:
        """Up to `pull_batch` messages of one queue, in offset order; empty if none comes in time.

        Messages of earlier polls count as consumed now.
        """
        polled = await self.poll_queue(timeout_s)
        return [] if polled is None else polled[1]

    async def poll_queue(
        self, timeout_s: float | None = None
    ) -> tuple[MessageQueue, list[Message]] | None:
        """Like `poll`, but returns the queue, too; None if no message comes in time."""
        self._finish()
        self._commit_if_due()
        try:
            async with asyncio.timeout(
                self._config.poll_timeout_s if timeout_s is None else timeout_s
            ):
                while (polled := self._take()) is None:
                    self._arrival.clear()
                    await self._arrival.wait()
                return polled
        except TimeoutError:
            return None

    def _take(self) -> tuple[MessageQueue, list[Message]] | None:
        """Messages of the next queue, in turn, that has some."""
        queues = self._assigned.queues
        for number in range(len(queues)):
            index = (self._turn + number) % len(queues)
            queue = queues[index]
            if queue in self._paused:
                continue
            if batch := self._polled[queue].hand_out(self._config.pull_batch):
                self._turn = index + 1
                return queue, batch
        return None

    def _finish(self) -> None:
        now_s = asyncio.get_running_loop().time()
        for queue in self._assigned.queues:
            self._polled[queue].finish(now_s)
        self._resume_pulling()

    def _resume_pulling(self) -> None:
        for consumer in self._assigned.consumers:
            consumer.resume()

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Neither pull these queues nor return their messages until `resume`."""
        self._paused.update(dict.fromkeys(queues))

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        for queue in queues:
            self._paused.pop(queue, None)
        self._resume_pulling()
        self._arrival.set()

    # Positions

    def position(self, queue: MessageQueue) -> int | None:
        """The offset after the last message returned by a poll; None if not known yet. Raises ClientError."""
        return self._mine(queue).position

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at `offset`; messages of earlier polls of this queue do not count. Raises ClientError."""
        self._mine(queue).forget()
        self._env.log.info("position sought", queue=str(queue), offset=offset)
        self._assigned.consumer(queue).start_at(offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on at the first offset. Raises ClientError, RemotingError, ValueError: it cannot be known now."""
        self._mine(queue)
        self.seek(queue, await self._offsets.bounds.min_offset(queue))

    async def committed(self, queue: MessageQueue) -> int | None:
        """The group's stored offset; None if there is none. Raises as seek_to_begin does."""
        await self._client.read_route(queue.topic)
        return await self._offsets.stored(queue)

    def commit(self) -> None:
        """Count the messages of earlier polls as consumed, and send their offsets to the brokers, one way."""
        self._finish()
        self._assigned.commit(self._assigned.queues)
        self._committed_at_s = asyncio.get_running_loop().time()

    def _commit_if_due(self) -> None:
        due_s = self._committed_at_s + self._config.auto_commit_interval_s
        if self._config.auto_commit and asyncio.get_running_loop().time() >= due_s:
            self.commit()

    def _mine(self, queue: MessageQueue) -> PolledConsumption:
        if queue not in self._assigned.queues:
            raise ClientError(f"{queue} is not assigned to this consumer")
        return self._polled[queue]

    # Queues

    def _make(self, queue: MessageQueue) -> QueueConsumer:
        def polled(puller: QueuePuller) -> PolledConsumption:
            consumption = self._polled[queue] = PolledConsumption(puller, self._arrival.set)
            return consumption

        return QueueConsumer(queue, self._parts_of[queue.topic], polled)

    def _is_paused(self, queue: MessageQueue) -> bool:
        return queue in self._paused or self._cached() >= self._config.cached_max

    def _cached(self) -> int:
        return sum(consumer.cached for consumer in self._assigned.consumers)

    # What the client instance calls

    def heartbeat_data(self) -> ConsumerData:
        return ConsumerData(
            group_name=self.group,
            consume_type="CONSUME_ACTIVELY",
            message_model="CLUSTERING",
            consume_from_where=self._config.consume_from.value,
            subscriptions=[parts.subscription.data() for parts in self._parts_of.values()],
            unit_mode=False,
        )

    def members_changed(self) -> None:
        self._wake()

    def route_changed(self, topic: str) -> None:
        self._wake()

    def broker_silent(self, address: str) -> None:
        self._replicas_changed()

    def broker_back(self, address: str) -> None:
        self._replicas_changed()
        self._wake()

    def _wake(self) -> None:
        if not self._is_assigned:
            self._rebalancing.wake()

    def _replicas_changed(self) -> None:
        for consumer in self._assigned.consumers:
            consumer.replicas_changed()

    async def _check_quiet(self) -> None:
        self._client.notice_lost_connections()
        owing = {consumer.waits_for: None for consumer in self._assigned.consumers}
        self._client.health.check_quiet(address for address in owing if address is not None)
