"""Mutants of clients: our own, each broken in one way."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from staticfire.system_under_test.admin import AdminClient, access, brokers, messages
from staticfire.system_under_test.client.consumer import queue_consumer, queue_puller
from staticfire.system_under_test.client.consumer.consume_figures import ConsumeFigures
from staticfire.system_under_test.client.consumer.process_queue import ProcessQueue
from staticfire.system_under_test.client.consumer.pull.lite_pull_consumer import LitePullConsumer
from staticfire.system_under_test.client.consumer.push import consumer_parts, push_consumer
from staticfire.system_under_test.client.consumer.push.concurrent_consumption import (
    ConcurrentConsumption,
)
from staticfire.system_under_test.client.consumer.queue_puller import QueuePuller
from staticfire.system_under_test.client.consumer.rebalance import allocation
from staticfire.system_under_test.client.consumer.rebalance.assignment import Assignment
from staticfire.system_under_test.client.consumer.rebalance.lock_table import LockTable
from staticfire.system_under_test.client.consumer.rebalance.queue_locking import QueueLocking
from staticfire.system_under_test.client.consumer.rebalance.rebalancing import Rebalancing
from staticfire.system_under_test.client.consumer.subscription import Subscription
from staticfire.system_under_test.client.consumer.subscription_check import check_subscriptions
from staticfire.system_under_test.client.errors import BrokerRefused
from staticfire.system_under_test.client.producer import (
    producer,
    request_reply,
    sender,
    tracing,
    transactions,
)
from staticfire.system_under_test.client.producer.latency_faults import LatencyFaults
from staticfire.system_under_test.client.producer.ordered_queues import OrderedQueues, index_of_key
from staticfire.system_under_test.client.producer.send_back import SendBack
from staticfire.system_under_test.client.producer.sender import SendOptions
from staticfire.system_under_test.client.producer.tracing import TraceBuffer, Tracing
from staticfire.system_under_test.client.routing import client_instance
from staticfire.system_under_test.client.routing.client_instance import ClientInstance
from staticfire.system_under_test.client.routing.routes import BrokerRoute, Route
from staticfire.system_under_test.client.trace import trace_reading, trace_records
from staticfire.system_under_test.client.waiting import wait_until
from staticfire.system_under_test.protocol import unique_id
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.bodies_clients import ProcessQueueInfo
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.headers import EndTransactionHeader
from staticfire.system_under_test.protocol.headers_admin import ConsumeStatsInBrokerHeader
from staticfire.system_under_test.protocol.unique_id import month_of
from tests.conformance.mutants.mutant import system

DAY_MS = 86_400_000


@system("RMQ-ORD-06")
def keys_are_spread_in_the_order_of_the_route(patch: pytest.MonkeyPatch) -> None:
    begin = Route.__init__

    def in_order(
        self: Route, topic: str, brokers: dict[str, BrokerRoute], *, is_template: bool = False
    ) -> None:
        begin(self, topic, brokers, is_template=is_template)
        self.brokers = brokers

    def queue_of(_: OrderedQueues, key: str, route: Route) -> MessageQueue:
        queues = [
            MessageQueue(route.topic, name, number)
            for name, broker in route.brokers.items()
            for number in range(broker.write_queues)
        ]
        return queues[index_of_key(key, len(queues))]

    patch.setattr(Route, "__init__", in_order)
    patch.setattr(OrderedQueues, "queue_of", queue_of)


@system("RMQ-ORD-07")
def clients_never_ask_for_locks(patch: pytest.MonkeyPatch) -> None:
    async def granted(_: QueueLocking, queues: Sequence[MessageQueue]) -> list[MessageQueue]:
        return list(queues)

    patch.setattr(QueueLocking, "lock", granted)
    patch.setattr(QueueLocking, "is_held", lambda *_: True)


@system("RMQ-ORD-07")
def locks_that_were_not_renewed_are_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LockTable, "take_expired", lambda *_: [])
    patch.setattr(LockTable, "take_of", lambda *_: [])
    patch.setattr(QueueLocking, "is_held", lambda self, queue: self.asked_at_s(queue) is not None)


@system("RMQ-RTY-08")
def failed_send_backs_count_as_done(patch: pytest.MonkeyPatch) -> None:
    send_back = SendBack.__call__

    async def succeed(self: SendBack, *given: Any) -> bool:
        await send_back(self, *given)
        return True

    patch.setattr(SendBack, "__call__", succeed)


@system("RMQ-RTY-08")
def what_was_not_sent_back_is_not_tried_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConcurrentConsumption, "_retry", lambda *_: None)


@system("RMQ-SND-16")
def copies_have_one_attempt(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(consumer_parts, "SendOptions", partial(SendOptions, retries=0))


@system("RMQ-LIM-05")
def any_messages_are_a_batch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(producer, "why_no_batch", lambda _: "")


@system("RMQ-FLT-02")
def tags_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Subscription, "matching", lambda _, messages: list(messages))


@system("RMQ-FLT-02")
def what_is_dropped_holds_the_offset_up(patch: pytest.MonkeyPatch) -> None:
    put = ProcessQueue.put

    def put_up_to_the_last(self: ProcessQueue, messages: Sequence[Any], next_offset: int) -> None:
        if messages:
            put(self, messages, messages[-1].queue_offset + 1)

    patch.setattr(ProcessQueue, "put", put_up_to_the_last)


@system("RMQ-RBL-04")
def the_last_queue_has_no_owner(patch: pytest.MonkeyPatch) -> None:
    def without(
        queues: Sequence[MessageQueue], client_ids: Sequence[str], client_id: str
    ) -> list[MessageQueue]:
        size = len(queues) // len(client_ids)
        index = sorted(client_ids).index(client_id)
        return sorted(queues)[index * size : (index + 1) * size]

    patch.setitem(allocation.STRATEGIES, "AVG", without)


@system("RMQ-RBL-04")
def groups_never_change(patch: pytest.MonkeyPatch) -> None:
    share = Rebalancing._share
    known: dict[int, list[MessageQueue]] = {}

    async def first(self: Rebalancing, route: Route) -> list[MessageQueue] | None:
        if id(self) not in known:
            found = await share(self, route)
            if found is None or route.topic.startswith("%"):
                return found
            known[id(self)] = found
        return known[id(self)]

    patch.setattr(Rebalancing, "_share", first)


@system("RMQ-RBL-05")
def the_last_members_get_more(patch: pytest.MonkeyPatch) -> None:
    def turned(
        queues: Sequence[MessageQueue], client_ids: Sequence[str], client_id: str
    ) -> list[MessageQueue]:
        members = sorted(client_ids, reverse=True)
        size, more = divmod(len(queues), len(members))
        index = members.index(client_id)
        start = index * size + min(index, more)
        return sorted(queues)[start : start + size + (index < more)]

    patch.setitem(allocation.STRATEGIES, "AVG", turned)


@system("RMQ-RBL-07")
def new_queues_are_not_seen(patch: pytest.MonkeyPatch) -> None:
    share = Rebalancing._share
    known: dict[str, Route] = {}

    async def first(self: Rebalancing, route: Route) -> list[MessageQueue] | None:
        return await share(self, known.setdefault(route.topic, route))

    patch.setattr(Rebalancing, "_share", first)


@system("RMQ-ADM-10")
def successes_count_as_failures(patch: pytest.MonkeyPatch) -> None:
    consumed = ConsumeFigures.consumed

    def other(self: ConsumeFigures, *given: Any, succeeded: bool) -> None:
        consumed(self, *given, succeeded=not succeeded)

    patch.setattr(ConsumeFigures, "consumed", other)


@system("RMQ-ADM-10")
def offsets_are_those_of_the_last_messages(patch: pytest.MonkeyPatch) -> None:
    offsets = Assignment.offsets

    def before(self: Assignment, topic: str) -> dict[MessageQueue, int]:
        return {queue: offset - 1 for queue, offset in offsets(self, topic).items()}

    patch.setattr(Assignment, "offsets", before)


@system("RMQ-SND-14")
def months_begin_a_day_later(patch: pytest.MonkeyPatch) -> None:
    def later(now_ms: int) -> tuple[int, int]:
        start_ms, end_ms = month_of(now_ms)
        return start_ms + DAY_MS, end_ms

    patch.setattr(unique_id, "month_of", later)


@system("RMQ-TXN-14")
def answers_look_like_ends_of_its_own(patch: pytest.MonkeyPatch) -> None:
    end_command = transactions.end_command
    patch.setattr(
        transactions,
        "end_command",
        lambda header: end_command(replace(header, from_transaction_check=False)),
    )


@system("RMQ-TXN-14")
def the_trace_knows_no_questions(patch: pytest.MonkeyPatch) -> None:
    ended = Tracing.ended
    patch.setattr(Tracing, "ended", lambda self, end: ended(self, replace(end, from_check=False)))


@system("RMQ-TXN-15")
def rollbacks_are_sent_as_unknown(patch: pytest.MonkeyPatch) -> None:
    end_command = transactions.end_command

    def vague(header: EndTransactionHeader) -> RemotingCommand:
        state = header.commit_or_rollback
        return end_command(replace(header, commit_or_rollback=0 if state == 12 else state))

    patch.setattr(transactions, "end_command", vague)


@system("RMQ-SND-15")
def of_several_records_the_first_is_traced(patch: pytest.MonkeyPatch) -> None:
    take = TraceBuffer.take

    def first(self: TraceBuffer) -> tuple[str, list[str]] | None:
        taken = take(self)
        return None if taken is None else (taken[0].partition("\x02")[0] + "\x02", taken[1])

    patch.setattr(TraceBuffer, "take", first)


@system("RMQ-SND-15")
def messages_of_the_trace_are_short(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tracing, "CHARACTERS_MAX", 117_999)


@system("RMQ-SND-16")
def a_send_has_one_attempt(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sender, "is_worth_retrying", lambda _: False)


@system("RMQ-RTY-10")
def listeners_may_take_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProcessQueue, "begun_before", lambda *_: [])


@system("RMQ-PUL-11")
def consumers_pull_from_the_master(patch: pytest.MonkeyPatch) -> None:
    replica = ClientInstance.replica
    patch.setattr(ClientInstance, "replica", lambda self, name, *_: replica(self, name))


@system("RMQ-ADM-15")
def queues_are_droped_until_their_offset_is_known(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(queue_consumer, "ProcessQueueInfo", partial(ProcessQueueInfo, dropped=True))


@system("RMQ-ADM-17")
def accounts_stay_here(patch: pytest.MonkeyPatch) -> None:
    async def put_account(*_: object) -> None:
        pass

    patch.setattr(access, "put_account", put_account)


@system("RMQ-ADM-17")
def a_unique_key_is_a_key(patch: pytest.MonkeyPatch) -> None:
    query = messages._query
    patch.setattr(messages, "_query", lambda *args, **_: query(*args, is_unique=False))


@system("RMQ-ADM-17")
def every_cluster_is_there(patch: pytest.MonkeyPatch) -> None:
    clean = AdminClient.brokers
    patch.setattr(AdminClient, "brokers", lambda self, _cluster=None: clean(self))


@system("RMQ-ADM-17")
def statistics_are_of_ordered_topics(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        brokers, "ConsumeStatsInBrokerHeader", lambda **_: ConsumeStatsInBrokerHeader(is_order=True)
    )


@system("RMQ-ADM-17")
def traces_of_old_clients_are_not_read(patch: pytest.MonkeyPatch) -> None:
    published = trace_reading._published

    def new_only(fields: list[str]) -> trace_reading.TraceEvent:
        if len(fields) < 15:
            raise ValueError("it is too short")
        return published(fields)

    patch.setattr(trace_reading, "_published", new_only)


@system("RMQ-TXN-14")
def ends_have_the_type_of_delayed_messages(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(trace_records, "MessageType", SimpleNamespace(COMMITTED=3))


@system("RMQ-PUL-12")
def the_first_queue_has_precedence(patch: pytest.MonkeyPatch) -> None:
    take = LitePullConsumer._take

    def from_the_first(self: LitePullConsumer) -> tuple[MessageQueue, list[Any]] | None:
        self._turn = 0
        return take(self)

    patch.setattr(LitePullConsumer, "_take", from_the_first)


@system("RMQ-PUL-13")
def refused_pulls_are_repeated_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(queue_puller, "ERROR_PAUSE_S", 0.01)


@system("RMQ-PUL-14")
def a_start_that_is_found_later_counts(patch: pytest.MonkeyPatch) -> None:
    start_at = QueuePuller.start_at

    def beside(self: QueuePuller, offset: int) -> None:
        self._locating = None
        start_at(self, offset)

    patch.setattr(QueuePuller, "start_at", beside)


@system("RMQ-RBL-08")
def a_consumer_that_ends_goes_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConcurrentConsumption, "close", lambda _: None)


@system("RMQ-RBL-08")
def answers_to_goodbyes_are_not_awaited(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(client_instance, "GOODBYE_TIMEOUT_S", 0.0)


@system("RMQ-FLT-10")
def consumers_start_with_any_expression(patch: pytest.MonkeyPatch) -> None:
    async def ask_only(*given: Any) -> None:
        with suppress(BrokerRefused):
            await check_subscriptions(*given)

    patch.setattr(push_consumer, "check_subscriptions", ask_only)


@system("RMQ-FLT-10")
def refusals_have_no_text(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BrokerRefused, "__str__", lambda self: f"refused with code {self.code}")


@system("RMQ-SND-17")
def of_slow_brokers_the_fastest_is_taken(patch: pytest.MonkeyPatch) -> None:
    pick = LatencyFaults.pick_one_at_least

    def fastest(self: LatencyFaults, now_ms: int) -> str | None:
        self._next_pick = -1
        return pick(self, now_ms)

    patch.setattr(LatencyFaults, "pick_one_at_least", fastest)


@system("RMQ-SND-17")
def slow_brokers_are_not_avoided(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LatencyFaults, "is_available", lambda *_: True)


@system("RMQ-SND-18")
def requests_wait_for_ever(patch: pytest.MonkeyPatch) -> None:
    async def without_a_bound(futures: Any, is_enough: Any, _timeout_s: float | None) -> None:
        await wait_until(futures, is_enough, None)

    patch.setattr(request_reply, "wait_until", without_a_bound)


@system("RMQ-SND-18")
def requests_give_up_at_once(patch: pytest.MonkeyPatch) -> None:
    async def not_at_all(*_: Any) -> None:
        """Do not wait."""

    patch.setattr(request_reply, "wait_until", not_at_all)


@system("RMQ-OFF-13")
def a_lost_master_is_not_looked_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClientInstance, "look_for_master", lambda *_: None)
