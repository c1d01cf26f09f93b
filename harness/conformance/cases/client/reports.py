"""RMQ-SND, RMQ-TXN and RMQ-ADM, of clients: their reports about messages, transactions and themselves."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from staticfire.harness.conformance.answers import json_object
from staticfire.harness.conformance.asking import ask_until
from staticfire.harness.conformance.bench import ROUTE_S, Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.cases.admin import by_queue
from staticfire.harness.conformance.cases.client.consumption import COMMIT_S, put
from staticfire.harness.conformance.cases.client.sends import refuse, require_sent
from staticfire.harness.conformance.cases.rebalance import members
from staticfire.harness.conformance.cases.transactions import CHECK_PERIOD_S
from staticfire.harness.conformance.clients.stage import Stage
from staticfire.harness.conformance.failures import NotTriable
from staticfire.harness.conformance.request_fields import topic_fields
from staticfire.harness.conformance.wire import Wire
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand

KEY_SIZES = (32, 56)  # hex digits, for addresses of IPv4 and IPv6
ELAPSED = slice(-12, -4)  # of a unique key: ms since the month began
WRAP_MS = 1 << 32
ZONE_MS = 900_000  # zones differ from UTC by multiples of a quarter of an hour
ZONES = range(-14 * 4, 14 * 4 + 1)
CLOCKS_MS = 5_000  # greatest difference between the clocks of client and broker
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
TRACE_S = 20.0  # clients send their trace every 5 s
END_OF_TRANSACTION = "2"  # MessageType.Trans_msg_Commit, also for a rollback
CONSUMED, HELD = 3, 2
SLOW_S = 120.0
ZLIB = b"x"  # first byte of zlib's header; records begin with a capital letter
FIELD_END, RECORD_END = "\x01", "\x02"


@case("RMQ-SND-14", limit_s=60)
async def unique_keys(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=1), await bench.broker()
    await bench.await_route(topic)
    producer = await Stage(bench).producer(topic)
    for number in range(2):
        sent = await producer.request("send", topic=topic, key=f"u{number}", size=20)
        require_sent(sent, "a message")
    messages = (await bench.pull(broker, topic, least=2)).messages
    keys = [message.properties.get("UNIQ_KEY", "") for message in messages]
    require_equal("how many unique keys two messages have", len(set(keys)), 2)
    for key, message in zip(keys, messages, strict=True):
        require(
            len(key) in KEY_SIZES and not set(key) - set("0123456789ABCDEF"),
            f"UNIQ_KEY is {key!r:.80}; expected 32 or 56 hex digits",
        )
        require(
            is_of_time(int(key[ELAPSED], 16), message.store_timestamp_ms),
            f"UNIQ_KEY {key} has {int(key[ELAPSED], 16)} ms since its month began,"
            f" in a message that was stored at {message.store_timestamp_ms}",
        )


def is_of_time(elapsed_ms: int, time_ms: int) -> bool:
    """Whether `elapsed_ms` since the begin of a month is this time, in any time zone."""
    for zone in ZONES:
        for local_ms in (time_ms + zone * ZONE_MS, time_ms + zone * ZONE_MS - CLOCKS_MS):
            local = datetime.fromtimestamp(local_ms / 1000, UTC)
            start = local.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
            difference_ms = (local_ms - round(start.timestamp() * 1000) - elapsed_ms) % WRAP_MS
            if min(difference_ms, WRAP_MS - difference_ms) <= CLOCKS_MS:
                return True
    return False


@case("RMQ-TXN-14", limit_s=300, is_slow=True)
async def answers_to_questions(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=1), await bench.broker()
    await bench.await_route(topic)
    stage = Stage(bench)
    producer = await stage.producer(topic, trace=True)
    ends: list[RemotingCommand] = []

    def note(request: RemotingCommand) -> None:
        if request.code == RequestCode.END_TRANSACTION:
            ends.append(request)

    producer.proxy.instead.append(note)
    fields = {"topic": topic, "size": 20, "check_after_s": 1}
    at_once = await producer.request("transact", key="own", state="commit", **fields)
    require_sent(at_once, "a transaction")
    later = await producer.request(
        "transact", key="asked", state="unknown", answers=["commit"], **fields
    )
    require_sent(later, "a transaction that stays open")
    wait_s = 2 * CHECK_PERIOD_S + 15
    await stage.until(lambda: any(_is_from_check(end) for end in ends), within_s=wait_s)
    bodies = await bench.read_all(broker.address, topic, wanted=2)
    require_equal("how many messages of two transactions are there", len(bodies), 2)
    commits = [_is_from_check(end) for end in ends if end.ext_fields["commitOrRollback"] == "8"]
    require_equal("fromTransactionCheck of the two commits", commits, [False, True])
    found = await _traced_ends(bench, topic, wanted=3)
    if not found:
        raise NotTriable("the client writes no trace of transactions")
    require_equal(
        "type, state and question of the transactions in the trace",
        found,
        [
            ("asked", END_OF_TRANSACTION, "COMMIT_MESSAGE", "true"),
            ("asked", END_OF_TRANSACTION, "UNKNOW", "false"),
            ("own", END_OF_TRANSACTION, "COMMIT_MESSAGE", "false"),
        ],
    )


def _is_from_check(end: RemotingCommand) -> bool:
    return end.ext_fields.get("fromTransactionCheck") == "true"


async def _traced_ends(bench: Bench, topic: str, *, wanted: int) -> list[tuple[str, ...]]:
    """Return key, type, state and whether a broker had asked, for each end of the topic's transactions in the trace."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + TRACE_S
    while True:
        found = [
            (fields[7], fields[9], fields[11], fields[12])
            for text in await traces(bench)
            for record in text.split(RECORD_END)
            if (fields := record.split(FIELD_END))[0] == "EndTransaction" and fields[4] == topic
        ]
        if len(found) >= wanted or loop.time() > until_s:
            return sorted(found)
        await asyncio.sleep(0.5)


