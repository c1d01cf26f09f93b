"""A name server without sockets: commands in, commands out, and a clock that is moved by hand."""

from __future__ import annotations

import asyncio
import zlib
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.system_under_test.configuration.java_properties import parse_properties
from staticfire.system_under_test.configuration.mode import Mode
from staticfire.system_under_test.name_server import kv_config, requests
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.bodies import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigTable,
)
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.json_dialect import BodyError
from staticfire.system_under_test.store.errors import StoreError
from tests.system_under_test.broker.bench import Peer
from tests.system_under_test.name_server.hand_driven import (
    Node,
    broker,
    connection,
    parsed,
)

CODES = [
    RequestCode.REGISTER_BROKER,
    RequestCode.UNREGISTER_BROKER,
    RequestCode.QUERY_DATA_VERSION,
    RequestCode.GET_ROUTEINFO_BY_TOPIC,
    RequestCode.GET_BROKER_CLUSTER_INFO,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER,
    RequestCode.ADD_WRITE_PERM_OF_BROKER,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    RequestCode.GET_TOPICS_BY_CLUSTER,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
    RequestCode.DELETE_TOPIC_IN_NAMESRV,
    RequestCode.PUT_KV_CONFIG,
    RequestCode.GET_KV_CONFIG,
    RequestCode.DELETE_KV_CONFIG,
    RequestCode.GET_KVLIST_BY_NAMESPACE,
    RequestCode.GET_UNIT_TOPIC_LIST,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    RequestCode.UPDATE_NAMESRV_CONFIG,
    RequestCode.GET_NAMESRV_CONFIG,
]
FIELDS = [
    *("brokerName", "brokerAddr", "clusterName", "haServerAddr", "brokerId", "compressed"),
    *("bodyCrc32", "topic", "namespace", "key", "value", "cluster"),
]


# Brokers


def test_a_route(node: Node) -> None:
    node.register("T")
    node.register(broker_id=1, key=2)
    route = parsed(node.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"}))
    assert route == {
        "queueDatas": [
            {
                "brokerName": "a",
                "readQueueNums": 4,
                "writeQueueNums": 4,
                "perm": 6,
                "topicSysFlag": 0,
            }
        ],
        "brokerDatas": [{"cluster": "c", "brokerName": "a", "brokerAddrs": {"0": "A0", "1": "A1"}}],
        "filterServerTable": {},
    }


def test_an_unknown_topic_is_code_17(node: Node) -> None:
    answer = node.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert "T" in (answer.remark or "")


def test_a_slave_learns_its_master(node: Node) -> None:
    assert node.register("T").ext_fields == {}
    answer = node.register(broker_id=1, key=2)
    assert answer.ext_fields == {"masterAddr": "A0", "haServerAddr": "H0"}


def test_a_registration_without_body_is_an_empty_table(node: Node) -> None:
    answer = node.ask(RequestCode.REGISTER_BROKER, {**broker(), "haServerAddr": "H"})
    assert answer.code == ResponseCode.SUCCESS
    assert parsed(node.ask(RequestCode.GET_BROKER_CLUSTER_INFO))["clusterAddrTable"] == {"c": ["a"]}


def test_a_compressed_registration(node: Node) -> None:
    parts = [
        b'{"counter":3,"timestamp":1600000000000}',
        b"T1 4 4 6 SINGLE_TAG",
        b"T2 8 8 6 SINGLE_TAG",
        b'["10.0.0.1:9999"]',
    ]
    sized = [len(part).to_bytes(4, "big") + part for part in parts]
    body = zlib.compress(sized[0] + (2).to_bytes(4, "big") + b"".join(sized[1:]), 9)
    crc = zlib.crc32(body) & 0x7FFFFFFF
    answer = node.ask(
        RequestCode.REGISTER_BROKER,
        {**broker(), "haServerAddr": "H", "compressed": "true", "bodyCrc32": str(crc)},
        body=body,
    )
    assert answer.code == ResponseCode.SUCCESS
    route = parsed(node.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T2"}))
    assert route["queueDatas"][0]["writeQueueNums"] == 8
    assert route["filterServerTable"] == {"A0": ["10.0.0.1:9999"]}


def test_a_wrong_crc_registers_nothing(node: Node) -> None:
    with pytest.raises(ValueError, match="crc32 not match"):
        node.register("T", bodyCrc32="1")
    assert node.route_code() == ResponseCode.TOPIC_NOT_EXIST


def test_unregister(node: Node) -> None:
    node.register("T")
    assert node.ask(RequestCode.UNREGISTER_BROKER, broker()).code == ResponseCode.SUCCESS
    assert node.route_code() == ResponseCode.TOPIC_NOT_EXIST


@pytest.mark.parametrize(("counter", "changed"), [(1, "false"), (2, "true")])
def test_query_data_version(node: Node, counter: int, changed: str) -> None:
    node.register("T")
    node.run(110)
    answer = node.ask(
        RequestCode.QUERY_DATA_VERSION,
        broker(),
        body=json_dialect.dumps({"timestamp": 1, "counter": counter}),
    )
    assert answer.ext_fields == {"changed": changed}
    assert parsed(answer) == {"timestamp": 1, "counter": 1}
    node.run(30)  # an unchanged version counts as a sign of life
    assert (node.route_code() == ResponseCode.SUCCESS) == (changed == "false")


def test_query_data_version_of_an_unknown_broker(node: Node) -> None:
    body = json_dialect.dumps({"timestamp": 0, "counter": 0})
    answer = node.ask(RequestCode.QUERY_DATA_VERSION, broker(), body=body)
    assert (answer.ext_fields, answer.body) == ({"changed": "true"}, b"")


# Topics


def test_topic_lists(node: Node) -> None:
    node.register("T", "U")
    every = parsed(node.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))
    assert every == {"topicList": ["T", "U"]}
    assert parsed(node.ask(RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": "c"})) == every
    system = parsed(node.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS))
    assert system == {"topicList": ["c", "a"], "brokerAddr": "A0"}


def test_no_brokers_no_address(node: Node) -> None:
    assert parsed(node.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)) == {"topicList": []}


def test_delete_topic(node: Node) -> None:
    node.register("T", "U")
    node.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "T", "clusterName": "other"})
    assert node.route_code("T") == ResponseCode.SUCCESS
    node.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "T"})
    assert (node.route_code("T"), node.route_code("U")) == (17, 0)


