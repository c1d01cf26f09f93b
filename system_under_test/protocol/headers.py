"""The custom headers, one class a request or response (RocketMQ: common.protocol.header).

Each has `to_ext()` and `from_ext()`; SendMessageHeader also has the forms with short names that code 310 uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from staticfire.system_under_test.protocol.header_fields import (
    BOOLEANS,
    INT32S,
    INT64S,
    Header,
    Int32,
    Int64,
    ShortHeader,
)

# Sending: 10, 310, 320, 36, 324, 325, 326


@dataclass(slots=True)  # neither frozen nor kw_only, for speed: made for every message
class SendMessageHeader(ShortHeader):
    """RocketMQ: SendMessageRequestHeader and, with the letters a to n in this order, SendMessageRequestHeaderV2."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32  # below 0: the broker chooses
    sys_flag: Int32
    born_timestamp: Int64  # ms
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 = 0
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None
    batch: bool = False
    bname: str | None = None  # broker name; brokers ignore it

    @classmethod
    def from_ext_v2(cls, ext: Mapping[str, str]) -> Self:
        """ShortHeader's method with its loop unrolled: the loop over the fields takes three times as long."""
        get = ext.get
        try:
            return cls(
                ext["a"],
                ext["b"],
                ext["c"],
                INT32S[ext["d"]],
                INT32S[ext["e"]],
                INT32S[ext["f"]],
                INT64S[ext["g"]],
                INT32S[ext["h"]],
                get("i"),
                INT32S[get("j", "0")],
                BOOLEANS[get("k", "false")],
                INT32S[ext["l"]] if "l" in ext else None,
                BOOLEANS[get("m", "false")],
                get("n"),
            )
        except (KeyError, ValueError):
            return cls._from_letters(ext)  # its error names the field


@dataclass(frozen=True, slots=True, kw_only=True)
class SendMessageResponse(Header):
    """Comes with the codes 0, 10, 11 and 12: the message is stored."""

    msg_id: str  # offset message id
    queue_id: Int32
    queue_offset: Int64
    transaction_id: str | None = None
    region: str | None = field(default=None, metadata={"wire": "MSG_REGION"})
    trace_on: str | None = field(default=None, metadata={"wire": "TRACE_ON"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSendMsgBackHeader(Header):
    offset: Int64  # physical offset of the message
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyMessageHeader(Header):
    """RocketMQ: ReplyMessageRequestHeader (326)."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64  # ms
    flag: Int32
    born_host: str  # ip:port of the replier
    store_host: str  # ip:port of the broker
    store_timestamp: Int64  # ms
    properties: str | None = None
    reconsume_times: Int32 = 0
    unit_mode: bool = False


# Transactions: 37, 39, 323


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransactionHeader(Header):
    producer_group: str
    tran_state_table_offset: Int64  # queue offset of the half message
    commit_log_offset: Int64  # physical offset of the half message
    commit_or_rollback: Int32  # 8 commit, 12 rollback, 0 unknown
    msg_id: str
    from_transaction_check: bool = False
    transaction_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckTransactionStateHeader(Header):
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeCheckHalfMessageHeader(Header):
    msg_id: str | None = None  # offset message id


# Pulling: 11


@dataclass(frozen=True, slots=True, kw_only=True)
class PullMessageHeader(Header):
    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32  # bits of RocketMQ's PullSysFlag
    commit_offset: Int64
    suspend_timeout_millis: Int64
    sub_version: Int64
    subscription: str | None = None
    expression_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PullMessageResponse(Header):
    suggest_which_broker_id: Int64
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64


# Offsets and single records: 14, 15, 29, 30, 31, 32, 33


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryConsumerOffsetHeader(Header):
    consumer_group: str
    topic: str
    queue_id: Int32


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateConsumerOffsetHeader(QueryConsumerOffsetHeader):
    commit_offset: Int64


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOffsetHeader(Header):
    topic: str
    queue_id: Int32
    timestamp: Int64  # ms


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueHeader(Header):
    """Codes 30, 31 and 32."""

    topic: str
    queue_id: Int32


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewMessageHeader(Header):
    offset: Int64  # physical offset


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryMessageHeader(Header):
    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64  # store times in ms
    end_timestamp: Int64
    # MixAll.UNIQUE_MSG_QUERY_FLAG: "true", or something else
    unique_key_query: str | None = field(default=None, metadata={"wire": "_UNIQUE_KEY_QUERY"})


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryMessageResponse(Header):
    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64


# Clients: 35, 38, 40, 203


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterClientHeader(Header):
    client_id: str = field(metadata={"wire": "clientID"})
    producer_group: str | None = None
    consumer_group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupHeader(Header):
    """Codes 38, 40 and 203."""

    consumer_group: str


# Topics: 17, 202, 215, 300


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicHeader(Header):
    topic: str
    default_topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str
    topic_sys_flag: Int32 | None = None
    order: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicHeader(Header):
    """Codes 202, 215 and 300."""

    topic: str


# Name server: 103, 104, 105, 322


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerHeader(Header):
    broker_name: str
    broker_addr: str  # ip:port
    cluster_name: str
    broker_id: Int64  # 0 is the master


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerHeader(UnregisterBrokerHeader):
    ha_server_addr: str
    compressed: bool = False
    body_crc32: Int32 = field(default=0, metadata={"wire": "bodyCrc32"})  # 0: not checked


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerResponse(Header):
    """What a slave learns of its master; nothing if there is none."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryDataVersionResponse(Header):
    changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GetRouteInfoHeader(Header):
    topic: str
    accept_standard_json_only: bool = False