async def traces(bench: Bench) -> list[str]:
    """Return the texts of the trace topic, some of which clients compress."""
    route = await bench.route(TRACE_TOPIC)
    if route is None:
        return []
    queues = {one["brokerName"]: one["readQueueNums"] for one in route["queueDatas"]}
    return [
        (zlib.decompress(body) if body.startswith(ZLIB) else body).decode()
        for master in await bench.masters()
        for queue in range(queues.get(master.name, 0))
        for body in await bench.read_all(master.address, TRACE_TOPIC, queue=queue, within_s=0)
    ]


@case("RMQ-ADM-10", limit_s=120)
async def running_info(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=1), await bench.broker()
    await bench.await_route(topic)
    group, stage = bench.fresh_name("g"), Stage(bench)
    consumer = await stage.consumer(topic, group)
    keys = {f"i{number}" for number in range(10)}
    for key in sorted(keys):
        await put(bench, broker, topic, key)
    await stage.until(lambda: keys <= stage.consumed(), within_s=COMMIT_S)
    missing = sorted(keys - stage.consumed())
    require(not missing, f"{missing} were not given to the listener")
    status = await _status(broker, group, topic, "consumeOKTPS")
    require(status["consumeOKTPS"], f"consumeOKTPS is {status['consumeOKTPS']} after 10 successes")
    failed = status["consumeFailedTPS"], status["consumeFailedMsgs"]
    require_equal("consumeFailedTPS and consumeFailedMsgs without a failure", failed, (0, 0))
    await _require_offsets(broker, group, topic, {0: len(keys)})
    failing = await consumer.request("failing_listener", share=1.0)
    if failing.type != "ok":
        raise NotTriable(f"the client cannot let its listener fail: {failing.error}")
    calls = len(consumer.calls)
    await put(bench, broker, topic, "failed")
    await stage.until(lambda: len(consumer.calls) > calls, within_s=COMMIT_S)
    status = await _status(broker, group, topic, "consumeFailedTPS")
    require(status["consumeFailedTPS"], "consumeFailedTPS is 0 after a failure")