def test_write_permission(node: Node) -> None:
    node.register("T", "U")
    wiped = node.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "a"})
    assert wiped.ext_fields == {"wipeTopicCount": "2"}
    added = node.ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "a"})
    assert added.ext_fields == {"addTopicCount": "2"}


# Key-value pairs


def put(node: Node, namespace: str, key: str, value: str) -> None:
    answer = node.ask(
        RequestCode.PUT_KV_CONFIG, {"namespace": namespace, "key": key, "value": value}
    )
    assert answer.code == ResponseCode.SUCCESS


def test_pairs(node: Node) -> None:
    put(node, "n", "k", "v1")
    put(node, "n", "k", "v2")
    put(node, "n", "other", "w")
    got = node.ask(RequestCode.GET_KV_CONFIG, {"namespace": "n", "key": "k"})
    assert got.ext_fields == {"value": "v2"}
    node.ask(RequestCode.DELETE_KV_CONFIG, {"namespace": "n", "key": "k"})
    node.ask(RequestCode.DELETE_KV_CONFIG, {"namespace": "n", "key": "never there"})
    every = parsed(node.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "n"}))
    assert every == {"table": {"other": "w"}}


@pytest.mark.parametrize(
    ("code", "ext"),
    [
        (RequestCode.GET_KV_CONFIG, {"namespace": "n", "key": "k"}),
        (RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "n"}),
    ],
)
def test_missing_pairs_are_code_22(node: Node, code: int, ext: dict[str, str]) -> None:
    assert node.ask(code, ext).code == ResponseCode.QUERY_NOT_FOUND


def test_pairs_survive_a_power_cut(node: Node) -> None:
    put(node, "n", "k", "v")
    node.disk.power_cut()
    node.disk.power_on()
    node.restart()
    got = node.ask(RequestCode.GET_KV_CONFIG, {"namespace": "n", "key": "k"})
    assert got.ext_fields == {"value": "v"}


