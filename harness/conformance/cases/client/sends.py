"""RMQ-ORD and RMQ-LIM, of clients: the queues that messages go to, and messages that clients refuse to send."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

from staticfire.harness.clients.payload import key_of
from staticfire.harness.clients.port import Outcome
from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.client import Client
from staticfire.harness.conformance.client_proxy import refusal
from staticfire.harness.conformance.clients.stage import Stage
from staticfire.harness.conformance.failures import NotTriable
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.json_writer import dumps_fastjson

QUEUES = 3
KEYS = 12
SENDS = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
)


def alter_routes(client: Client, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the routes that name servers answer from now on."""

    def alter(request: RemotingCommand, answer: RemotingCommand) -> None:
        if request.code != RequestCode.GET_ROUTEINFO_BY_TOPIC or not answer.body:
            return
        route = json_dialect.loads(answer.body)
        assert isinstance(route, dict)
        for broker in route.get("brokerDatas") or []:
            numbers = {int(number): at for number, at in broker["brokerAddrs"].items()}
            broker["brokerAddrs"] = numbers
        change(route)
        answer.body = dumps_fastjson(route)

    client.proxy.alter.append(alter)


def refuse(
    client: Client,
    is_refused: Callable[[RemotingCommand], bool],
    what: str,
    *,
    most: float = math.inf,
) -> list[RemotingCommand]:
    """Refuse matching requests of a client from now on, at most `most`; return the list that collects them."""
    refused: list[RemotingCommand] = []

    def answer(request: RemotingCommand) -> RemotingCommand | None:
        if len(refused) >= most or not is_refused(request):
            return None
        refused.append(request)
        return refusal(request, ResponseCode.SYSTEM_ERROR, f"the suite refuses {what} for now")

    client.proxy.instead.append(answer)
    return refused


def shuffle_routes(client: Client, seed: int) -> None:
    """Make name servers list the brokers and queues of a route in another order from now on."""
    random = Random(seed)

    def shuffle(route: dict[str, Any]) -> None:
        for name in ("queueDatas", "brokerDatas"):
            listed = route.get(name) or []
            route[name] = listed[::-1] if seed == 1 else random.sample(listed, len(listed))

    alter_routes(client, shuffle)


def require_sent(outcome: Outcome, what: str) -> None:
    """Require that a send succeeded. Raises NotTriable if the client cannot do it, ClauseBroken if it failed."""
    if outcome.type == "fail":
        raise NotTriable(f"the client cannot send {what}: {outcome.error}")
    require_equal(f"the outcome of {what} ({outcome.error})", outcome.type, "ok")


@case("RMQ-ORD-06", limit_s=90)
async def one_key_one_queue(bench: Bench) -> None:
    masters = await bench.masters()
    if len(masters) < 2:
        raise NotTriable("the order of a route shows with two masters; the target has one")
    topic = bench.fresh_name()
    for master in masters:
        broker = await bench.connect(master.address)
        await bench.make_topic(broker, topic, queues=QUEUES)
        bench.remove_later(topic, master.address)
    await bench.await_route(topic)
    stage = Stage(bench)
    for turn in range(3):
        producer = await stage.producer(topic)
        if turn:
            shuffle_routes(producer, turn)
        for number in range(KEYS):
            sent = await producer.request(
                "send", topic=topic, key=f"s{number}-{turn}", size=20, sharding_key=f"s{number}"
            )
            require_sent(sent, "a message with a sharding key")
    machines: dict[str, set[tuple[str, int]]] = {}
    for master in masters:
        for queue in range(QUEUES):
            for body in await bench.read_all(master.address, topic, queue=queue, within_s=1):
                sharding_key = key_of(body).partition("-")[0]
                machines.setdefault(sharding_key, set()).add((master.name, queue))
    require_equal("how many sharding keys arrived", len(machines), KEYS)
    for sharding_key, found in sorted(machines.items()):
        require(
            len(found) == 1,
            f"messages of sharding key {sharding_key} are in {sorted(found)} when routes list"
            " their brokers in another order; expected one queue",
        )


@case("RMQ-LIM-05", limit_s=60)
async def batches_that_are_none(bench: Bench) -> None:
    topic, other = await bench.topic(queues=1), await bench.topic(queues=1)
    retry = f"%RETRY%{bench.fresh_name('g')}"
    broker, master = await bench.broker(), await bench.master()
    await bench.make_topic(broker, retry, queues=1)
    bench.remove_later(retry, master.address)
    for name in (topic, other, retry):
        await bench.await_route(name)
    producer = await Stage(bench).producer(topic)
    batch: list[dict[str, object]] = [{"key": "b1", "size": 20}, {"key": "b2", "size": 20}]
    plain = await producer.request("send_batch", topic=topic, messages=batch)
    require_sent(plain, "a batch")
    # waits for brokers that flush first
    stored = await bench.read_all(broker.address, topic, wanted=2)
    require_equal("how many messages of a batch are there", len(stored), 2)
    attempts = {
        "two topics": (topic, [batch[0], {**batch[1], "topic": other}]),
        "a delayed message": (topic, [batch[0], {**batch[1], "delay_level": 2}]),
        "a retry topic": (retry, batch),
    }
    passed: list[RemotingCommand] = []
    producer.proxy.instead.append(lambda request: passed.append(request))
    for what, (where, messages) in attempts.items():
        refused = await producer.request("send_batch", topic=where, messages=messages)
        require_equal(f"the outcome of a batch with {what}", refused.type, "fail")
        sends = [request.code for request in passed if request.code in SENDS]
        require_equal(f"what the client sent of a batch with {what}", sends, [])
    ends = [await bench.end_of(broker, name) for name in (topic, other, retry)]
    require_equal("the ends of the queues after batches that were refused", ends, [2, 0, 0])
