"""A member of a consumer group that calls a listener (RocketMQ: DefaultMQPushConsumerImpl).

Delivery is at least once: a message may come again, above all when queues change owners or a broker restarts. But the
committed offset passes a message only after the listener has returned True for it or a broker has stored it for later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from staticfire.system_under_test.client.consumer.push.consumer_config import ConsumerConfig
from staticfire.system_under_test.client.consumer.push.consumer_parts import (
    INNER_GROUP,
    listening_consumer,
    make_parts,
    offsets_of,
)
from staticfire.system_under_test.client.consumer.push.consumer_requests import ConsumerRequests
from staticfire.system_under_test.client.consumer.rebalance.allocation import Allocate, strategy
from staticfire.system_under_test.client.consumer.rebalance.assignment import Assignment, OnCommit
from staticfire.system_under_test.client.consumer.rebalance.queue_locking import (
    QueueLocking,
)
from staticfire.system_under_test.client.consumer.rebalance.rebalancing import (
    OnAssignment,
    Rebalancing,
)
from staticfire.system_under_test.client.consumer.subscription_check import check_subscriptions
from staticfire.system_under_test.client.listening import Listener
from staticfire.system_under_test.client.offsets.local_offsets import LocalOffsets
from staticfire.system_under_test.client.offsets.offset_store import OnCommitSent, OnOffsetRead
from staticfire.system_under_test.client.periodic_task import PeriodicTask
from staticfire.system_under_test.client.producer.request_reply import send_reply
from staticfire.system_under_test.client.producer.send_back import OnSentBack
from staticfire.system_under_test.client.producer.send_result import SendResult
from staticfire.system_under_test.client.producer.sender import Sender, SendOptions
from staticfire.system_under_test.client.producer.tracing import Tracing
from staticfire.system_under_test.client.routing.client_instance import ClientInstance
from staticfire.system_under_test.protocol.bodies import ConsumerData, MessageQueue
from staticfire.system_under_test.protocol.bodies_clients import ConsumerRunningInfo
from staticfire.system_under_test.protocol.message import Message
from staticfire.system_under_test.runtime.env import Env

COMMIT_INTERVAL_S = 5.0  # RocketMQ: persistConsumerOffsetInterval
QUIET_CHECK_INTERVAL_S = 0.75
STOP_TIMEOUT_S = 1.0  # for the listener to finish its messages


class PushConsumer:
    """Consumes this member's share of its topics' queues.

    Args:
        listener: called with up to `consume_batch` messages of one queue, in offset order. After False or an exception
        they come again (ConsumerConfig says when and how often); later messages go on meanwhile, except in order.
        on_assignment: called with all queues of this member, sorted, after a change.
        on_commit: called with the offsets just committed, or just saved by a broadcast consumer.
        on_offset_read: called with each offset that a broker returns as the start of a queue.
        on_commit_sent: called with the brokers to which offsets were sent.
        on_sent_back: called with each message that was sent back (see send_back).
        allocate: replaces the strategy that the configuration names.
    """

    def __init__(
        self,
        env: Env,
        config: ConsumerConfig,
        listener: Listener,
        *,
        on_assignment: OnAssignment | None = None,
        on_commit: OnCommit | None = None,
        on_offset_read: OnOffsetRead | None = None,
        on_commit_sent: OnCommitSent | None = None,
        on_sent_back: OnSentBack | None = None,
        allocate: Allocate | None = None,
    ) -> None:
        """Raises ValueError for an invalid configuration, OSError if the folder of a broadcast consumer is unusable."""
        self.group = config.group
        self._env = env
        self._config = config
        share_out = allocate or strategy(config.strategy, config.machine_rooms)
        self._client = ClientInstance(env, config)
        self._client.consumer = self
        self._tracing = Tracing(self._client, config.group) if config.trace else None
        if self._tracing is not None:
            listener = self._tracing.traced(listener, timeout_s=config.consume_timeout_s)
        self._requests = ConsumerRequests(self, listener, env.log, is_ordered=config.ordered)
        self._client.on_request = self._requests.handle
        self._started_at_ms = 0
        self._sender: Sender | None = None  # for replies
        self._offsets = offsets_of(
            self._client, config, on_offset_read, on_commit_sent, on_saved=on_commit
        )
        self._parts_of = make_parts(
            self._client,
            config,
            self._offsets,
            listener,
            self._may_consume,
            on_sent_back,
            self._queues_owned,
        )
        self._parts = self._parts_of[config.topic]
        self._assigned = Assignment(
            lambda queue: listening_consumer(self._parts_of[queue.topic], queue),
            self._offsets,
            on_commit=None if config.broadcast else on_commit,
            on_change=self._queues_lost,
        )
        self._rebalancing = Rebalancing(
            self._client,
            self.group,
            self._assigned,
            self._parts_of,
            allocate=None if config.broadcast else share_out,
            on_assignment=on_assignment,
        )
        if config.ordered and not config.broadcast:
            self._assigned.locking = QueueLocking(self._client, self.group, self._assigned.lose)
        self._tasks = self._make_tasks()

    def _make_tasks(self) -> list[PeriodicTask]:
        log, config = self._env.log, self._config
        tasks = [
            self._rebalancing.task,
            PeriodicTask(log, "commit offsets", self._commit_all, lambda: COMMIT_INTERVAL_S),
            PeriodicTask(log, "quiet check", self._check_quiet, lambda: QUIET_CHECK_INTERVAL_S),
        ]
        locking = self._assigned.locking
        if locking is not None:
            tasks.append(PeriodicTask(log, "renew locks", locking.renew, locking.renew_interval_s))
        elif config.sends_back and not config.broadcast:
            tasks.append(
                PeriodicTask(log, "consume timeout", self._expire, lambda: config.consume_timeout_s)
            )
        return tasks

    @property
    def assignment(self) -> list[MessageQueue]:
        return self._assigned.queues

    async def start(self) -> None:
        """Join the group. Consumption begins as soon as a name server and a broker answer.

        Raises BrokerRefused: a broker rejects an expression of type SQL92.
        """
        self._started_at_ms = self._env.clock.wall_ms()
        self._client.start()
        for topic in self._parts_of:
            self._client.use_topic(topic)
        subscriptions = [parts.subscription for parts in self._parts_of.values()]
        try:
            await check_subscriptions(self._client, self.group, subscriptions)
        except BaseException:
            await self._client.stop()
            raise
        for task in self._tasks:
            task.start()

    async def reply(
        self,
        request: Message,
        queue: MessageQueue,
        body: bytes,
        users_properties: Mapping[str, str] | None = None,
    ) -> SendResult:
        """Reply to a request that the listener got from this queue (see request_reply).

        Raises:
            SendFailed: the requester has not got the reply, or may not have got it.
            ValueError: the message is not a request.
        """
        if self._sender is None:
            self._sender = Sender(self._client, SendOptions(group=INNER_GROUP))
        return await send_reply(self._sender, request, queue, body, users_properties)

    async def stop(self) -> None:
        """Let the listener finish its messages, commit, and leave the group."""
        self._requests.stop()
        for task in self._tasks:
            await task.stop()
        await self._assigned.stop(STOP_TIMEOUT_S)
        await self._save_local()
        if self._tracing is not None:
            await self._tracing.stop()
        await self._client.stop()

    # What the client instance calls

    def heartbeat_data(self) -> ConsumerData:
        return ConsumerData(
            group_name=self.group,
            consume_type="CONSUME_PASSIVELY",
            message_model=self._config.message_model,
            consume_from_where=self._config.consume_from.value,
            subscriptions=[parts.subscription.data() for parts in self._parts_of.values()],
            unit_mode=False,
        )

    def members_changed(self) -> None:
        self._rebalancing.wake()

    def route_changed(self, topic: str) -> None:
        if topic in self._parts_of:
            self._rebalancing.wake()

    def broker_silent(self, address: str) -> None:
        if self._assigned.locking is not None:
            self._assigned.locking.broker_lost(address)
        self._replicas_changed()

    def broker_back(self, address: str) -> None:
        if self._assigned.locking is not None:
            self._assigned.locking.broker_back(address)
        self._replicas_changed()
        self._rebalancing.wake()

    def _queues_owned(self, topic: str) -> int:
        return self._assigned.count(topic)

    def _replicas_changed(self) -> None:
        for consumer in self._assigned.consumers:
            consumer.replicas_changed()

    def _queues_lost(self) -> None:
        self._rebalancing.queues_lost()

    def _may_consume(self, queue: MessageQueue) -> bool:
        locking = self._assigned.locking
        return locking is None or locking.is_held(queue)

    # Offsets

    async def _commit_all(self) -> None:
        self._assigned.commit(self._assigned.queues)
        await self._save_local()

    async def _save_local(self) -> None:
        if isinstance(self._offsets, LocalOffsets):
            await self._offsets.save()

    async def _expire(self) -> None:
        for consumer in self._assigned.consumers:
            consumer.expire()

    # Administration

    def offsets(self, topic: str) -> dict[MessageQueue, int]:
        return self._assigned.offsets(topic)

    def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Drop the pulled messages of these queues, commit the new offsets at once, and go on there."""
        self._assigned.reset(offsets)

    def running_info(self) -> ConsumerRunningInfo:
        now_s = asyncio.get_running_loop().time()
        locking = self._assigned.locking
        return ConsumerRunningInfo(
            properties=self._properties(),
            subscription_set=[parts.subscription.data() for parts in self._parts_of.values()],
            mq_table={
                queue: self._assigned.consumer(queue).info(
                    locked_at_s=None if locking is None else locking.asked_at_s(queue)
                )
                for queue in self.assignment
            },
            status_table={
                topic: parts.figures.status(now_s) for topic, parts in self._parts_of.items()
            },
        )

    def _properties(self) -> dict[str, str]:
        """Options as text, and what RocketMQ's tools need (ConsumerRunningInfo.PROP_...)."""
        return {
            "PROP_NAMESERVER_ADDR": "".join(f"{name};" for name in self._config.name_servers),
            "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
            "PROP_CONSUMEORDERLY": str(self._config.ordered).lower(),
            "PROP_THREADPOOL_CORE_SIZE": str(self._config.calls_per_queue),
            "PROP_CLIENT_VERSION": "V4_9_8",
            "PROP_CONSUMER_START_TIMESTAMP": str(self._started_at_ms),
            **self._config.properties(),
        }

    # Silence

    async def _check_quiet(self) -> None:
        """Ping quiet brokers that owe a pull: they may hold it for 15 s, so a missing answer proves nothing."""
        self._client.notice_lost_connections()
        if self._assigned.locking is not None:
            self._assigned.locking.check()
        owing = {consumer.waits_for: None for consumer in self._assigned.consumers}
        self._client.health.check_quiet(address for address in owing if address is not None)
