"""RMQ-NS: registrations, routes and their expiry at name servers."""

from __future__ import annotations

import asyncio
import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

from staticfire.harness.conformance.answers import json_object
from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.failures import TargetUnfit
from staticfire.harness.conformance.wire import CannotConnect, NoAnswer, Wire
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand

EXPIRY_S, SCAN_S = 120, 15
REGISTER_S = 30
OLD_VERSION, NEW_VERSION = 300, 409  # 4.5.0 or so, and 4.9.8


class FakeBroker:
    """A broker that only registers, over its own connection, under names that no real broker has."""

    def __init__(self, bench: Bench, wire: Wire) -> None:
        self.name = bench.fresh_name("broker")
        self.cluster = bench.fresh_name("cluster")
        self.address = bench.fresh_address()
        self.wire = wire

    def identity(self, broker_id: int = 0, address: str = "") -> dict[str, object]:
        return {
            "brokerName": self.name,
            "brokerAddr": address or self.address,
            "clusterName": self.cluster,
            "brokerId": broker_id,
        }

    async def register(
        self,
        topics: Mapping[str, Mapping[str, Any]],
        *,
        broker_id: int = 0,
        address: str = "",
        version: tuple[int, int] = (1, 1),
        crc: int | None = None,
        is_compressed: bool = False,
        filter_servers: list[str] | None = None,
    ) -> RemotingCommand:
        configs = {name: topic_config(name, **fields) for name, fields in topics.items()}
        if is_compressed:
            body = compressed_registration(configs, version, filter_servers)
        else:
            wrapper = {"dataVersion": data_version(version), "topicConfigTable": configs}
            document = {"filterServerList": [], "topicConfigSerializeWrapper": wrapper}
            body = json.dumps(document).encode()
        fields = {
            **self.identity(broker_id, address),
            "haServerAddr": "192.0.2.1:10912",
            "compressed": is_compressed,
            "bodyCrc32": zlib.crc32(body) & 0x7FFFFFFF if crc is None else crc,
        }
        return await self.wire.ask(RequestCode.REGISTER_BROKER, fields, body)


def compressed_registration(
    configs: Mapping[str, Mapping[str, object]],
    version: tuple[int, int],
    filter_servers: list[str] | None,
) -> bytes:
    """Return the body of a registration as a broker with compressedRegister writes it (RegisterBrokerBody.encode)."""
    names = ("topicName", "readQueueNums", "writeQueueNums", "perm", "topicFilterType")
    texts = [" ".join(str(config[name]) for name in names) for config in configs.values()]
    parts = [json.dumps(data_version(version)), *texts, json.dumps(filter_servers)]
    sized = [struct.pack(">i", len(part.encode())) + part.encode() for part in parts]
    return zlib.compress(b"".join((sized[0], struct.pack(">i", len(texts)), *sized[1:])))


def data_version(version: tuple[int, int]) -> dict[str, int]:
    timestamp, counter = version
    return {"timestamp": timestamp, "counter": counter}


def topic_config(name: str, *, queues: int = 4, perm: int = 6) -> dict[str, object]:
    return {
        "topicName": name,
        "readQueueNums": queues,
        "writeQueueNums": queues,
        "perm": perm,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
    }


async def registered(
    bench: Bench, topics: Mapping[str, Mapping[str, Any]], **fields: Any
) -> FakeBroker:
    """Register a fake broker at the first name server. Raises TargetUnfit."""
    broker = FakeBroker(bench, await bench.name_server())
    answer = await broker.register(topics, **fields)
    if answer.code != ResponseCode.SUCCESS:
        raise TargetUnfit(f"a registration was refused: {answer.code} {answer.remark}")
    return broker


def addresses(route: Mapping[str, Any] | None) -> dict[int, str]:
    """Return the addresses by broker id in a route with one broker name."""
    if route is None:
        return {}
    return {int(key): value for key, value in route["brokerDatas"][0]["brokerAddrs"].items()}


@case("RMQ-NS-01")
async def routes(bench: Bench) -> None:
    await _require_route(bench)
    await _require_route(bench, is_compressed=True, filter_servers=[])
    await _require_route(bench, is_compressed=True, filter_servers=None)


