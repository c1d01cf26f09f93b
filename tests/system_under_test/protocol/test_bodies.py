"""Bodies: documents of Java and C++ peers are understood, ours are what Java's beans would write."""

from __future__ import annotations

import json
import struct
import tarfile
import zlib
from pathlib import Path
from typing import Any

import pytest

from staticfire.system_under_test.protocol import registration
from staticfire.system_under_test.protocol.bodies import (
    BrokerData,
    ClusterInfo,
    ConsumerData,
    DataVersion,
    HeartbeatData,
    MessageQueue,
    QueueData,
    RegisterBrokerBody,
    SubscriptionData,
    SubscriptionGroupConfig,
    TopicConfig,
    TopicConfigTable,
    TopicRouteData,
)
from staticfire.system_under_test.protocol.json_dialect import (
    REQUEST_ELEMENTS_MAX,
    BodyError,
    dumps,
    loads,
)

DATA = Path(__file__).parents[2] / "data"

INFLATED_VECTOR = (
    bytes.fromhex("00000027")
    + b'{"counter":3,"timestamp":1600000000000}'
    + bytes.fromhex("0000000200000013")
    + b"T1 4 4 6 SINGLE_TAG"
    + bytes.fromhex("00000013")
    + b"T2 8 8 6 SINGLE_TAG"
    + bytes.fromhex("00000011")
    + b'["10.0.0.1:9999"]'
)


