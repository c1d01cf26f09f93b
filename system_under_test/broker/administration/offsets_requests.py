"""Offsets of groups: codes 43, 208, 303, 308, 314, 317 (RocketMQ, AdminBrokerProcessor)."""

from __future__ import annotations

from collections.abc import Generator

from staticfire.system_under_test.broker.administration.parts import AdminParts
from staticfire.system_under_test.broker.responses import answer_ok, topic_unknown
from staticfire.system_under_test.broker.text import stamp_text
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.bodies import MessageQueue, TopicConfig
from staticfire.system_under_test.protocol.bodies_queues import (
    BrokerConsumeStats,
    ConsumeStats,
    ConsumeTimeSpans,
    CorrectionOffsets,
    OffsetPosition,
    QueueTimeSpan,
)
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.headers_admin import (
    CloneGroupOffsetHeader,
    ConsumeStatsHeader,
    ConsumeStatsInBrokerHeader,
    ConsumeTimeSpanHeader,
    CorrectionOffsetHeader,
)
from staticfire.system_under_test.protocol.json_body import JsonBody
from staticfire.system_under_test.remoting import Connection, Handler
from staticfire.system_under_test.remoting.pieces import Pieces

LONG_MAX = (1 << 63) - 1  # Java's Long.MAX_VALUE
# queue positions of groups read in one turn of the loop: tens of milliseconds
POSITIONS_A_TURN = 2_000


