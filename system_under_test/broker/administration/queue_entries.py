"""Entries of a consume queue, and whether a group's filter matches them: code 321 (RocketMQ, AdminBrokerProcessor)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable

from staticfire.system_under_test.broker.administration.parts import AdminParts
from staticfire.system_under_test.broker.metadata.tag_filter import (
    is_tag_expression,
    subscribed_tags,
)
from staticfire.system_under_test.broker.pulling.pull_filters import (
    ALL_MESSAGES,
    PullFilter,
    properties_at,
)
from staticfire.system_under_test.broker.responses import answer_error, answer_ok
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.bodies import SubscriptionData
from staticfire.system_under_test.protocol.bodies_queues import ConsumeQueueEntry, ConsumeQueuePage
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.headers_admin import QueryConsumeQueueHeader
from staticfire.system_under_test.protocol.json_pretty import dumps_pretty
from staticfire.system_under_test.remoting import Connection, Handler
from staticfire.system_under_test.store.queues.consume_queue import Entry
from staticfire.system_under_test.store.record_filter import ExtensionUnit

ENTRIES_MAX = 10_000  # in one answer
UNIT_SIZE = 20  # bytes of an extension unit without bits (RocketMQ, CqExtUnit.MIN_EXT_UNIT_SIZE)

Delivers = Callable[[Entry, ExtensionUnit | None], bool]


class QueueEntryRequests:
    """Handles requests for single queue entries."""

    def __init__(self, parts: AdminParts) -> None:
        self._parts = parts

    def handlers(self) -> dict[int, Handler]:
        return {RequestCode.QUERY_CONSUME_QUEUE: self.queue_entries}

    def queue_entries(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Entries of a consume queue and, for a group, whether its filter would deliver them."""
        header = QueryConsumeQueueHeader.from_ext(request.ext_fields)
        topic, queue_id = header.topic, header.queue_id
        store = self._parts.store
        if not store.queue_view.exists(topic, queue_id):
            return answer_error(request, f"{queue_id}@{topic} is not exist!")
        entries = store.queue_view.entries(
            topic, queue_id, header.index, min(header.count, ENTRIES_MAX)
        )
        low, high = store.queue_bounds(topic, queue_id)
        if not entries and not low <= header.index <= high:
            return answer_error(
                request, f"Index {header.index} of {queue_id}@{topic} is not exist!"
            )
        subscription, filter_data, delivers = self._filter_of(header.consumer_group, topic)
        units = store.queue_view.extension_units(topic, queue_id, header.index, len(entries))
        page = ConsumeQueuePage(
            queue_data=[
                describe(entry, unit, delivers=delivers(entry, unit))
                for entry, unit in zip(entries, units or [None] * len(entries), strict=True)
            ],
            min_queue_index=low,
            max_queue_index=high,
            subscription_data=subscription,
            filter_data=filter_data,
        )
        return answer_ok(request, page)

    def _filter_of(
        self, group: str | None, topic: str
    ) -> tuple[SubscriptionData | None, str | None, Delivers]:
        """Subscription, its expression as RocketMQ prints it or the reason why there is none, and a test of entries."""
        if not group:
            return None, None, nothing
        online = self._parts.clients.consumer_group(group)
        subscription = None if online is None else online.subscriptions.get(topic)
        if subscription is None:
            return None, f"{group}@{topic} is not online!", nothing
        known = self._parts.filters.get(topic, group)
        filter_data = "null" if known is None else dumps_pretty(known.to_json()).decode()
        if is_tag_expression(subscription.expression_type):
            wanted = PullFilter(subscribed_tags(subscription))
        elif known is None:  # as in RocketMQ, a group without an expression gets every message
            wanted = ALL_MESSAGES
        else:
            wanted = PullFilter(None, self._parts.pull_filters.of_group(known))
        return subscription, filter_data, self._delivers(wanted)

    def _delivers(self, wanted: PullFilter) -> Delivers:
        def delivers(entry: Entry, unit: ExtensionUnit | None) -> bool:
            by_record = wanted.by_record
            if by_record is not None and not by_record.may_match(unit, entry.physical_offset):
                return False
            look_up = self._parts.store.record_of_entry
            return wanted.wakes(
                entry.tags_code, lambda: properties_at(look_up, entry.physical_offset)
            )

        return delivers


def nothing(_entry: Entry, _unit: ExtensionUnit | None) -> bool:
    """The test of a group whose members would get no entry."""
    return False


def describe(entry: Entry, unit: ExtensionUnit | None, *, delivers: bool) -> ConsumeQueueEntry:
    """One entry of the answer."""
    extended = bits = None
    if unit is not None:
        fields: dict[str, object] = {
            "msgStoreTime": unit.store_timestamp_ms,
            "size": UNIT_SIZE + len(unit.bit_map),
            "tagsCode": unit.tags_code,
        }
        if unit.bit_map:
            fields["filterBitMap"] = b64encode(unit.bit_map).decode()
            bits = bits_text(unit.bit_map)
        extended = json_dialect.dumps(fields).decode()
    return ConsumeQueueEntry(
        physic_offset=entry.physical_offset,
        physic_size=entry.size,
        tags_code=entry.tags_code,
        extend_data_json=extended,
        bit_map=bits,
        eval=delivers,
    )


def bits_text(bit_map: bytes) -> str:
    """RocketMQ, BitsArray.toString: the highest bit first, 64 bits a line."""
    last_to_first = reversed(list(enumerate(bit_map)))
    return "".join(f"{byte:08b}" + "\n" * (at % 8 == 0) for at, byte in last_to_first)
