"""Custom headers of administrative requests and of brokers' requests to clients (RocketMQ: common.protocol.header)."""

from __future__ import annotations

from dataclasses import dataclass

from staticfire.system_under_test.protocol.header_fields import Header, Int32, Int64


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConnectionsHeader(Header):
    """Code 204."""

    producer_group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSubscriptionGroupHeader(Header):
    """Code 207."""

    group_name: str
    remove_offset: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeStatsHeader(Header):
    """Code 208; without a topic: all that the group has offsets for."""

    consumer_group: str
    topic: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOffsetHeader(Header):
    """Codes 222 and 220. A timestamp of -1 means the end of the queue."""

    topic: str
    group: str
    timestamp: Int64  # ms
    is_force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerStatusHeader(Header):
    """Codes 223 and 221; `client_addr` is a client id."""

    topic: str
    group: str
    client_addr: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeTimeSpanHeader(Header):
    """Code 303."""

    topic: str
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRunningInfoHeader(Header):
    """Code 307, to the broker and from it to the client."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionOffsetHeader(Header):
    """Code 308."""

    compare_group: str
    topic: str
    filter_groups: str | None = None  # separated by commas


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeMessageDirectlyHeader(Header):
    """Code 309, to the broker and, with the record as body, from it to the client."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None  # offset message id
    broker_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneGroupOffsetHeader(Header):
    """Code 314; without a topic: all that the source group has offsets for."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatsHeader(Header):
    """Code 315."""

    stats_name: str
    stats_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeStatsInBrokerHeader(Header):
    """Code 317."""

    is_order: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryConsumeQueueHeader(Header):
    """Code 321."""

    topic: str
    queue_id: Int32
    index: Int64  # queue offset of the first entry
    count: Int32
    consumer_group: str | None = None