class OffsetRequests:
    """Handles requests about the progress of consumer groups."""

    def __init__(self, parts: AdminParts) -> None:
        self._parts = parts
        self._pieces = Pieces()

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.GET_ALL_CONSUMER_OFFSET: self.all_offsets,
            RequestCode.GET_CONSUME_STATS: self.consume_stats,
            RequestCode.QUERY_CONSUME_TIME_SPAN: self.time_spans,
            RequestCode.QUERY_CORRECTION_OFFSET: self.correction_offsets,
            RequestCode.CLONE_GROUP_OFFSET: self.clone,
            RequestCode.GET_BROKER_CONSUME_STATS: self.broker_consume_stats,
        }

    def all_offsets(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Answer the whole table of offsets, for slaves (code 43)."""
        body = json_dialect.dumps(self._parts.offsets.snapshot())
        return RemotingCommand.response(request, ResponseCode.SUCCESS, body=body)

    def clone(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Copy the offsets of one group to another."""
        header = CloneGroupOffsetHeader.from_ext(request.ext_fields)
        topics = [header.topic or ""]
        if not header.topic and self._parts.policy.clones_all_topics:
            topics = self._topics_of(header.src_group)
        for topic in topics:
            exists = self._parts.topics.get(topic) is not None
            if exists and (header.offline or self._is_consumed(header.src_group, topic)):
                self._parts.offsets.clone(header.src_group, header.dest_group, topic)
        return answer_ok(request)

    def correction_offsets(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        """The lowest offset of all groups in each queue; LONG_MAX where the compared group is behind it."""
        header = CorrectionOffsetHeader.from_ext(request.ext_fields)
        left_out = [group for group in (header.filter_groups or "").split(",") if group]
        lowest = self._parts.policy.lowest_offsets(
            self._parts.offsets, header.topic, left_out, self._min_offset
        )
        compared = self._parts.offsets.queues(header.compare_group, header.topic)
        corrected = {
            queue_id: LONG_MAX if offset > compared.get(queue_id, offset) else offset
            for queue_id, offset in lowest.items()
        }
        return answer_ok(request, CorrectionOffsets(correction_offsets=corrected))

    def _min_offset(self, topic: str, queue_id: int) -> int:
        return self._parts.store.queue_bounds(topic, queue_id)[0]

    # Progress

    def consume_stats(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand | None:
        """The offset of one group in each read queue of its topics."""
        header = ConsumeStatsHeader.from_ext(request.ext_fields)
        return self._go_on(connection, request, self._group_stats(header), is_new=True)

    def _go_on(
        self,
        connection: Connection,
        request: RemotingCommand,
        work: Generator[int, None, JsonBody],
        *,
        is_new: bool = False,
    ) -> RemotingCommand | None:
        """The answer, or None if it comes later. `work` yields how many positions it has read, and returns the body."""
        done = POSITIONS_A_TURN if is_new and self._pieces else 0
        while done < POSITIONS_A_TURN:
            try:
                done += next(work)
            except StopIteration as end:
                return answer_ok(request, end.value)
        return self._pieces.go_on(
            connection, request, lambda again, same: self._go_on(again, same, work)
        )

    def _group_stats(self, header: ConsumeStatsHeader) -> Generator[int, None, ConsumeStats]:
        group = header.consumer_group
        table: dict[MessageQueue, OffsetPosition] = {}
        tps = 0.0
        for topic in [header.topic] if header.topic else self._topics_of(group):
            if self._is_consumed(group, topic):
                settings = self._parts.topics.get(topic)
                assert settings is not None, "what is consumed exists"
                table |= self._positions(group, topic, settings.read_queue_nums)
                tps += self._parts.statistics.group_get_tps(group, topic)
                yield settings.read_queue_nums
        return ConsumeStats(offset_table=table, consume_tps=tps)

    def broker_consume_stats(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand | None:
        """The offsets of all groups in the write queues of their topics."""
        header = ConsumeStatsInBrokerHeader.from_ext(request.ext_fields)
        return self._go_on(connection, request, self._all_stats(header), is_new=True)

    def _all_stats(
        self, header: ConsumeStatsInBrokerHeader
    ) -> Generator[int, None, BrokerConsumeStats]:
        topics = self._parts.offsets.topics_by_group()
        groups: list[dict[str, list[ConsumeStats]]] = []
        lag = 0
        for group in self._parts.groups.names():
            stats: list[ConsumeStats] = []
            for topic in topics.get(group, ()):
                settings = self._parts.topics.get(topic)
                if settings is None or not self._is_consumed(group, topic):
                    continue
                if settings.order or not header.is_order:
                    stats.append(self._topic_stats(group, settings))
                    yield settings.write_queue_nums
            groups.append({group: stats})
            lag += sum(one.total_lag for one in stats)
        return BrokerConsumeStats(
            broker_addr=self._parts.config.address, consume_stats_list=groups, total_diff=lag
        )

    def _topic_stats(self, group: str, settings: TopicConfig) -> ConsumeStats:
        topic = settings.topic_name
        return ConsumeStats(
            offset_table=self._positions(group, topic, settings.write_queue_nums),
            consume_tps=self._parts.statistics.group_get_tps(group, topic),
        )

    def _topics_of(self, group: str) -> list[str]:
        return self._parts.offsets.topics_of(group)

    def _is_consumed(self, group: str, topic: str) -> bool:
        """Whether the topic exists and, if the group is online, is one that it subscribes to."""
        online = self._parts.clients.consumer_group(group)
        if online is not None and online.subscriptions and topic not in online.subscriptions:
            return False
        return self._parts.topics.get(topic) is not None

    def _positions(
        self, group: str, topic: str, queue_count: int
    ) -> dict[MessageQueue, OffsetPosition]:
        broker_name = self._parts.config.broker_name
        return {
            MessageQueue(topic, broker_name, queue_id): self._position(group, topic, queue_id)
            for queue_id in range(queue_count)
        }

    def _position(self, group: str, topic: str, queue_id: int) -> OffsetPosition:
        store = self._parts.store
        consumed = max(0, self._parts.offsets.query(group, topic, queue_id) or 0)
        last_ms = store.queue_view.store_time_ms(topic, queue_id, consumed - 1)
        return OffsetPosition(
            broker_offset=store.queue_bounds(topic, queue_id)[1],
            consumer_offset=consumed,
            last_timestamp=max(0, last_ms),
        )

    # Times

    def time_spans(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Store times of the messages of each queue, and of the last one that the group has consumed."""
        header = ConsumeTimeSpanHeader.from_ext(request.ext_fields)
        settings = self._parts.topics.get(header.topic)
        if settings is None:
            return topic_unknown(header.topic).answer(request)
        spans = [
            self._span(header.group, settings, queue_id)
            for queue_id in range(settings.write_queue_nums)
        ]
        return answer_ok(request, ConsumeTimeSpans(spans=spans))

    def _span(self, group: str, settings: TopicConfig, queue_id: int) -> QueueTimeSpan:
        topic, store = settings.topic_name, self._parts.store
        end = store.queue_bounds(topic, queue_id)[1]
        consumed = self._parts.offsets.query(group, topic, queue_id) or 0
        earliest_ms = store.queue_view.earliest_store_time_ms(topic, queue_id)
        delay_ms = 0
        if consumed < end:
            next_ms = store.queue_view.store_time_ms(topic, queue_id, max(0, consumed))
            delay_ms = self._parts.clock.wall_ms() - next_ms
        latest_ms = store.queue_view.store_time_ms(topic, queue_id, end - 1)
        consumed_ms = earliest_ms
        if consumed > 0:
            consumed_ms = store.queue_view.store_time_ms(topic, queue_id, consumed - 1)
        zone_s = self._parts.config.utc_offset_s
        return QueueTimeSpan(
            message_queue=MessageQueue(topic, self._parts.config.broker_name, queue_id),
            min_time_stamp=earliest_ms,
            min_time_stamp_str=stamp_text(earliest_ms, zone_s),
            max_time_stamp=latest_ms,
            max_time_stamp_str=stamp_text(latest_ms, zone_s),
            consume_time_stamp=consumed_ms,
            consume_time_stamp_str=stamp_text(consumed_ms, zone_s),
            delay_time=delay_ms,
        )
