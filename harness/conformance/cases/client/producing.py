"""RMQ-SND and RMQ-TXN, of clients: attempts and traces of sends, and ends of transactions."""

from __future__ import annotations

import asyncio
from itertools import takewhile
from typing import Any

from staticfire.harness.conformance.asking import ask_until
from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.cases.client.consumption import (
    COMMIT_S,
    put,
    refuses_send_backs,
)
from staticfire.harness.conformance.cases.client.reports import (
    FIELD_END,
    RECORD_END,
    TRACE_S,
    traces,
)
from staticfire.harness.conformance.cases.client.sends import (
    SENDS,
    alter_routes,
    refuse,
    require_sent,
)
from staticfire.harness.conformance.client import Client
from staticfire.harness.conformance.clients.stage import Stage
from staticfire.harness.conformance.failures import NotTriable
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand

TRACED = 20
TRACE_MAX = 118_000  # characters of a trace message
PARTS, ROUNDS = 4, 6
SIZE = 20
ATTEMPTS = 3
SLOW_S = (0.6, 0.75, 0.9, 1.05, 1.2, 1.35)  # brokers' answer times, all too slow (from 0.55 s)
COPIES_S = 3.0  # for all attempts; the next round begins 5 s after the first
END_S = 10.0
REPLY_S = (1.0, 2.5)  # that callers wait for a reply
LATE_S = 2.0  # until the client has reported the end
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
    for name in ("UNIQ_KEY", "KEYS"):
        lacks = [message for message in pulled.messages if name not in message.properties]
        require(not lacks, f"{len(lacks)} of {len(pulled.messages)} messages have no {name}")
    expected = sorted(
        (message.properties["UNIQ_KEY"], message.properties["KEYS"], str(SIZE), "true")
        for message in pulled.messages
    )
    require_equal("the number of messages", len(expected), TRACED)
    found = await _published(bench, topic, TRACED)
    rows = sorted((fields[5], fields[7], fields[9], fields[13]) for _, fields in found)
    require_equal("the records of the trace", rows, expected)
    size = min(len(FIELD_END.join(fields)) - len(fields[6] + fields[7]) for _, fields in found)
    await _full_message(bench, producer, topic, size + len(RECORD_END))