async def _require_route(bench: Bench, **fields: Any) -> None:
    """Register a broker and require the route of its topic."""
    topic = bench.fresh_name()
    broker = await registered(bench, {topic: {"queues": 7, "perm": 4}}, **fields)
    route = await bench.route(topic)
    require(route is not None, "a registered topic has no route")
    assert route is not None
    queues = route.get("queueDatas", [])
    require_equal("the number of queue data", len(queues), 1)
    topology = {
        key: queues[0].get(key) for key in ("brokerName", "readQueueNums", "writeQueueNums", "perm")
    }
    require_equal(
        "the queue data",
        topology,
        {"brokerName": broker.name, "readQueueNums": 7, "writeQueueNums": 7, "perm": 4},
    )
    require_equal("the addresses", addresses(route), {0: broker.address})
    require_equal("the cluster", route["brokerDatas"][0].get("cluster"), broker.cluster)


@case("RMQ-NS-02")
async def unknown_topic(bench: Bench) -> None:
    name_server = await bench.name_server()
    answer = await name_server.ask(
        RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": bench.fresh_name()}
    )
    require_equal("the code", answer.code, ResponseCode.TOPIC_NOT_EXIST)


@case("RMQ-NS-03")
async def checksum(bench: Bench) -> None:
    topic = bench.fresh_name()
    broker = FakeBroker(bench, await bench.name_server())
    refused = await broker.register({topic: {}}, crc=12345)
    require(refused.code != 0, "a registration with a wrong checksum was accepted")
    require(await bench.route(topic) is None, "a refused registration made a route")
    unchecked = await broker.register({topic: {}}, crc=0)
    require_equal("the code for a registration without a checksum", unchecked.code, 0)


@case("RMQ-NS-04")
async def connection_ends(bench: Bench) -> None:
    topic = bench.fresh_name()
    broker = await registered(bench, {topic: {}})
    require(await bench.route(topic), "a registered topic has no route")
    broker.wire.close()
    for _ in range(40):
        if await bench.route(topic) is None:
            return
        await asyncio.sleep(0.05)
    require(False, "the route is still there 2 s after the broker's connection ended")


@case("RMQ-NS-05", limit_s=200, is_slow=True)
async def silence(bench: Bench) -> None:
    topic = bench.fresh_name()
    broker = await registered(bench, {topic: {}})
    loop = asyncio.get_running_loop()
    start_s = loop.time()
    while loop.time() < start_s + EXPIRY_S - 1:
        await asyncio.sleep(20)
        # Other requests keep the connection from being idle, but are not registrations.
        if not await broker.wire.is_closed(wait_s=0) and loop.time() < start_s + EXPIRY_S - 30:
            await broker.wire.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        if loop.time() < start_s + EXPIRY_S:
            require(
                await bench.route(topic), f"gone {loop.time() - start_s:.0f} s after it registered"
            )
    while loop.time() < start_s + EXPIRY_S + SCAN_S:
        if await bench.route(topic) is None:
            return
        await asyncio.sleep(0.5)
    require(False, f"still there {EXPIRY_S + SCAN_S} s after it registered")


@case("RMQ-NS-06")
async def unregister(bench: Bench) -> None:
    topic = bench.fresh_name()
    old = await registered(bench, {topic: {}})
    new = FakeBroker(bench, await bench.name_server())
    new.name, new.cluster = old.name, old.cluster
    require_equal("the code for the new master", (await new.register({topic: {}})).code, 0)
    answer = await old.wire.ask(RequestCode.UNREGISTER_BROKER, old.identity())
    require_equal("the code for unregistering the old master", answer.code, 0)
    require_equal("the addresses", addresses(await bench.route(topic)), {0: new.address})
    await new.wire.obtain(RequestCode.UNREGISTER_BROKER, new.identity())
    require(await bench.route(topic) is None, "the route is there although its broker unregistered")


@case("RMQ-NS-07")
async def promotion(bench: Bench) -> None:
    topic = bench.fresh_name()
    master, second = await registered(bench, {topic: {}}), bench.fresh_address()
    require_equal(
        "the code for a slave",
        (await master.register({topic: {}}, broker_id=1, address=second)).code,
        0,
    )
    require_equal(
        "the addresses",
        addresses(await bench.route(topic)),
        {0: master.address, 1: second},
    )
    await master.register({topic: {}}, broker_id=0, address=second)
    require_equal(
        "the addresses after the slave became master",
        addresses(await bench.route(topic)),
        {0: second},
    )