def recorded(name: str) -> list[str]:
    """The bodies of all recorded frames of this name."""
    lines = [
        line
        for path in sorted((DATA / "captures").glob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    events = [json.loads(line) for line in lines]
    return [event["body"] for event in events if event.get("name") == name and event["body"]]


def route() -> TopicRouteData:
    return TopicRouteData(
        queue_datas=[
            QueueData(broker_name="b", read_queue_nums=4, write_queue_nums=4, perm=6),
        ],
        broker_datas=[
            BrokerData(cluster="c", broker_name="b", broker_addrs={0: "m:1", 1: "s:1"}),
        ],
    )


BODIES = [
    route(),
    TopicRouteData(queue_datas=[], broker_datas=[], order_topic_conf="b:4"),
    ClusterInfo(
        broker_addr_table={"b": BrokerData(cluster="c", broker_name="b", broker_addrs={})},
        cluster_addr_table={"c": ["b"]},
    ),
    DataVersion(timestamp=1, counter=2**40),
    TopicConfig(topic_name="T", perm=4, topic_filter_type="MULTI_TAG", order=True),
    TopicConfigTable(
        topics={"T": TopicConfig(topic_name="T")}, data_version=DataVersion(counter=1)
    ),
    SubscriptionGroupConfig(group_name="g", retry_max_times=3, consume_enable=False),
    RegisterBrokerBody(filter_servers=["10.0.0.1:9999"]),
    SubscriptionData(topic="T", tags_set=["A"], code_set=[65], sub_version=2**40),
    HeartbeatData(
        client_id="c",
        producer_groups=["p"],
        consumers=[ConsumerData(group_name="g", subscriptions=[SubscriptionData(topic="T")])],
    ),
    MessageQueue(topic="T", broker_name="b", queue_id=3),
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: type(body).__name__)
def test_every_body_survives_its_json(body: Any) -> None:
    assert type(body).from_json(loads(dumps(body.to_json()))) == body


@pytest.mark.parametrize("body", BODIES, ids=lambda body: type(body).__name__)
@pytest.mark.parametrize("document", [None, 1, "text", [], [{}], True])
def test_what_is_no_object_is_refused(body: Any, document: object) -> None:
    with pytest.raises(BodyError):
        type(body).from_json(document)


# Routes


def test_a_route_has_the_properties_that_old_clients_need() -> None:
    assert route().to_json() == {
        "queueDatas": [
            {
                "brokerName": "b",
                "readQueueNums": 4,
                "writeQueueNums": 4,
                "perm": 6,
                "topicSysFlag": 0,
            }
        ],
        "brokerDatas": [
            {"cluster": "c", "brokerName": "b", "brokerAddrs": {0: "m:1", 1: "s:1"}},
        ],
        "filterServerTable": {},
    }


def test_every_recorded_route_is_understood() -> None:
    bodies = recorded("RE:GET_ROUTEINFO_BY_TOPIC")
    assert any("{0:" in body for body in bodies)
    assert any('{"0":' in body for body in bodies)
    for body in bodies:
        found = TopicRouteData.from_json(loads(body))
        assert found.broker_datas[0].broker_addrs[0] == "127.0.0.1:20911"
        assert found.queue_datas[0].broker_name == found.broker_datas[0].broker_name == "broker-a"


def test_the_name_with_the_typing_error_is_understood() -> None:
    document = {
        "brokerName": "b",
        "readQueueNums": 1,
        "writeQueueNums": 1,
        "perm": 6,
        "topicSynFlag": 2,
    }
    assert QueueData.from_json(document).topic_sys_flag == 2


# Heartbeats


def test_every_recorded_heartbeat_is_understood() -> None:
    heartbeats = [HeartbeatData.from_json(loads(body)) for body in recorded("HEART_BEAT")]
    assert len(heartbeats) == 46
    consumers = [consumer for heartbeat in heartbeats for consumer in heartbeat.consumers]
    assert {consumer.consume_type for consumer in consumers} == {
        "CONSUME_ACTIVELY",
        "CONSUME_PASSIVELY",
    }
    assert {consumer.message_model for consumer in consumers} == {"BROADCASTING", "CLUSTERING"}
    assert all(s.sub_version > 1_600_000_000_000 for c in consumers for s in c.subscriptions)


def test_a_cpp_heartbeat_has_ordinals_and_numbers_as_text() -> None:
    document = {
        "clientID": "1-127.0.0.1@i1",
        "consumerDataSet": [
            {
                "consumeFromWhere": 0,
                "consumeType": 1,
                "groupName": "g",
                "messageModel": 0,
                "subscriptionDataSet": [{"subString": "*", "subVersion": "17", "topic": "T"}],
            }
        ],
    }
    heartbeat = HeartbeatData.from_json(document)
    (consumer,) = heartbeat.consumers
    assert (consumer.consume_type, consumer.message_model, consumer.consume_from_where) == (
        "CONSUME_PASSIVELY",
        "BROADCASTING",
        "CONSUME_FROM_LAST_OFFSET",
    )
    assert consumer.subscriptions == [SubscriptionData(topic="T", sub_version=17)]
    assert heartbeat.producer_groups == []


def test_a_subscription_shared_by_two_groups_is_a_reference() -> None:
    text = (
        '{"clientID":"c","consumerDataSet":[{"groupName":"g1","subscriptionDataSet":[{"topic":"T"}]},'
        '{"groupName":"g2","subscriptionDataSet":[{"$ref":"$.consumerDataSet[0].subscriptionDataSet[0]"}]}]}'
    )
    first, second = HeartbeatData.from_json(loads(text)).consumers
    assert first.subscriptions == second.subscriptions == [SubscriptionData(topic="T")]


def test_producer_groups_are_objects_on_the_wire() -> None:
    document = HeartbeatData(client_id="c", producer_groups=["p", "q"]).to_json()
    assert document == {
        "clientID": "c",
        "producerDataSet": [{"groupName": "p"}, {"groupName": "q"}],
        "consumerDataSet": [],
    }


# Registrations


def test_a_registration_without_compression() -> None:
    table = TopicConfigTable(topics={"T": TopicConfig(topic_name="T")})
    body = RegisterBrokerBody(topic_config_table=table)
    decoded = RegisterBrokerBody.decode(dumps(body.to_json()), compressed=False, version=409)
    assert decoded == body


def test_the_compressed_vector() -> None:
    body = RegisterBrokerBody.decode(
        zlib.compress(INFLATED_VECTOR, 9), compressed=True, version=409
    )
    table = body.topic_config_table
    assert table.data_version == DataVersion(timestamp=1_600_000_000_000, counter=3)
    assert table.topics == {
        "T1": TopicConfig(topic_name="T1", read_queue_nums=4, write_queue_nums=4),
        "T2": TopicConfig(topic_name="T2", read_queue_nums=8, write_queue_nums=8),
    }
    assert body.filter_servers == ["10.0.0.1:9999"]


def test_no_body_is_an_empty_table() -> None:
    body = RegisterBrokerBody.decode(b"", compressed=True, version=409)
    assert body.topic_config_table == TopicConfigTable(
        data_version=DataVersion(timestamp=0, counter=0)
    )


def test_an_old_broker_sends_the_bare_table() -> None:
    table = TopicConfigTable(topics={"T": TopicConfig(topic_name="T")})
    body = RegisterBrokerBody.decode(dumps(table.to_json()), compressed=False, version=36)
    assert body.topic_config_table == table


@pytest.mark.parametrize("size", [0, 3, 20, 43, 46, 47, 60, 70, len(INFLATED_VECTOR) - 1])
def test_a_cut_registration_is_refused(size: int) -> None:
    with pytest.raises(BodyError):
        RegisterBrokerBody.decode(
            zlib.compress(INFLATED_VECTOR[:size]), compressed=True, version=409
        )


@pytest.mark.parametrize(
    "inflated",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 2**31 - 1),
        INFLATED_VECTOR[:43] + struct.pack(">i", 2**31 - 1),
        INFLATED_VECTOR.replace(b"T1 4 4 6", b"T1 4 4 x"),
        INFLATED_VECTOR.replace(b"T1 4 4 6", b"T1_4_4_6"),
        INFLATED_VECTOR.replace(b"SINGLE_TAG", b"DOUBLE_TAG"),
        INFLATED_VECTOR.replace(b'{"counter', b'["counter'),
    ],
)
def test_a_registration_that_lies_is_refused(inflated: bytes) -> None:
    with pytest.raises(BodyError):
        RegisterBrokerBody.decode(zlib.compress(inflated), compressed=True, version=409)


