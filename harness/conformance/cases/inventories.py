"""RMQ-ADM-20, 21 and RMQ-NS-14, 15: what brokers and name servers list for an administrator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from staticfire.harness.conformance.answers import json_object
from staticfire.harness.conformance.asking import ask_until
from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.cases.offsets import commit
from staticfire.harness.conformance.consumers import Member, register_consumer, register_producer
from staticfire.harness.conformance.wire import Wire
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode

NOTICED_S = 3.0  # until a broker has noticed the end of a connection
CHANGED = "orderMessageEnable"  # an option that has no effect without an order configuration
FORBIDDEN = ("kvConfigPath", "configStorePath")


@case("RMQ-ADM-20")
async def connections_of_clients(bench: Bench) -> None:
    topic, broker, group = await bench.topic(), await bench.broker(), bench.fresh_name("g")
    of_consumers = (RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group})
    of_producers = (RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": group})
    no_consumer, no_producer = ResponseCode.CONSUMER_NOT_ONLINE, ResponseCode.SYSTEM_ERROR
    await _require_code(broker, of_consumers, no_consumer)
    await _require_code(broker, of_producers, no_producer)

    members = [await register_consumer(bench, broker.address, group, topic) for _ in range(2)]
    found = json_object(await broker.ask(*of_consumers))
    _require_members(found, members)
    kinds = [found.get(name) for name in ("consumeType", "messageModel", "consumeFromWhere")]
    wanted = ["CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_FIRST_OFFSET"]
    require_equal("the kind of the group", kinds, wanted)
    require_equal("the topics of the group", list(found.get("subscriptionTable", {})), [topic])
    producer = await register_producer(bench, broker.address, group)
    _require_members(json_object(await broker.ask(*of_producers)), [producer])

    for member in (*members, producer):
        member.wire.close()
    await _require_code(broker, of_consumers, no_consumer, within_s=NOTICED_S)
    left = await ask_until(
        lambda: _producers(broker, group), lambda left: not left, within_s=NOTICED_S, every_s=0.1
    )
    require_equal("the producers after the end of their connections", left, [])


async def _producers(broker: Wire, group: str) -> list[str]:
    """Return the client ids of the producers of a group; a broker may forget an empty group."""
    fields = {"producerGroup": group}
    answer = await broker.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, fields)
    if answer.code == ResponseCode.SYSTEM_ERROR:
        return []
    return [one.get("clientId") for one in json_object(answer).get("connectionSet", [])]


async def _require_code(
    broker: Wire, question: tuple[int, Mapping[str, object]], code: int, *, within_s: float = 0.0
) -> None:
    """Require that a request is answered with a code, at the latest after this time."""

    async def answered() -> int:
        return (await broker.ask(*question)).code

    found = await ask_until(answered, lambda found: found == code, within_s=within_s, every_s=0.1)
    require_equal(f"the code of request {question[0]} for a group without members", found, code)


def _require_members(answer: Mapping[str, Any], members: list[Member]) -> None:
    """Require that an answer lists these members, with the addresses of their connections."""
    found = {one.get("clientId"): one.get("clientAddr") for one in answer.get("connectionSet", [])}
    wanted = {one.client_id: "{}:{}".format(*one.wire.local_address) for one in members}
    require_equal("the members", found, wanted)


@case("RMQ-ADM-21")
async def groups_of_a_topic(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    online, away = bench.fresh_name("g"), bench.fresh_name("g")
    require_equal("the groups of a new topic", await _groups_of(broker, topic), set())
    await register_consumer(bench, broker.address, online, topic)
    await bench.store(broker, topic)
    await commit(broker, topic, away, 1)
    found = await _groups_of(broker, topic)
    require_equal("the groups with a member or an offset", found, {online, away})


async def _groups_of(broker: Wire, topic: str) -> set[str]:
    answer = await broker.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": topic})
    return set(json_object(answer).get("groupList", []))


@case("RMQ-NS-14")
async def lists_of_topics(bench: Bench) -> None:
    topic, master, name_server = (
        await bench.topic(),
        await bench.master(),
        await bench.name_server(),
    )
    require(await bench.await_route(topic) is not None, "the topic has no route")
    of_cluster = await _topics(
        name_server, RequestCode.GET_TOPICS_BY_CLUSTER, cluster=master.cluster
    )
    require(topic in of_cluster, "the topics of its cluster lack a topic")
    of_system = await _topics(name_server, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
    missing = {master.cluster, master.name} - of_system
    require_equal("the names of cluster and broker that the system's topics lack", missing, set())
    require(topic not in of_system, "an ordinary topic is among the system's topics")


async def _topics(name_server: Wire, code: int, **fields: object) -> set[str]:
    answer = await name_server.ask(code, fields)
    require_equal(f"the code of request {code}", answer.code, ResponseCode.SUCCESS)
    return set(json_object(answer).get("topicList", []))


@case("RMQ-NS-15", is_alone=True)
async def options_of_a_name_server(bench: Bench) -> None:
    name_server = await bench.name_server()
    before = await _option(name_server, CHANGED)
    require(before in ("true", "false"), f"{CHANGED} is {before!r}; expected true or false")
    other = "false" if before == "true" else "true"
    try:
        require_equal("the code for a change", await _change(name_server, CHANGED, other), 0)
        require_equal(f"{CHANGED} after a change", await _option(name_server, CHANGED), other)
    finally:
        await _change(name_server, CHANGED, before)
    for name in FORBIDDEN:
        kept = await _option(name_server, name)
        code = await _change(name_server, name, "/elsewhere")
        require_equal(f"the code for a change of {name}", code, ResponseCode.NO_PERMISSION)
        require_equal(f"{name} after a refusal", await _option(name_server, name), kept)


async def _option(name_server: Wire, name: str) -> str | None:
    """Return the value of an option of a name server; None if it has no such option."""
    answer = await name_server.ask(RequestCode.GET_NAMESRV_CONFIG)
    require_equal("the code for the options", answer.code, ResponseCode.SUCCESS)
    lines = answer.body.decode(errors="replace").splitlines()
    return dict(line.partition("=")[::2] for line in lines).get(name)


async def _change(name_server: Wire, name: str, value: str | None) -> int:
    body = f"{name}={value}\n".encode()
    return (await name_server.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=body)).code