@case("RMQ-NS-08")
async def versions(bench: Bench) -> None:
    broker = await registered(bench, {bench.fresh_name(): {}}, version=(5, 7))
    for version, changed in (((5, 7), "false"), ((5, 8), "true"), ((6, 7), "true")):
        answer = await broker.wire.ask(
            RequestCode.QUERY_DATA_VERSION,
            broker.identity(),
            json.dumps(data_version(version)).encode(),
        )
        require_equal(f"changed for {version}", answer.ext_fields.get("changed"), changed)
        known = json_dialect.loads(answer.body)
        require_equal(
            "the version that the name server has", (known["timestamp"], known["counter"]), (5, 7)
        )


@case("RMQ-NS-09")
async def write_permission(bench: Bench) -> None:
    topics = [bench.fresh_name() for _ in range(3)]
    broker = await registered(bench, {topic: {} for topic in topics})
    fields = {"brokerName": broker.name}
    wiped = await broker.wire.obtain(RequestCode.WIPE_WRITE_PERM_OF_BROKER, fields)
    require_equal("the number of topics wiped", wiped.ext_fields.get("wipeTopicCount"), "3")
    require_equal("the permission after wiping", await _permission(bench, topics[0]), 4)
    added = await broker.wire.obtain(RequestCode.ADD_WRITE_PERM_OF_BROKER, fields)
    require_equal("the number of topics added", added.ext_fields.get("addTopicCount"), "3")
    require_equal("the permission after adding", await _permission(bench, topics[0]), 6)


async def _permission(bench: Bench, topic: str) -> object:
    route = await bench.route(topic)
    return None if route is None else route["queueDatas"][0]["perm"]


@case("RMQ-NS-10")
async def kv_config(bench: Bench) -> None:
    name_server = await bench.name_server()
    pair = {"namespace": bench.fresh_name("space"), "key": "k"}
    missing = await name_server.ask(RequestCode.GET_KV_CONFIG, pair)
    require_equal("the code for a missing key", missing.code, ResponseCode.QUERY_NOT_FOUND)
    await name_server.obtain(RequestCode.PUT_KV_CONFIG, {**pair, "value": "a value"})
    found = await name_server.obtain(RequestCode.GET_KV_CONFIG, pair)
    require_equal("the value", found.ext_fields.get("value"), "a value")
    listed = await name_server.obtain(RequestCode.GET_KVLIST_BY_NAMESPACE, pair)
    require_equal("the list", json_object(listed).get("table"), {"k": "a value"})
    await name_server.obtain(RequestCode.DELETE_KV_CONFIG, pair)
    gone = await name_server.ask(RequestCode.GET_KV_CONFIG, pair)
    require_equal("the code for a deleted key", gone.code, ResponseCode.QUERY_NOT_FOUND)


@case("RMQ-NS-11", limit_s=180)
async def independence(bench: Bench) -> None:
    second = bench.target.name_servers[1]
    controls, node = bench.controls(), bench.target.nodes[second]
    before = await bench.known_brokers(await bench.name_server(0))
    await controls.process.kill(node)
    require_equal(
        "what the other name server knows",
        await bench.known_brokers(await bench.name_server(0)),
        before,
    )
    await controls.process.start(node)
    loop = asyncio.get_running_loop()
    until_s = loop.time() + REGISTER_S + 10
    while loop.time() < until_s:
        if await _knows(bench, second) == before:
            return
        await asyncio.sleep(0.5)
    require(False, f"{second} does not know all brokers {REGISTER_S + 10} s after its restart")


async def _knows(bench: Bench, address: str) -> object:
    """Return the brokers that a name server knows; None while it does not answer."""
    try:
        return await bench.known_brokers(await bench.connect(address))
    except (CannotConnect, NoAnswer, TargetUnfit):
        return None


@case("RMQ-NS-12")
async def json_of_routes(bench: Bench) -> None:
    topic = bench.fresh_name()
    broker = await registered(bench, {topic: {}})
    quoted, bare = b'"0":"', b'0:"'
    for version, fields, expected in (
        (NEW_VERSION, {}, quoted),
        (OLD_VERSION, {"acceptStandardJsonOnly": True}, quoted),
        (OLD_VERSION, {}, bare),
    ):
        answer = await broker.wire.ask(
            RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic, **fields}, version=version
        )
        require_equal("the code for a route", answer.code, 0)
        asked = f"version {version}{' with acceptStandardJsonOnly' if fields else ''}"
        ids = answer.body.partition(b'"brokerAddrs":{')[2]
        require(
            ids.startswith(expected),
            f"the route for {asked} has the addresses {ids!r:.60}; expected {expected!r}",
        )