async def _full_message(bench: Bench, producer: Client, topic: str, record_size: int) -> None:
    """Require that one trace message may hold records of the greatest total length.

    A record includes the duration of its send, so several rounds may be needed to reach that length exactly. The client
    may also send records that have waited long enough, so one round must suffice.

    Args:
        record_size: characters of a record without tag and keys.
    """
    is_met, sent = False, TRACED
    for number in range(ROUNDS):
        keys = [f"{number}{part}" for part in range(PARTS)]
        rest = TRACE_MAX - PARTS * (record_size + len(keys[0]))
        sizes = [rest // PARTS + (part < rest % PARTS) for part in range(PARTS)]
        for key, size in zip(keys, sizes, strict=True):
            fields: dict[str, Any] = {"key": key, "size": SIZE, "tag": "t" * size}
            require_sent(await producer.request("send", topic=topic, **fields), "a message")
        sent += PARTS
        found = [
            (text, fields)
            for text, fields in await _published(bench, topic, sent)
            if fields[7] in keys
        ]
        total = sum(len(FIELD_END.join(fields)) + len(RECORD_END) for _, fields in found)
        if total != TRACE_MAX:
            continue
        if any(len(text) == TRACE_MAX for text, _ in found):
            return
        is_met = True
    require(
        not is_met,
        f"records of {TRACE_MAX} characters together, sent at once, were never in one message of the trace",
    )


async def _published(bench: Bench, topic: str, count: int) -> list[tuple[str, list[str]]]:
    """Return this many trace records of sends to a topic, each with the text of its trace message."""

    async def ask() -> list[tuple[str, list[str]]]:
        return [
            (text, fields)
            for text in await traces(bench)
            for record in text.split(RECORD_END)
            if (fields := record.split(FIELD_END))[0] == "Pub"
            and fields[4] == topic
            and len(fields) > 13
        ]

    return await ask_until(ask, lambda found: len(found) >= count, within_s=TRACE_S)


@case("RMQ-SND-16", limit_s=90)
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
    await _copies(bench)


async def _copies(bench: Bench) -> None:
    """Require that a consumer makes as many attempts to send a copy to the retry topic, if it sends any."""
    topic, broker = await bench.topic(queues=1), await bench.broker()
    await bench.await_route(topic)
    stage = Stage(bench)
    consumer = await stage.consumer(topic, bench.fresh_name("g"), failing_share=1.0)
    refused = refuses_send_backs(consumer)
    await put(bench, broker, topic, "copied")

    def copies() -> int:
        """Count the copies of the first round."""
        is_copy = [request.code in SENDS for request in refused]
        return sum(takewhile(bool, is_copy[1:]))

    if not await stage.until(lambda: copies() > 0, within_s=COMMIT_S):
        bench.log.note("client", "it sends no copy of a message whose send-back is refused")
        return
    await asyncio.sleep(COPIES_S)
    require_equal("the attempts to send a copy", copies(), ATTEMPTS)


def _refuses_sends(client: Client, count: int) -> list[RemotingCommand]:
    """Refuse this many sends from now on; return the list that collects them."""
    return refuse(client, lambda request: request.code in SENDS, "sends", most=count)


@case("RMQ-SND-17", limit_s=60)
async def brokers_to_avoid(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=1), await bench.broker()
    await bench.await_route(topic)
    producer = await Stage(bench).producer(
        topic, avoids_as_rocketmq=True, send_timeout_s=10, try_timeout_s=5
    )
    relays = {
        bench.fresh_name("broker"): await producer.proxy.slow_relay(broker.address, delay_s)
        for delay_s in SLOW_S
    }

    def multiply(route: dict[str, Any]) -> None:
        own, queues = route["brokerDatas"][0], route["queueDatas"][0]
        route["brokerDatas"] = [
            {**own, "brokerName": name, "brokerAddrs": {0: at}} for name, at in relays.items()
        ]
        route["queueDatas"] = [{**queues, "brokerName": name} for name in relays]

    alter_routes(producer, multiply)
    names, count, half = list(relays), len(relays), len(relays) // 2
    used: list[int] = []
    for number in range(2 * count):
        sent = await producer.request("send", topic=topic, key=f"b{number}", size=SIZE)
        require_sent(sent, "a message")
        used.append(names.index(sent.value["broker"]))
    require_equal("the brokers of the first sends", sorted(used[:count]), list(range(count)))
    later = [sorted(used[at : at + half]) for at in (count, count + half)]
    require(
        all(those == list(range(half)) for those in later),
        f"of {count} slow brokers, fastest first, a producer took numbers {used[count:]};"
        f" expected the first {half} in turn",
    )


@case("RMQ-SND-18", limit_s=60)
async def a_request_without_a_reply(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=1), await bench.broker()
    await bench.await_route(topic)
    producer = await Stage(bench).producer(topic)
    loop = asyncio.get_running_loop()
    for number, wait_s in enumerate(REPLY_S):
        began_s = loop.time()
        outcome = await producer.request(
            "request", topic=topic, key=f"r{number}", size=SIZE, timeout_s=wait_s
        )
        took_s = loop.time() - began_s
        if outcome.type == "fail":
            raise NotTriable(f"the client did not send the request: {outcome.error}")
        require(outcome.type == "info", f"a request without a reply ended as {outcome.type}")
        require(
            wait_s <= took_s <= wait_s + LATE_S,
            f"a request without a reply ended after {took_s:.1f} s; its caller allows {wait_s:g} s",
        )
    bodies = await bench.read_all(broker.address, topic, wanted=len(REPLY_S))
    require_equal("how many requests are delivered", len(bodies), len(REPLY_S))


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
    await asyncio.sleep(1)  # time for an attempt that must not come
    bodies = await bench.read_all(broker.address, topic, wanted=1)
    require_equal("how many messages are delivered", len(bodies), 1)
    require(bodies[0].startswith(b"commit "), f"what is delivered is {bodies[0]!r:.60}")