def is_lost_in_power_cuts(mode: Mode, rounds: int) -> bool:
    """Whether one of many power cuts takes back a pair that was put before."""
    node = Node(mode=mode)
    for number in range(rounds):
        put(node, "n", "k", str(number))
        node.disk.power_cut()
        node.disk.power_on()
        try:
            node.restart()
        except StoreError:
            return True
        got = node.ask(RequestCode.GET_KV_CONFIG, {"namespace": "n", "key": "k"})
        if got.ext_fields.get("value") != str(number):
            return True
    return False


def test_power_cuts_take_pairs_back_in_faithful_mode_only() -> None:
    assert not is_lost_in_power_cuts(Mode.HARDENED, 20)
    assert is_lost_in_power_cuts(Mode.FAITHFUL, 20)


def test_a_pair_that_cannot_be_saved_does_not_exist(node: Node) -> None:
    put(node, "n", "k", "v")
    node.disk.fail_fsync(1)
    with pytest.raises(OSError, match="Input/output error"):
        put(node, "n", "k", "lost")
    got = node.ask(RequestCode.GET_KV_CONFIG, {"namespace": "n", "key": "k"})
    assert got.ext_fields == {"value": "v"}


@pytest.mark.parametrize("enabled", [False, True])
def test_order_configuration(enabled: bool) -> None:
    node = Node(order_message_enable=enabled)
    put(node, "ORDER_TOPIC_CONFIG", "T", "a:4")
    # Brokers always get the order configuration, clients only if it is enabled.
    assert parsed(node.register("T")) == {"table": {"T": "a:4"}}
    route = parsed(node.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"}))
    assert route.get("orderTopicConf") == ("a:4" if enabled else None)


@pytest.mark.parametrize(
    ("version", "ext", "addresses"),
    [
        (400, {}, b'{0:"A0",1:"A1"}'),
        (401, {}, b'{"0":"A0","1":"A1"}'),
        (400, {"acceptStandardJsonOnly": "true"}, b'{"0":"A0","1":"A1"}'),
    ],
)
def test_old_clients_get_the_dialect_that_they_can_read(
    node: Node, version: int, ext: dict[str, str], addresses: bytes
) -> None:
    node.register("T")
    node.register(broker_id=1, key=2)
    request = RemotingCommand.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T", **ext})
    request.version = version
    answer = node.server.handle(connection(1), request)
    assert answer is not None
    assert b'"brokerAddrs":' + addresses in answer.body


def test_cluster_info_is_always_in_the_dialect(node: Node) -> None:
    node.register("T")
    body = node.ask(RequestCode.GET_BROKER_CLUSTER_INFO).body
    assert body == (
        b'{"brokerAddrTable":{"a":{"brokerAddrs":{0:"A0"},"brokerName":"a","cluster":"c"}},'
        b'"clusterAddrTable":{"c":["a"]}}'
    )


# Options


def test_options_are_changed_durably(node: Node) -> None:
    put(node, "ORDER_TOPIC_CONFIG", "T", "a:4")
    node.register("T")
    answer = node.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true\nnever=1")
    assert answer.code == ResponseCode.SUCCESS
    route = parsed(node.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"}))
    assert route["orderTopicConf"] == "a:4"
    text = node.ask(RequestCode.GET_NAMESRV_CONFIG).body
    assert parse_properties(text.decode())["orderMessageEnable"] == "true"
    assert b"never" not in text
    node.disk.power_cut()
    node.disk.power_on()
    file = node.disk.open("/namesrv/namesrv.properties")
    saved = file.pread(file.size(), 0)
    assert text.startswith(saved)
    assert b"orderMessageEnable=true" in saved


def test_every_key_of_rocketmqs_name_server_is_reported(node: Node) -> None:
    """As 4.9.8 tells them, but rocketmqHome, the folder of its distribution, which no name server here has."""
    reported = parse_properties(node.ask(RequestCode.GET_NAMESRV_CONFIG).body.decode())
    keys = """clusterTest configBlackList configStorePath kvConfigPath listenPort orderMessageEnable productEnvName
        serverAsyncSemaphoreValue serverCallbackExecutorThreads serverChannelMaxIdleTimeSeconds
        serverOnewaySemaphoreValue serverPooledByteBufAllocatorEnable serverSelectorThreads serverSocketBacklog
        serverSocketRcvBufSize serverSocketSndBufSize serverWorkerThreads useEpollNativeSelector
        writeBufferHighWaterMark writeBufferLowWaterMark"""
    assert set(keys.split()) <= set(reported)
    assert reported["configBlackList"] == "configBlackList;configStorePath;kvConfigPath"
    answer = node.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"serverWorkerThreads=16")
    assert answer.code == 0
    assert b"serverWorkerThreads=8\n" in node.ask(RequestCode.GET_NAMESRV_CONFIG).body


@pytest.mark.parametrize(
    "name",
    [
        "configBlackList",
        "configStorePath",
        "kvConfigPath",
        "registerAllowedAddresses",
        "registerAllowedBrokers",
        "registerAllowedClusters",
    ],
)
def test_options_in_the_black_list_are_code_16(node: Node, name: str) -> None:
    body = f"orderMessageEnable=true\n{name}=/elsewhere".encode()
    answer = node.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=body)
    assert answer.code == ResponseCode.NO_PERMISSION
    assert b"orderMessageEnable=false" in node.ask(RequestCode.GET_NAMESRV_CONFIG).body