@pytest.mark.parametrize("body", [b"x", b"{}", zlib.compress(INFLATED_VECTOR)[:-5]])
def test_what_does_not_inflate_is_refused(body: bytes) -> None:
    with pytest.raises(BodyError):
        RegisterBrokerBody.decode(body, compressed=True, version=409)


def test_a_small_body_may_not_inflate_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "SIZE_MAX", len(INFLATED_VECTOR) - 1)
    with pytest.raises(BodyError, match="inflates beyond"):
        RegisterBrokerBody.decode(zlib.compress(INFLATED_VECTOR), compressed=True, version=409)


TOPIC_DOCUMENT = TopicConfig(topic_name="T").to_json()


def registration_of(topics: int, servers: int = 0) -> RegisterBrokerBody:
    table = {f"T{number}": TopicConfig(topic_name=f"T{number}") for number in range(topics)}
    return RegisterBrokerBody(
        topic_config_table=TopicConfigTable(topics=table),
        filter_servers=[f"10.0.0.1:{number}" for number in range(servers)],
    )


@pytest.mark.parametrize("compressed", [True, False])
def test_a_registration_with_too_many_topics_is_refused_before_one_is_read(
    monkeypatch: pytest.MonkeyPatch, compressed: bool
) -> None:
    """61 KB of zlib held a name server for seconds: they were 1.2 million topics."""
    monkeypatch.setattr(registration, "TOPICS_MAX", 3)
    most = registration_of(3)
    encoded = most.encode_for(compressed=compressed)
    assert RegisterBrokerBody.decode(encoded, compressed=compressed, version=409) == most
    read = []
    monkeypatch.setattr(TopicConfig, "from_json", lambda document: read.append(document))
    with pytest.raises(BodyError, match="4 topics; allowed: up to 3"):
        RegisterBrokerBody.decode(
            registration_of(4).encode_for(compressed=compressed),
            compressed=compressed,
            version=409,
        )
    assert read == []


def test_the_bare_table_of_an_old_broker_has_the_same_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registration, "TOPICS_MAX", 3)
    body = registration_of(4).topic_config_table.encode()
    with pytest.raises(BodyError, match="4 topics; allowed: up to 3"):
        RegisterBrokerBody.decode(body, compressed=False, version=36)


@pytest.mark.parametrize("compressed", [True, False])
def test_a_registration_with_too_many_filter_servers_is_refused(
    monkeypatch: pytest.MonkeyPatch, compressed: bool
) -> None:
    monkeypatch.setattr(registration, "FILTER_SERVERS_MAX", 2)
    for servers in (2, 3):
        body = registration_of(1, servers)
        encoded = body.encode_for(compressed=compressed)
        if servers == 2:
            assert RegisterBrokerBody.decode(encoded, compressed=compressed, version=409) == body
        else:
            with pytest.raises(BodyError, match="3 filter servers; allowed: up to 2"):
                RegisterBrokerBody.decode(encoded, compressed=compressed, version=409)


def test_a_registration_of_all_topics_that_a_broker_makes_is_taken() -> None:
    """Its elements are within their bound, too."""
    document = {
        "topicConfigSerializeWrapper": {
            "topicConfigTable": {
                f"T{number}": TOPIC_DOCUMENT for number in range(registration.TOPICS_MAX)
            },
            "dataVersion": {"counter": 1, "timestamp": 1},
        },
        "filterServerList": [],
    }
    assert registration.read_registration(dumps(document)) == document