@case("RMQ-ADM-15", limit_s=150)
async def queues_in_a_report(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=1), await bench.broker()
    await bench.await_route(topic)
    group, stage = bench.fresh_name("g"), Stage(bench)
    consumer = await stage.consumer(topic, group)
    for number in range(CONSUMED):
        await put(bench, broker, topic, f"c{number}")
    await stage.until(lambda: len(stage.consumed()) == CONSUMED, within_s=COMMIT_S)
    slow = await consumer.request("slow_listener", delay_s=SLOW_S)
    if slow.type != "ok":
        raise NotTriable(f"the client cannot let its listener take long: {slow.error}")
    refused = refuse(
        consumer, lambda request: request.code == RequestCode.QUERY_CONSUMER_OFFSET, "offsets"
    )
    await broker.obtain(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields(topic, queues=2))
    is_unknown = await stage.until(
        lambda: any(request.ext_fields.get("queueId") == "1" for request in refused),
        within_s=ROUTE_S + COMMIT_S,
    )
    require(is_unknown, f"the consumer did not ask for its offset in a new queue of {topic}")
    for number in range(HELD):
        await put(bench, broker, topic, f"h{number}")
    names = ("droped", "commitOffset", "cachedMsgCount", "cachedMsgMinOffset", "cachedMsgMaxOffset")
    expected = (False, CONSUMED, HELD, CONSUMED, CONSUMED + HELD - 1)

    def first(queues: dict[int, Mapping[str, Any]]) -> tuple[object, ...]:
        return tuple(_value(queues.get(0, {}).get(name)) for name in names)

    queues = await ask_until(
        lambda: _queues(broker, group, topic),
        lambda queues: first(queues) == expected,
        within_s=COMMIT_S,
    )
    require_equal(f"{', '.join(names)} of queue 0", first(queues), expected)
    droped = _value(queues.get(1, {}).get("droped", False))
    require_equal("droped of a queue whose offset is unknown", droped, False)


def _value(given: object) -> object:
    """Return a value of a report; some clients write numbers and booleans as text."""
    if not isinstance(given, str):
        return given
    return {"true": True, "false": False}.get(given, int(given) if given.isdigit() else given)


async def _queues(broker: Wire, group: str, topic: str) -> dict[int, Mapping[str, Any]]:
    """Return the report of a group's only member about the queues of a topic."""
    table = (await _running_info(broker, group)).get("mqTable") or {}
    keys = {key: json.loads(key) if isinstance(key, str) else dict(key) for key in table}
    return {key["queueId"]: table[name] for name, key in keys.items() if key["topic"] == topic}


async def _require_offsets(
    broker: Wire, group: str, topic: str, expected: Mapping[int, int]
) -> None:
    """Require that the group's only member reports these offsets in the queues of a topic."""
    fields = {"topic": topic, "group": group}
    answer = await broker.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, fields)
    if answer.code:
        raise NotTriable(f"the client does not say how far it is: {answer.code} {answer.remark}")
    table = json_object(answer).get("consumerTable")
    [member] = await members(broker, group)
    offsets = table.get(member) if isinstance(table, dict) else None
    require(offsets, f"{member} does not say how far it is in {topic}")
    assert isinstance(offsets, dict)
    found = by_queue({"offsetTable": offsets})
    require_equal("how far it is in the queues", (len(offsets), found), (len(expected), expected))


async def _status(broker: Wire, group: str, topic: str, rises: str) -> Mapping[str, Any]:
    """Ask the only member of a group for its status of a topic, until one figure rises (Java samples every 10 s)."""

    async def ask() -> Mapping[str, Any]:
        table = (await _running_info(broker, group)).get("statusTable")
        status = table.get(topic) if isinstance(table, dict) else None
        require(status, f"the running info of a consumer of {topic} has no status of it")
        assert isinstance(status, dict)
        return status

    return await ask_until(ask, lambda status: status.get(rises), within_s=COMMIT_S, every_s=1)


async def _running_info(broker: Wire, group: str) -> Mapping[str, Any]:
    """Return the report of a group's only member about itself. Raises NotTriable."""
    fields = {"consumerGroup": group, "clientId": (await members(broker, group))[0]}
    answer = await broker.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, fields)
    if answer.code:
        raise NotTriable(f"the client does not say how it is: {answer.code} {answer.remark}")
    return json_object(answer)
