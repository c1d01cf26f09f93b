"""JSON bodies about clients, lists and statistics (RocketMQ: common.protocol.body)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, TypeAlias

from staticfire.system_under_test.protocol.bodies import (
    ConsumeFromWhere,
    ConsumeType,
    DataVersion,
    MessageModel,
    MessageQueue,
    SubscriptionData,
    SubscriptionGroupConfig,
)
from staticfire.system_under_test.protocol.codes import LanguageCode
from staticfire.system_under_test.protocol.header_fields import Int32, Int64
from staticfire.system_under_test.protocol.json_body import JsonBody

Language: TypeAlias = Annotated[str, tuple(language.name for language in LanguageCode)]
ConsumeResult: TypeAlias = Annotated[
    str,
    (
        "CR_SUCCESS",
        "CR_LATER",
        "CR_ROLLBACK",
        "CR_COMMIT",
        "CR_THROW_EXCEPTION",
        "CR_RETURN_NULL",
    ),
]


# Lists and tables


@dataclass(frozen=True, slots=True, kw_only=True)
class KVTable(JsonBody):
    """RocketMQ: KVTable; the answer to code 28 and others."""

    table: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicList(JsonBody):
    topic_list: list[str] = field(default_factory=list)
    broker_addr: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupList(JsonBody):
    group_list: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionGroupTable(JsonBody):
    """RocketMQ: SubscriptionGroupWrapper; subscriptionGroup.json and the answer to code 201."""

    groups: dict[str, SubscriptionGroupConfig] = field(
        default_factory=dict, metadata={"wire": "subscriptionGroupTable"}
    )
    data_version: DataVersion = field(default_factory=DataVersion)


# Who is connected: 46, 203, 204, 328


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckClientConfig(JsonBody):
    """The body of code 46."""

    client_id: str = ""
    group: str = ""
    subscription_data: SubscriptionData | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConnection(JsonBody):
    """RocketMQ: Connection."""

    client_id: str
    client_addr: str  # ip:port
    language: Language
    version: Int32


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConnections(JsonBody):
    """RocketMQ: ConsumerConnection, the answer to code 203."""

    connection_set: list[ClientConnection] = field(default_factory=list)
    subscription_table: dict[str, SubscriptionData] = field(default_factory=dict)  # by topic
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConnections(JsonBody):
    """RocketMQ: ProducerConnection, the answer to code 204."""

    connection_set: list[ClientConnection] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerInfo(JsonBody):
    client_id: str
    remote_ip: str = field(metadata={"wire": "remoteIP"})  # /ip:port
    language: Language
    version: Int32
    last_update_timestamp: Int64  # ms


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerTable(JsonBody):
    """RocketMQ: ProducerTableInfo, the answer to code 328: members by group."""

    data: dict[str, list[ProducerInfo]] = field(default_factory=dict)


# What consumers report about themselves: 307, 309


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessQueueInfo(JsonBody):
    """What a consumer has pulled from one queue and not yet consumed. Times are ms since 1970."""

    commit_offset: Int64 = 0
    cached_msg_min_offset: Int64 = 0
    cached_msg_max_offset: Int64 = 0
    cached_msg_count: Int32 = 0
    cached_msg_size_in_mi_b: Int32 = field(default=0, metadata={"wire": "cachedMsgSizeInMiB"})
    transaction_msg_min_offset: Int64 = 0
    transaction_msg_max_offset: Int64 = 0
    transaction_msg_count: Int32 = 0
    locked: bool = False
    try_unlock_times: Int64 = 0
    last_lock_timestamp: Int64 = 0
    dropped: bool = field(default=False, metadata={"wire": "droped"})  # as RocketMQ spells it
    last_pull_timestamp: Int64 = 0
    last_consume_timestamp: Int64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeStatus(JsonBody):
    """A consumer's performance on one topic: times in ms, rates per second."""

    pull_rt: float = field(default=0.0, metadata={"wire": "pullRT"})
    pull_tps: float = field(default=0.0, metadata={"wire": "pullTPS"})
    consume_rt: float = field(default=0.0, metadata={"wire": "consumeRT"})
    consume_ok_tps: float = field(default=0.0, metadata={"wire": "consumeOKTPS"})
    consume_failed_tps: float = field(default=0.0, metadata={"wire": "consumeFailedTPS"})
    consume_failed_msgs: Int64 = 0  # in the last hour


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRunningInfo(JsonBody):
    """The answer of a client to code 307."""

    properties: dict[str, str] = field(default_factory=dict)
    subscription_set: list[SubscriptionData] = field(default_factory=list)
    mq_table: dict[MessageQueue, ProcessQueueInfo] = field(default_factory=dict)
    status_table: dict[str, ConsumeStatus] = field(default_factory=dict)  # by topic
    jstack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeDirectlyResult(JsonBody):
    """RocketMQ: ConsumeMessageDirectlyResult, the answer of a client to code 309."""

    consume_result: ConsumeResult
    order: bool = False
    auto_commit: bool = True
    remark: str | None = None
    spent_time_mills: Int64 = 0


# Statistics: 315


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsSummary(JsonBody):
    """RocketMQ: BrokerStatsItem: one window of a counter."""

    sum: Int64 = 0
    tps: float = 0.0  # sum per second
    avgpt: float = 0.0  # sum per call


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStats(JsonBody):
    """RocketMQ: BrokerStatsData, the answer to code 315."""

    stats_minute: StatsSummary = field(default_factory=StatsSummary)
    stats_hour: StatsSummary = field(default_factory=StatsSummary)
    stats_day: StatsSummary = field(default_factory=StatsSummary)