def test_a_large_registration_in_the_dialect_is_refused() -> None:
    """The dialect is read ten times more slowly; RocketMQ writes registrations in standard JSON."""
    with pytest.raises(BodyError, match="is not standard JSON"):
        registration.read_registration(b"{0:[" + b"1," * REQUEST_ELEMENTS_MAX + b"1]}")
    assert registration.read_registration(b"{0:[1]}") == {"0": [1]}


# Tables of a real broker


@pytest.mark.parametrize("store", ["clean", "killed"])
def test_the_metadata_of_a_real_broker_is_understood(store: str) -> None:
    topics = TopicConfigTable.from_json(golden_document(store, "topics.json"))
    assert topics.topics["Golden"].write_queue_nums == 4
    assert topics.topics["TBW102"].perm == 7
    assert TopicConfigTable.from_json(topics.to_json()) == topics
    groups = golden_document(store, "subscriptionGroup.json")["subscriptionGroupTable"]
    config = SubscriptionGroupConfig.from_json(groups["CID_golden"])
    assert config == SubscriptionGroupConfig(group_name="CID_golden")


def golden_document(store: str, name: str) -> Any:
    with tarfile.open(DATA / "golden-store" / f"store-{store}.tar.xz") as archive:
        file = archive.extractfile(f"{store}/config/{name}")
        assert file is not None
        return loads(file.read())


# Wrong values


@pytest.mark.parametrize(
    ("document", "what"),
    [
        ({}, "topicName is missing"),
        ({"topicName": None}, "topicName is missing"),
        ({"topicName": 1}, "topicName"),
        ({"topicName": "T", "perm": "x"}, "perm"),
        ({"topicName": "T", "perm": 1.0}, "perm"),
        ({"topicName": "T", "perm": True}, "perm"),
        ({"topicName": "T", "perm": 2**31}, "perm"),
        ({"topicName": "T", "perm": -(2**31) - 1}, "perm"),
        ({"topicName": "T", "perm": "9" * 6000}, "perm"),
        ({"topicName": "T", "order": "true"}, "order"),
        ({"topicName": "T", "topicFilterType": "NO_TAG"}, "topicFilterType"),
        ({"topicName": "T", "topicFilterType": 2}, "topicFilterType"),
        ({"topicName": "T", "topicFilterType": -1}, "topicFilterType"),
        ({"topicName": "T", "topicFilterType": []}, "topicFilterType"),
    ],
)
def test_a_wrong_property_is_named(document: dict[str, object], what: str) -> None:
    with pytest.raises(BodyError, match=what):
        TopicConfig.from_json(document)


def test_a_wrong_property_deep_inside_is_named_with_its_path() -> None:
    document = {"topicConfigTable": {"T": {"topicName": "T", "perm": []}}}
    with pytest.raises(BodyError, match=r"TopicConfigTable\.topicConfigTable: TopicConfig\.perm: "):
        TopicConfigTable.from_json(document)


def test_null_means_javas_default() -> None:
    config = TopicConfig.from_json({"topicName": "T", "perm": None, "unknown": 1})
    assert config == TopicConfig(topic_name="T")


def test_message_queues_are_keys_and_have_an_order() -> None:
    queues = [
        MessageQueue(topic="T", broker_name=name, queue_id=number)
        for name in ("b", "a")
        for number in (1, 0)
    ]
    assert [(queue.broker_name, queue.queue_id) for queue in sorted(queues)] == [
        ("a", 0),
        ("a", 1),
        ("b", 0),
        ("b", 1),
    ]
    assert len(dict.fromkeys(queues + queues)) == 4


def test_a_compressed_registration_is_the_recorded_stream() -> None:
    topics = {
        name: TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues)
        for name, queues in (("T1", 4), ("T2", 8))
    }
    version = DataVersion(timestamp=1600000000000, counter=3)
    body = RegisterBrokerBody(
        topic_config_table=TopicConfigTable(topics=topics, data_version=version),
        filter_servers=["10.0.0.1:9999"],
    )
    encoded = body.encode_for(compressed=True)
    assert encoded[:2] == b"\x78\xda"
    assert zlib.decompress(encoded) == (
        b'\x00\x00\x00\x27{"counter":3,"timestamp":1600000000000}'
        b"\x00\x00\x00\x02\x00\x00\x00\x13T1 4 4 6 SINGLE_TAG"
        b'\x00\x00\x00\x13T2 8 8 6 SINGLE_TAG\x00\x00\x00\x11["10.0.0.1:9999"]'
    )
    assert RegisterBrokerBody.decode(encoded, compressed=True, version=409) == body