def test_a_longer_black_list_of_its_own() -> None:
    node = Node(black_list=("orderMessageEnable",))
    for name in ("orderMessageEnable", "kvConfigPath"):
        answer = node.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=f"{name}=true".encode())
        assert answer.code == ResponseCode.NO_PERMISSION


def test_names_that_mean_nothing_here_stay_in_the_file(node: Node) -> None:
    node.disk.makedirs("/namesrv")
    file = node.disk.open("/namesrv/namesrv.properties", create=True)
    file.pwrite(b"serverWorkerThreads=8\n", 0)
    node.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true")
    file = node.disk.open("/namesrv/namesrv.properties")
    found = parse_properties(file.pread(file.size(), 0).decode())
    assert (found["serverWorkerThreads"], found["orderMessageEnable"]) == ("8", "true")


def test_an_option_with_a_bad_value_changes_nothing(node: Node) -> None:
    body = b"orderMessageEnable=true\nlistenPort=many"
    with pytest.raises(ValueError, match="listenPort is 'many'"):
        node.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=body)
    assert b"orderMessageEnable=false" in node.ask(RequestCode.GET_NAMESRV_CONFIG).body


def test_options_that_cannot_be_saved_do_not_change(node: Node) -> None:
    node.disk.fail_fsync(1)
    with pytest.raises(OSError, match="Input/output error"):
        node.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true")
    assert b"orderMessageEnable=false" in node.ask(RequestCode.GET_NAMESRV_CONFIG).body


# Peers that mean no good


@pytest.mark.parametrize("code", [0, 10, 310, 9999, -1])
def test_unknown_codes_are_refused_or_in_faithful_mode_not_answered(code: int) -> None:
    request = RemotingCommand.request(code)
    refusal = Node().server.handle(connection(1), request)
    assert refusal is not None
    assert refusal.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert Node(mode=Mode.FAITHFUL).server.handle(connection(1), request) is None


@pytest.mark.parametrize("code", [RequestCode.REGISTER_BROKER, RequestCode.PUT_KV_CONFIG, 105])
def test_a_missing_field_is_named(node: Node, code: int) -> None:
    with pytest.raises(ValueError, match=r"brokerName|brokerAddr|namespace|topic"):
        node.ask(code)


@pytest.mark.slow
@settings(max_examples=300)
@given(
    st.sampled_from(CODES),
    st.dictionaries(
        st.sampled_from(
            [
                "brokerName",
                "brokerAddr",
                "clusterName",
                "haServerAddr",
                "brokerId",
                "compressed",
                "bodyCrc32",
                "topic",
                "namespace",
                "key",
                "value",
                "cluster",
            ]
        ),
        st.sampled_from(["", "0", "1", "-1", "true", "99999999999999999999", "x", "\x00"]),
    ),
    st.one_of(
        st.binary(max_size=40),
        st.sampled_from([b"{}", b"[]", b"null", b'{"topicConfigSerializeWrapper":7}', b"{{}:1}"]),
        st.binary(max_size=40).map(zlib.compress),
    ),
)
def test_hostile_requests_are_answered_or_refused(
    code: int, ext: dict[str, str], body: bytes
) -> None:
    node = Node()
    node.register("T", key=7)
    with suppress(ValueError):
        node.ask(code, ext, body=body)
    assert node.ask(RequestCode.GET_BROKER_CLUSTER_INFO).code == ResponseCode.SUCCESS


