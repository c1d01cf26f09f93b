"""Runs the background services of a master: delayed messages, retries, transactions, replies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from staticfire.system_under_test.broker.clients.clients import Clients
from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.delivery.delay_offsets import (
    DelayOffsetsFile,
    delay_offsets_to_json,
)
from staticfire.system_under_test.broker.delivery.delay_timer import DelayTimer
from staticfire.system_under_test.broker.delivery.delayed_delivery import (
    DelayedDelivery,
    RemainingTime,
)
from staticfire.system_under_test.broker.delivery.half_messages import HalfMessages
from staticfire.system_under_test.broker.delivery.reply import ReplyProcessor
from staticfire.system_under_test.broker.delivery.send_back import RetryQueues, SendBackProcessor
from staticfire.system_under_test.broker.delivery.transaction_check import TransactionCheck
from staticfire.system_under_test.broker.delivery.transaction_policy import TransactionPolicy
from staticfire.system_under_test.broker.delivery.transactions import TransactionRequests
from staticfire.system_under_test.broker.metadata.offsets import ConsumerOffsets
from staticfire.system_under_test.broker.metadata.subscription_groups import SubscriptionGroups
from staticfire.system_under_test.broker.metadata.topic_redirection import TopicRedirection
from staticfire.system_under_test.broker.metadata.topics import Topics
from staticfire.system_under_test.broker.periodic import Schedule
from staticfire.system_under_test.broker.sending.internal_copies import CopyPolicy, InternalCopies
from staticfire.system_under_test.broker.sending.send import SendProcessor
from staticfire.system_under_test.broker.statistics.statistics import BrokerStatistics
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting import Connection, Handler
from staticfire.system_under_test.runtime.env import Env
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.delay_levels import SCHEDULE_TOPIC
from staticfire.system_under_test.store.metadata_file import MetadataFile

CHECKED_AT_ONCE = 64  # half messages checked in one turn of the loop


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePolicies:
    """Decisions of the services in which the two modes differ."""

    copies: CopyPolicy  # R61: RocketMQ does not wait for the broker's own copies
    # after the clock was set back, a delayed message seems due too late
    remaining_time: RemainingTime
    retry_queues: RetryQueues  # R48: RocketMQ puts retries into queues that no consumer reads
    transactions: TransactionPolicy  # R26, R27; RocketMQ may end a half message twice


class MessageServices:
    """Composes the services. A slave has them, too, but never starts them."""

    def __init__(
        self,
        env: Env,
        config: BrokerConfig,
        policies: ServicePolicies,
        store: MessageStore,
        topics: Topics,
        groups: SubscriptionGroups,
        clients: Clients,
        offsets: ConsumerOffsets,
        copies: InternalCopies,
        statistics: BrokerStatistics,
        delay_file: MetadataFile,
        *,
        is_ready: Callable[[], bool],
    ) -> None:
        self._env = env
        self._config = config
        self._clients = clients
        self._copies = copies
        self._offsets = offsets
        self._delivery = DelayedDelivery(
            store,
            copies,
            statistics,
            env.clock,
            env.log,
            levels_ms=config.delay_levels_ms,
            remaining_time=policies.remaining_time,
        )
        self._delay_timer = DelayTimer(self._delivery, env.log)
        self._delay_file = DelayOffsetsFile(delay_file)
        self._has_begun = False
        self.redirection = TopicRedirection(
            topics,
            level_max=len(config.delay_levels_ms),
            expect_delayed=self._delay_timer.expect,
        )
        self._halves = HalfMessages(
            store,
            offsets,
            copies,
            store_host=(config.listen_host, config.listen_port),
            now_ms=env.clock.wall_ms,
        )
        self._check = TransactionCheck(
            config,
            self._halves,
            copies,
            topics,
            clients,
            env.clock,
            env.log,
            policies.transactions,
        )
        self._transactions = TransactionRequests(
            config,
            self._halves,
            copies,
            self.redirection,
            policies.transactions,
            is_ready=is_ready,
        )
        self._send_back = SendBackProcessor(
            config,
            store,
            topics,
            groups,
            copies,
            self.redirection,
            env.random,
            statistics,
            is_ready=is_ready,
            retry_queues=policies.retry_queues,
        )

    def handlers(self, send: SendProcessor) -> dict[int, Handler]:
        """Handlers by request code."""
        now_ms = self._env.clock.wall_ms
        reply = ReplyProcessor(self._config, send, self._clients, self._copies, now_ms=now_ms)
        return {
            RequestCode.GET_ALL_DELAY_OFFSET: self.all_delay_offsets,
            RequestCode.CONSUMER_SEND_MSG_BACK: self._send_back.handle,
            RequestCode.END_TRANSACTION: self._transactions.end,
            RequestCode.RESUME_CHECK_HALF_MESSAGE: self._transactions.resume,
            RequestCode.SEND_REPLY_MESSAGE: reply.handle,
            RequestCode.SEND_REPLY_MESSAGE_V2: reply.handle,
        }

    # Damaged records

    def note_damage(self, physical_offset: int) -> None:
        """The disk has changed the record at this physical offset; a replica is asked for it."""
        self._delivery.note_damage(physical_offset)

    def note_settled(self, physical_offset: int, *, is_lost: bool) -> None:
        """The record is repaired, or no replica has it."""
        if self._delivery.note_settled(physical_offset, is_lost=is_lost):
            self._delay_timer.expect()

    # Life

    def load(self) -> None:
        """Check that delayOffset.json can be read. Raises ValueError."""
        self._delay_file.load()

    def begin(self) -> None:
        """Start to deliver and check: the log of this master is complete."""
        if self._has_begun:
            return
        for changed in self._delivery.begin(self._delay_file.load()):
            self._env.log.warning("delay offset was outside its queue", offset=changed)
        self._halves.begin()
        self._delay_timer.start()
        self._has_begun = True

    def start_jobs(self, schedule: Schedule) -> None:
        """Schedule the jobs of a master; a slave copies its master's progress to its file instead."""
        config = self._config
        if config.is_slave:
            return
        interval_s = config.delay_offset_flush_interval_s
        schedule.await_job("delay offsets", interval_s, self.save, first_s=interval_s)
        interval_s = config.transaction_check_interval_s
        schedule.await_job(
            "transaction check", interval_s, self.check_transactions, first_s=interval_s
        )

    def stop(self) -> None:
        """Stop delivering; `save` may still be called."""
        self._delay_timer.stop()

    async def save(self) -> None:
        """Save the delivery offsets of delayed messages. Raises OSError."""
        if self._has_begun:
            self._halves.save_progress()
            await self._delay_file.save(self._delivery.offsets())

    async def check_transactions(self) -> None:
        """One round of the transaction check."""
        if not self._has_begun:
            return
        self._check.begin()
        steps = 0
        while self._check.step():
            steps += 1
            if steps % CHECKED_AT_ONCE == 0:
                await asyncio.sleep(0)
        self._halves.save_progress()

    def delay_offsets(self) -> dict[int, int]:
        """The delivery offsets of delayed messages, by level."""
        return dict(self._delivery.offsets() if self._has_begun else self._delay_file.load())

    def least_read(self, topic: str, queue_id: int) -> int | None:
        """The lowest offset of all readers of a queue (groups, or the delivery of a level); None if there is none."""
        if topic == SCHEDULE_TOPIC:
            return self.delay_offsets().get(queue_id + 1)
        return self._offsets.least_committed(topic, queue_id)

    def ended_half_count(self) -> int:
        """How many half messages are over that the check has not passed yet."""
        return self._halves.ended_count()

    def all_delay_offsets(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        """Code 45: progress by delay level, for slaves, and for a master with a new disk."""
        body = json_dialect.dumps(delay_offsets_to_json(self.delay_offsets()))
        return RemotingCommand.response(request, ResponseCode.SUCCESS, body=body)
