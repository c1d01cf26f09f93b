"""JSON bodies about queues and offsets (RocketMQ: common.protocol.body, common.admin).

Those with a table by MessageQueue must be written by `encode`: Java reads such keys only as objects.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from staticfire.system_under_test.protocol.bodies import MessageQueue, SubscriptionData
from staticfire.system_under_test.protocol.header_fields import Int32, Int64
from staticfire.system_under_test.protocol.json_body import JsonBody

# Locks: 41, 42


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLockRequest(JsonBody):
    """RocketMQ: LockBatchRequestBody, UnlockBatchRequestBody."""

    consumer_group: str
    client_id: str
    queues: list[MessageQueue] = field(default_factory=list, metadata={"wire": "mqSet"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedQueues(JsonBody):
    """RocketMQ: LockBatchResponseBody; those of the requested queues that the client has locked now."""

    queues: list[MessageQueue] = field(default_factory=list, metadata={"wire": "lockOKMQSet"})


# What queues hold: 202, 321


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOffset(JsonBody):
    min_offset: Int64 = 0
    max_offset: Int64 = 0
    last_update_timestamp: Int64 = 0  # ms, 0 without messages


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStats(JsonBody):
    """RocketMQ: TopicStatsTable, the answer to code 202."""

    offset_table: dict[MessageQueue, TopicOffset] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeQueueEntry(JsonBody):
    """RocketMQ: ConsumeQueueData."""

    physic_offset: Int64
    physic_size: Int32
    tags_code: Int64
    extend_data_json: str | None = None
    bit_map: str | None = None
    eval: bool = False  # whether the group's filter would deliver it
    msg: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeQueuePage(JsonBody):
    """RocketMQ: QueryConsumeQueueResponseBody, the answer to code 321."""

    queue_data: list[ConsumeQueueEntry] = field(default_factory=list)
    min_queue_index: Int64 = 0
    max_queue_index: Int64 = 0
    subscription_data: SubscriptionData | None = None
    filter_data: str | None = None


# What groups have consumed: 208, 303, 308, 317


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetPosition(JsonBody):
    """RocketMQ: OffsetWrapper."""

    broker_offset: Int64 = 0
    consumer_offset: Int64 = 0
    last_timestamp: Int64 = 0  # store time of the last message consumed, ms

    @property
    def lag(self) -> int:
        return self.broker_offset - self.consumer_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeStats(JsonBody):
    """The answer to code 208."""

    offset_table: dict[MessageQueue, OffsetPosition] = field(default_factory=dict)
    consume_tps: float = 0.0  # messages a second

    @property
    def total_lag(self) -> int:
        return sum(position.lag for position in self.offset_table.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConsumeStats(JsonBody):
    """RocketMQ: ConsumeStatsList, the answer to code 317. Each element has one group and its topics."""

    broker_addr: str
    consume_stats_list: list[dict[str, list[ConsumeStats]]] = field(default_factory=list)
    total_diff: Int64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTimeSpan(JsonBody):
    """Store times of the first, the last and the last consumed message of a queue, in ms, -1 if there is none.

    Java makes the text of each from the number; no client parses it.
    """

    message_queue: MessageQueue
    min_time_stamp: Int64 = 0
    min_time_stamp_str: str | None = None
    max_time_stamp: Int64 = 0
    max_time_stamp_str: str | None = None
    consume_time_stamp: Int64 = 0
    consume_time_stamp_str: str | None = None
    delay_time: Int64 = 0  # ms since the next message to consume was stored


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeTimeSpans(JsonBody):
    """RocketMQ: QueryConsumeTimeSpanBody, the answer to code 303."""

    spans: list[QueueTimeSpan] = field(
        default_factory=list, metadata={"wire": "consumeTimeSpanSet"}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionOffsets(JsonBody):
    """The answer to code 308: offsets by queue id."""

    correction_offsets: dict[Int32, Int64] = field(default_factory=dict)


# Reset and status: 220 to 223


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOffsetBody(JsonBody):
    """The answer to code 222, and what code 220 sends to clients."""

    offset_table: dict[MessageQueue, Int64] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOffsetForC(JsonBody):
    """RocketMQ: MessageQueueForC."""

    topic: str
    broker_name: str
    queue_id: Int32
    offset: Int64


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOffsetBodyForC(JsonBody):
    """Code 220 for C++ clients, which cannot read objects as keys."""

    offset_table: list[QueueOffsetForC] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerStatus(JsonBody):
    """RocketMQ: GetConsumerStatusBody. Clients (221) fill the second table, brokers (223) the first, by client id."""

    consumer_table: dict[str, dict[MessageQueue, Int64]] = field(default_factory=dict)
    message_queue_table: dict[MessageQueue, Int64] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetMovedEvent(JsonBody):
    """The body of a message in OFFSET_MOVED_EVENT: a consumer pulled at an offset that its queue does not hold."""

    consumer_group: str
    message_queue: MessageQueue
    offset_request: Int64
    offset_new: Int64