@pytest.mark.parametrize(("name", "most"), [("ENTRIES_MAX", 4), ("SIZE_MAX", 9)])
def test_pairs_are_bounded(monkeypatch: pytest.MonkeyPatch, name: str, most: int) -> None:
    monkeypatch.setattr(kv_config, name, most)
    node = Node()

    def put(namespace: str, key: str) -> None:
        ext = {"namespace": namespace, "key": key, "value": "v"}
        node.ask(RequestCode.PUT_KV_CONFIG, ext)

    put("n", "k")
    put("m", "k")
    with pytest.raises(ValueError, match="namespaces and pairs of"):
        put("o", "kkk")
    put("n", "k")  # as before
    node.ask(RequestCode.DELETE_KV_CONFIG, {"namespace": "n", "key": "k"})
    put("oo", "kkk")  # the namespace that is empty makes room
    assert node.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "n"}).code == 22
    assert node.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "oo"}).code == 0


@pytest.mark.parametrize("compressed", ["true", "false"])
def test_a_large_registration_is_read_in_pieces(
    monkeypatch: pytest.MonkeyPatch, compressed: str
) -> None:
    """20,000 topics at once held a name server for 150 ms. What comes meanwhile is registered after it."""
    monkeypatch.setattr(requests, "TOPICS_A_TURN", 3)
    node, peer = Node(), Peer(key=1)
    topics = {f"T{number}": TopicConfig(topic_name=f"T{number}") for number in range(10)}

    def request(version: int, **topics: TopicConfig) -> RemotingCommand:
        table = TopicConfigTable(
            topics=topics, data_version=DataVersion(timestamp=1, counter=version)
        )
        body = RegisterBrokerBody(topic_config_table=table).encode_for(
            compressed=compressed == "true"
        )
        ext = {**broker(), "haServerAddr": "H", "compressed": compressed}
        return RemotingCommand.request(RequestCode.REGISTER_BROKER, ext, body)

    async def main() -> int:
        last = TopicConfig(topic_name="T0", read_queue_nums=1, write_queue_nums=1)
        assert node.server.handle(peer.connection, request(1, **topics)) is None
        assert node.server.handle(peer.connection, request(2, T0=last)) is None
        turns = 0
        while len(peer.sent) < 2 and turns < 100:
            await asyncio.sleep(0)
            turns += 1
        return turns

    assert asyncio.run(main()) == 6  # four pieces, their end, and the other registration
    assert [answer.code for answer in peer.sent] == [0, 0]
    assert node.server.routes.topics() == list(topics)
    route = node.server.routes.route("T0")
    assert route is not None
    assert route.queue_datas[0].read_queue_nums == 1


def test_a_large_registration_with_a_bad_topic_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requests, "TOPICS_A_TURN", 3)
    node, peer = Node(), Peer(key=1)
    table: dict[str, Any] = {f"T{number}": {"topicName": f"T{number}"} for number in range(9)}
    table["T7"]["perm"] = "no number"
    body = json_dialect.dumps({"topicConfigSerializeWrapper": {"topicConfigTable": table}})
    ext = {**broker(), "haServerAddr": "H"}
    errors: list[object] = []  # a connection makes code 1 of them

    async def main() -> None:
        handler = lambda _loop, reported: errors.append(reported["exception"])  # noqa: E731
        asyncio.get_running_loop().set_exception_handler(handler)
        request = RemotingCommand.request(RequestCode.REGISTER_BROKER, ext, body)
        assert node.server.handle(peer.connection, request) is None
        for _ in range(10):
            await asyncio.sleep(0)

    asyncio.run(main())
    assert [type(error) for error in errors] == [BodyError]
    assert node.server.routes.topics() == []
