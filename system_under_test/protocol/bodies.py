"""The JSON bodies that several requests share (RocketMQ: common.protocol.body, .route and .heartbeat).

Each has `to_json()` and `from_json()`. Names of properties are Java's; defaults are those of the Java classes.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated, Any, NamedTuple, Self, TypeAlias

from staticfire.system_under_test.protocol.header_fields import Int32, Int64
from staticfire.system_under_test.protocol.json_body import JsonBody
from staticfire.system_under_test.protocol.registration import (
    read_compressed_registration,
    read_registration,
    write_compressed_registration,
)

# Names of Java enums, in their order: C++ clients send the position.
TopicFilterType: TypeAlias = Annotated[str, ("SINGLE_TAG", "MULTI_TAG")]
ConsumeType: TypeAlias = Annotated[str, ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY")]
MessageModel: TypeAlias = Annotated[str, ("BROADCASTING", "CLUSTERING")]
ConsumeFromWhere: TypeAlias = Annotated[
    str,
    (
        "CONSUME_FROM_LAST_OFFSET",
        "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
        "CONSUME_FROM_MIN_OFFSET",
        "CONSUME_FROM_MAX_OFFSET",
        "CONSUME_FROM_FIRST_OFFSET",
        "CONSUME_FROM_TIMESTAMP",
    ),
]

BODY_VERSION_MIN = 37  # MQVersion V3_0_11: older brokers register a bare TopicConfigTable


class MessageQueue(NamedTuple):
    """One queue of a topic on one broker name: the unit of order, of offsets and of assignment.

    A tuple, because clients use it as a key for every message.
    """

    topic: str
    broker_name: str
    queue_id: int

    def to_json(self) -> dict[str, object]:
        return {"brokerName": self.broker_name, "queueId": self.queue_id, "topic": self.topic}

    @classmethod
    def from_json(cls, document: object) -> Self:
        """Raises BodyError."""
        body = _MessageQueueBody.from_json(document)
        return cls(topic=body.topic, broker_name=body.broker_name, queue_id=body.queue_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class _MessageQueueBody(JsonBody):
    topic: str
    broker_name: str
    queue_id: Int32


# Routes


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueData(JsonBody):
    """How many queues of a topic a broker name has."""

    broker_name: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    # Up to 4.8 the name had a typo.
    topic_sys_flag: Int32 = field(default=0, metadata={"also": ("topicSynFlag",)})


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerData(JsonBody):
    """The brokers of one name: addresses `ip:port` by broker id, 0 is the master."""

    cluster: str
    broker_name: str
    broker_addrs: dict[Int64, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRouteData(JsonBody):
    queue_datas: list[QueueData]
    broker_datas: list[BrokerData]
    filter_server_table: dict[str, list[str]] = field(default_factory=dict)
    order_topic_conf: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInfo(JsonBody):
    broker_addr_table: dict[str, BrokerData]  # by broker name
    cluster_addr_table: dict[str, list[str]]  # broker names by cluster


# Tables that brokers keep, register and copy


@dataclass(frozen=True, slots=True, kw_only=True)
class DataVersion(JsonBody):
    """The version of a table; a different version means different content, not newer content."""

    timestamp: Int64 = 0  # ms
    counter: Int64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig(JsonBody):
    topic_name: str
    read_queue_nums: Int32 = 16
    write_queue_nums: Int32 = 16
    perm: Int32 = 6
    topic_filter_type: TopicFilterType = "SINGLE_TAG"
    topic_sys_flag: Int32 = 0
    order: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfigTable(JsonBody):
    """RocketMQ: TopicConfigSerializeWrapper; topics.json and the body of code 21."""

    topics: dict[str, TopicConfig] = field(
        default_factory=dict, metadata={"wire": "topicConfigTable"}
    )
    data_version: DataVersion = field(default_factory=DataVersion)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionGroupConfig(JsonBody):
    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    retry_queue_nums: Int32 = 1
    retry_max_times: Int32 = 16
    broker_id: Int64 = 0
    which_broker_when_consume_slowly: Int64 = 1
    notify_consumer_ids_changed_enable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerBody(JsonBody):
    """The body of code 103."""

    topic_config_table: TopicConfigTable = field(
        default_factory=TopicConfigTable, metadata={"wire": "topicConfigSerializeWrapper"}
    )
    filter_servers: list[str] = field(default_factory=list, metadata={"wire": "filterServerList"})

    @classmethod
    def decode(cls, body: bytes, *, compressed: bool, version: int) -> Self:
        """Read a registration as a broker of the given version sends it; an empty body is an empty table.

        Raises BodyError: the body is malformed.
        """
        return cls.from_json(cls.read(body, compressed=compressed, version=version))

    @staticmethod
    def read(body: bytes, *, compressed: bool, version: int) -> object:
        """Parse the bytes that `decode` reads, without checking values. Raises BodyError."""
        if not body:
            return {}
        if version < BODY_VERSION_MIN:
            return {"topicConfigSerializeWrapper": read_registration(body)}
        return read_compressed_registration(body) if compressed else read_registration(body)

    @classmethod
    def decode_in_pieces(cls, document: Any, topics: int) -> Generator[None, None, Self]:
        """Like `from_json`, but yields after every `topics` topics. Raises BodyError."""
        wrapper = document["topicConfigSerializeWrapper"]
        rest = {**wrapper, "topicConfigTable": {}}
        found = cls.from_json({**document, "topicConfigSerializeWrapper": rest})
        items = iter(wrapper["topicConfigTable"].items())
        while some := dict(islice(items, topics)):
            piece = TopicConfigTable.from_json({"topicConfigTable": some})
            found.topic_config_table.topics.update(piece.topics)
            yield
        return found

    def encode_for(self, *, compressed: bool) -> bytes:
        """The bytes as code 103 carries them; compressed, they lose the order and system flags of topics."""
        return write_compressed_registration(self.to_json()) if compressed else self.encode()


# Clients


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionData(JsonBody):
    topic: str
    sub_string: str = "*"
    tags_set: list[str] = field(default_factory=list)
    code_set: list[Int32] = field(default_factory=list)  # hash of each tag; C++ sends zeros
    sub_version: Int64 = 0  # ms
    expression_type: str = "TAG"
    class_filter_mode: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerData(JsonBody):
    """One consumer group of a client."""

    group_name: str
    consume_type: ConsumeType = "CONSUME_PASSIVELY"
    message_model: MessageModel = "CLUSTERING"
    consume_from_where: ConsumeFromWhere = "CONSUME_FROM_LAST_OFFSET"
    subscriptions: list[SubscriptionData] = field(
        default_factory=list, metadata={"wire": "subscriptionDataSet"}
    )
    unit_mode: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatData:
    """The body of code 34: everything that one client process produces and consumes."""

    client_id: str
    producer_groups: list[str] = field(default_factory=list)
    consumers: list[ConsumerData] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
        producers = [_ProducerData(group_name=group) for group in self.producer_groups]
        return _HeartbeatBody(
            client_id=self.client_id, producers=producers, consumers=self.consumers
        ).to_json()

    @classmethod
    def from_json(cls, document: object) -> Self:
        """Raises BodyError."""
        body = _HeartbeatBody.from_json(document)
        groups = [producer.group_name for producer in body.producers]
        return cls(client_id=body.client_id, producer_groups=groups, consumers=body.consumers)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProducerData(JsonBody):
    group_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _HeartbeatBody(JsonBody):
    client_id: str = field(metadata={"wire": "clientID"})
    producers: list[_ProducerData] = field(
        default_factory=list, metadata={"wire": "producerDataSet"}
    )
    consumers: list[ConsumerData] = field(
        default_factory=list, metadata={"wire": "consumerDataSet"}
    )
