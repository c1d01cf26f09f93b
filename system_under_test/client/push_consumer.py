"""A member of a consumer group that calls a listener (RocketMQ: DefaultMQPushConsumerImpl, clustering, concurrent).

At least once: a message may come again, above all when queues change hands or a broker was restarted, but the
committed offset never passes a message for which the listener has not returned True.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from system_under_test.acl.signature import Credentials
from system_under_test.client.client_instance import ClientInstance
from system_under_test.client.consume_figures import ConsumeFigures
from system_under_test.client.consumer_requests import ConsumerRequests
from system_under_test.client.offset_store import ConsumeFrom, OffsetStore
from system_under_test.client.periodic_task import PeriodicTask
from system_under_test.client.queue_consumer import (
    DEFAULT_LIMITS,
    ConsumerParts,
    FlowLimits,
    Listener,
    QueueConsumer,
)
from system_under_test.client.rebalance import allocate_averagely, member_ids
from system_under_test.client.subscription import ALL, Subscription
from system_under_test.env import Env
from system_under_test.protocol.bodies import ConsumerData, MessageQueue
from system_under_test.protocol.bodies_clients import ConsumerRunningInfo

REBALANCE_INTERVAL_S = 20.0  # RocketMQ: rocketmq.client.rebalance.waitInterval
REBALANCE_RETRY_S = 1.0  # while the members cannot be found out
COMMIT_INTERVAL_S = 5.0  # RocketMQ: persistConsumerOffsetInterval
QUIET_CHECK_INTERVAL_S = 0.75
STOP_TIMEOUT_S = 1.0  # for the listener to finish what it has


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """`client_id` is `ip@name` and unique in the cluster. All members of a group need the same topic and expression.

    `consume_from` matters only where the group has no stored offset. Unlike RocketMQ's, a new group reads everything.
    `consume_batch` is how many messages the listener is given at a time; they succeed or fail together.
    """

    group: str
    name_servers: tuple[str, ...]
    client_id: str
    topic: str
    expression: str = ALL
    consume_from: ConsumeFrom = ConsumeFrom.FIRST_OFFSET
    pull_batch: int = 32  # RocketMQ: pullBatchSize
    consume_batch: int = 32  # RocketMQ: consumeMessageBatchMaxSize (1 there)
    limits: FlowLimits = DEFAULT_LIMITS
    credentials: Credentials | None = None  # RocketMQ: AclClientRPCHook


OnAssignment = Callable[[list[MessageQueue]], None]
OnCommit = Callable[[dict[MessageQueue, int]], None]


class PushConsumer:
    """Consumes the share of one topic's queues that falls to this member.

    Args:
        listener: called with up to `consume_batch` messages of one queue, in offset order, one call a queue at a
            time. False or an exception brings the same messages again 5 s later; later ones go on meanwhile.
        on_assignment: called with all queues of this member, sorted, after they changed.
        on_commit: called with the offsets that were just sent to brokers.
    """

    def __init__(
        self,
        env: Env,
        config: ConsumerConfig,
        listener: Listener,
        *,
        on_assignment: OnAssignment | None = None,
        on_commit: OnCommit | None = None,
    ) -> None:
        self.group = config.group
        self._env = env
        self._config = config
        self._on_assignment = on_assignment
        self._on_commit = on_commit
        self._client = ClientInstance(env, config)
        self._client.consumer = self
        self._figures = ConsumeFigures()
        self._requests = ConsumerRequests(self, listener, env.log)
        self._client.on_request = self._requests.handle
        self._started_at_ms = 0
        self._offsets = OffsetStore(self._client, config.group)
        self._parts = ConsumerParts(
            client=self._client,
            group=config.group,
            subscription=Subscription(
                config.topic, config.expression, version_ms=env.clock.wall_ms()
            ),
            offsets=self._offsets,
            listener=listener,
            consume_from=config.consume_from,
            pull_batch=config.pull_batch,
            consume_batch=config.consume_batch,
            limits=config.limits,
            figures=self._figures,
        )
        self._queues: dict[MessageQueue, QueueConsumer] = {}
        self._knows_members = False
        self._rebalance = PeriodicTask(
            env.log, "rebalance", self._rebalance_once, self._rebalance_interval_s
        )
        self._commit = PeriodicTask(
            env.log, "commit offsets", self._commit_all, lambda: COMMIT_INTERVAL_S
        )
        self._quiet_check = PeriodicTask(
            env.log, "quiet check", self._check_quiet, lambda: QUIET_CHECK_INTERVAL_S
        )

    @property
    def assignment(self) -> list[MessageQueue]:
        return sorted(self._queues)

    async def start(self) -> None:
        """Join the group; consumption begins as soon as a name server and a broker answer."""
        self._started_at_ms = self._env.clock.wall_ms()
        self._client.start()
        self._client.use_topic(self._config.topic)
        self._rebalance.start()
        self._commit.start()
        self._quiet_check.start()

    async def stop(self) -> None:
        """Let the listener finish what it has, commit, leave the group."""
        self._requests.stop()
        await self._rebalance.stop()
        await self._commit.stop()
        await self._quiet_check.stop()
        queues = list(self._queues.values())
        await asyncio.gather(*(queue.finish_batch(STOP_TIMEOUT_S) for queue in queues))
        self._drop(list(self._queues))
        await self._client.stop()

    # What the client instance asks and tells

    def heartbeat_data(self) -> ConsumerData:
        return ConsumerData(
            group_name=self.group,
            consume_type="CONSUME_PASSIVELY",
            message_model="CLUSTERING",
            consume_from_where=self._config.consume_from.value,
            subscriptions=[self._parts.subscription.data()],
            unit_mode=False,
        )

    def members_changed(self) -> None:
        self._rebalance.wake()

    def route_changed(self, topic: str) -> None:
        if topic == self._config.topic:
            self._rebalance.wake()

    def broker_silent(self, address: str) -> None:
        self._replicas_changed()

    def broker_back(self, address: str) -> None:
        self._replicas_changed()
        self._rebalance.wake()

    def _replicas_changed(self) -> None:
        for queue in self._queues.values():
            queue.replicas_changed()

    # Rebalance

    def _rebalance_interval_s(self) -> float:
        return REBALANCE_INTERVAL_S if self._knows_members else REBALANCE_RETRY_S

    async def _rebalance_once(self) -> None:
        """Compute this member's share and take it. Nothing changes while route or members are unknown."""
        self._knows_members = False
        route = self._client.routes.route(self._config.topic)
        if route is None or not route.read_queues:
            return
        ids = await member_ids(self._client, route, self.group)
        if ids is None:
            self._client.register_again()
            return
        self._knows_members = True
        self._assign(allocate_averagely(route.read_queues, ids, self._config.client_id))

    def _assign(self, share: list[MessageQueue]) -> None:
        lost = [queue for queue in self._queues if queue not in share]
        won = [queue for queue in share if queue not in self._queues]
        self._drop(lost)
        for queue in won:
            self._queues[queue] = QueueConsumer(queue, self._parts)
            self._queues[queue].start()
        if lost or won:
            self._tell_assignment()

    def _drop(self, lost: list[MessageQueue]) -> None:
        """Give queues up; what they have consumed is committed first, for whoever comes next."""
        self._commit_now(lost)
        for queue in lost:
            self._queues.pop(queue).drop()

    def _tell_assignment(self) -> None:
        if self._on_assignment is not None:
            self._on_assignment(self.assignment)

    # Offsets

    async def _commit_all(self) -> None:
        self._commit_now(list(self._queues))

    def _commit_now(self, queues: list[MessageQueue]) -> None:
        offsets = {
            queue: offset
            for queue in queues
            if (offset := self._queues[queue].commit_offset) is not None
        }
        written = self._offsets.commit(offsets)
        if written and self._on_commit is not None:
            self._on_commit(written)

    # Administration

    def offsets(self, topic: str) -> dict[MessageQueue, int]:
        return {
            queue: offset
            for queue in self.assignment
            if queue.topic == topic and (offset := self._queues[queue].commit_offset) is not None
        }

    def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Drop what is pulled of these queues and go on at the new offsets, which are committed at once."""
        targets = {queue: offset for queue, offset in offsets.items() if queue in self._queues}
        for queue, offset in targets.items():
            self._queues[queue].drop()
            consumer = self._queues[queue] = QueueConsumer(queue, self._parts)
            consumer.start_at(offset)
        written = self._offsets.commit(targets)
        if written and self._on_commit is not None:
            self._on_commit(written)

    def running_info(self) -> ConsumerRunningInfo:
        now_s = asyncio.get_running_loop().time()
        return ConsumerRunningInfo(
            properties=self._properties(),
            subscription_set=[self._parts.subscription.data()],
            mq_table={queue: self._queues[queue].info() for queue in self.assignment},
            status_table={self._config.topic: self._figures.status(now_s)},
        )

    def _properties(self) -> dict[str, str]:
        """Options as text, and what RocketMQ's tools need (ConsumerRunningInfo.PROP_...)."""
        config = self._config
        return {
            "PROP_NAMESERVER_ADDR": "".join(f"{address};" for address in config.name_servers),
            "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
            "PROP_CONSUMEORDERLY": "false",
            "PROP_THREADPOOL_CORE_SIZE": "1",
            "PROP_CLIENT_VERSION": "V4_9_8",
            "PROP_CONSUMER_START_TIMESTAMP": str(self._started_at_ms),
            "consumerGroup": config.group,
            "messageModel": "CLUSTERING",
            "consumeFromWhere": config.consume_from.value,
            "pullBatchSize": str(config.pull_batch),
            "consumeMessageBatchMaxSize": str(config.consume_batch),
            "pullThresholdForQueue": str(config.limits.count_max),
            "consumeConcurrentlyMaxSpan": str(config.limits.span_max),
        }

    # Silence

    async def _check_quiet(self) -> None:
        """A pull may be held for 15 s, so its silence says nothing about the broker: look for other signs."""
        self._client.notice_lost_connections()
        owing = {queue.waits_for: None for queue in self._queues.values()}
        self._client.health.check_quiet(address for address in owing if address is not None)
