"""RMQ-SND and RMQ-TXN, of clients: attempts and traces of sends, and ends of transactions."""

from __future__ import annotations

import asyncio

from staticfire.harness.conformance.asking import ask_until
from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.cases.client.reports import (
    FIELD_END,
    RECORD_END,
    TRACE_S,
    traces,
)
from staticfire.harness.conformance.cases.client.sends import SENDS, refuse, require_sent
from staticfire.harness.conformance.client import Client
from staticfire.harness.conformance.clients.stage import Stage
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand

TRACED = 20
SIZE = 20
ATTEMPTS = 3
END_S = 10.0
ENDS = {"commit": "8", "rollback": "12", "unknown": "0"}


@case("RMQ-SND-15", limit_s=90)
async def trace_of_sends(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=1), await bench.broker()
    await bench.await_route(topic)
    producer = await Stage(bench).producer(topic, trace=True)
    keys = [f"t{number}" for number in range(TRACED)]
    for key in keys:
        require_sent(await producer.request("send", topic=topic, key=key, size=SIZE), "a message")
    pulled = await bench.pull(broker, topic, least=TRACED)
    expected = sorted(
        (message.properties["UNIQ_KEY"], message.properties["KEYS"], str(SIZE), "true")
        for message in pulled.messages
    )
    require_equal("the number of messages", len(expected), TRACED)
    require_equal("the records of the trace", await _published(bench, topic), expected)


async def _published(bench: Bench, topic: str) -> list[tuple[str, str, str, str]]:
    """Return unique key, keys, size and success of the sends to a topic that the trace has."""

    async def ask() -> list[tuple[str, str, str, str]]:
        return [
            (fields[5], fields[7], fields[9], fields[13])
            for text in await traces(bench)
            for record in text.split(RECORD_END)
            if (fields := record.split(FIELD_END))[0] == "Pub"
            and fields[4] == topic
            and len(fields) > 13
        ]

    found = await ask_until(ask, lambda found: len(found) >= TRACED, within_s=TRACE_S)
    return sorted(found)


@case("RMQ-SND-16", limit_s=60)
async def attempts(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=1), await bench.broker()
    await bench.await_route(topic)
    producer = await Stage(bench).producer(topic)
    first = await producer.request("send", topic=topic, key="a0", size=SIZE)
    require_sent(first, "a message")
    refused = _refuses_sends(producer, 2)
    third = await producer.request("send", topic=topic, key="a1", size=SIZE)
    require_equal("the attempts that were refused", len(refused), 2)
    require_equal(f"the outcome of the third ({third.error})", third.type, "ok")
    refused = _refuses_sends(producer, 100)
    failed = await producer.request("send", topic=topic, key="a2", size=SIZE)
    require(failed.type != "ok", "a send that was always refused is said to have succeeded")
    require_equal("the attempts of a send that is always refused", len(refused), ATTEMPTS)
    require_equal("the number of messages", await bench.end_of(broker, topic, least=2), 2)


def _refuses_sends(client: Client, count: int) -> list[RemotingCommand]:
    """Refuse so many sends from now on; return the list that collects them."""
    return refuse(client, lambda request: request.code in SENDS, "sends", most=count)


@case("RMQ-TXN-15", limit_s=60)
async def ends(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=1), await bench.broker()
    await bench.await_route(topic)
    stage = Stage(bench)
    producer = await stage.producer(topic)
    seen: list[RemotingCommand] = []

    def note(request: RemotingCommand) -> None:
        if request.code == RequestCode.END_TRANSACTION:
            seen.append(request)

    producer.proxy.instead.append(note)
    for state, number in ENDS.items():
        seen.clear()
        outcome = await producer.request(
            "transact", topic=topic, key=state, size=SIZE, state=state, check_after_s=100
        )
        require_sent(outcome, f"a transaction that ends with {state}")
        await stage.until(lambda: bool(seen), within_s=END_S)
        require(seen, f"the client sent no END_TRANSACTION for {state}")
        sent = seen[0].ext_fields.get("commitOrRollback")
        require_equal(f"commitOrRollback for {state}", sent, number)
    bodies = await bench.read_all(broker.address, topic, wanted=1)
    await asyncio.sleep(1)  # for one that should not be there
    bodies = await bench.read_all(broker.address, topic, wanted=1)
    require_equal("how many messages are delivered", len(bodies), 1)
    require(bodies[0].startswith(b"commit "), f"what is delivered is {bodies[0]!r:.60}")
