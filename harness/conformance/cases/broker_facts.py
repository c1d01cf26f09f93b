"""RMQ-ADM: what brokers report about their topics, counters and queues."""

from __future__ import annotations

import asyncio
import math
import re

from staticfire.harness.conformance.answers import json_in, json_object
from staticfire.harness.conformance.asking import ask_until
from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.cases.admin import option_of
from staticfire.harness.conformance.consumers import register_consumer
from staticfire.harness.conformance.failures import NotTriable
from staticfire.harness.conformance.request_fields import send_fields
from staticfire.harness.conformance.wire import Wire, request
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.message import java_string_hash

TAG = "red"
PERM_INHERIT, PERM_ALL = 1, 7
OWN_TOPICS = (  # option that enables the topic, number of queues
    ("clusterTopicEnable", 16),
    ("brokerTopicEnable", 1),
)
EXTENDED = {"enableConsumeQueueExt": "true", "enableCalcFilterBitMap": "true"}
SLOW_PUTS = 20  # enough to decide the quantile against the fast puts of the same minute
SLOW_S = 8.5  # wait of each slow put for a slave
ROUND_S = 60.0  # reports cover the last whole minute
SLOW_RANGE = "[5~10s]"
_RANGE = re.compile(r"(\[\S+\]):(\d+) ")


@case("RMQ-ADM-13")
async def topics_of_own_names(bench: Bench) -> None:
    """Test the topics named after cluster and broker. Both options are on in brokers that the suite starts."""
    master, broker = await bench.master(), await bench.broker()
    for name, (option, queues) in zip((master.cluster, master.name), OWN_TOPICS, strict=True):
        is_closed = not bench.target.nodes and await option_of(broker, option) == "false"
        route = await bench.await_route(name)
        require(route is not None, f"the topic {name} has no route")
        assert route is not None
        [found] = [one for one in route["queueDatas"] if one["brokerName"] == master.name]
        fields = found["perm"], found["readQueueNums"], found["writeQueueNums"]
        perm = PERM_INHERIT if is_closed else PERM_ALL
        require_equal(f"permission and queues of {name}", fields, (perm, queues, queues))


@case("RMQ-ADM-14", limit_s=60, cluster={"broker_properties": tuple(EXTENDED.items())})
async def entries_with_an_extension(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=1), await bench.broker()
    if await option_of(broker, "enableConsumeQueueExt") != "true":
        raise NotTriable("enableConsumeQueueExt is off, and brokers read it when they start")
    before = await option_of(broker, "enablePropertyFilter")
    await bench.configure(broker, enablePropertyFilter="true")
    try:
        await _entries(bench, broker, topic)
    finally:
        await bench.configure(broker, enablePropertyFilter=before)


async def _entries(bench: Bench, broker: Wire, topic: str) -> None:
    """Require the extensions of two entries, each requested separately; a group gets the message of the first."""
    group = bench.fresh_name("g")
    await register_consumer(
        bench, broker.address, group, topic, expression="a = 1", expression_type="SQL92"
    )
    for value in ("1", "2"):
        await bench.store(broker, topic, properties={"TAGS": TAG, "a": value})
    messages = (await bench.pull(broker, topic)).messages
    require_equal("the number of messages", len(messages), 2)
    for index, message in enumerate(messages):
        fields = {"topic": topic, "queueId": 0, "index": index, "count": 1, "consumerGroup": group}
        answer = json_object(await broker.ask(RequestCode.QUERY_CONSUME_QUEUE, fields))
        [entry] = answer["queueData"]
        extension = json_in((entry.get("extendDataJson") or "{}").encode())
        of_message = extension.get("msgStoreTime"), extension.get("tagsCode")
        expected = message.store_timestamp_ms, java_string_hash(TAG)
        require_equal(f"store time and tag in extension {index}", of_message, expected)
        wants = index == 0
        bits = entry.get("bitMap") or ""
        require_equal(f"whether the bits of entry {index} name a group", "1" in bits, wants)
        require_equal(f"whether the group takes entry {index}", entry.get("eval"), wants)


@case("RMQ-ADM-18", limit_s=240, is_slow=True)
async def times_of_puts(bench: Bench) -> None:
    topic, master = await bench.topic(queues=1), await bench.master()
    slave, broker = await bench.slave_of(master), await bench.broker()
    await bench.until_slave_knows(slave, topic)
    longest_s = await _slow_puts(bench, broker, slave.address, topic)
    low_ms, high_ms = math.floor(SLOW_S) * 1000, math.ceil(longest_s) * 1000
    facts = await ask_until(
        lambda: _facts(broker),
        lambda facts: float(facts.get("putLatency99", 0)) > low_ms,
        within_s=2 * ROUND_S,
    )
    for name in ("putLatency99", "putLatency999"):
        found_ms = float(facts.get(name, 0))
        require(
            low_ms < found_ms <= high_ms,
            f"{name} is {found_ms:g} after {SLOW_PUTS} sends of up to {longest_s:.2f} s; "
            f"allowed: above {low_ms}, up to {high_ms}",
        )
    ranges = dict(_RANGE.findall(facts.get("putMessageDistributeTime", "")))
    found = int(ranges.get(SLOW_RANGE, 0))
    require(found >= SLOW_PUTS, f"{SLOW_RANGE} has {found} of {SLOW_PUTS} sends: {ranges}")
    maximum_ms = int(facts.get("putMessageEntireTimeMax", 0))
    require(
        maximum_ms >= SLOW_S * 1000, f"putMessageEntireTimeMax is {maximum_ms} after {SLOW_S:g} s"
    )


async def _slow_puts(bench: Bench, broker: Wire, slave: str, topic: str) -> float:
    """Send messages that wait SLOW_S for a slave; return the seconds until the last answer."""
    node, processes = bench.target.nodes[slave], bench.controls().process
    before_ms = await option_of(broker, "slaveTimeout")
    loop, code = asyncio.get_running_loop(), RequestCode.SEND_MESSAGE
    await bench.configure(broker, slaveTimeout=round(SLOW_S * 1000))
    try:
        await processes.pause(node)
        begin_s = loop.time()
        sent = [
            broker.send(request(code, send_fields(topic, queue=0), b"slow"))
            for _ in range(SLOW_PUTS)
        ]
        answers = [await broker.answer(one, code, answer_s=30) for one in sent]
        longest_s = loop.time() - begin_s
    finally:
        await processes.resume(node)
        await bench.configure(broker, slaveTimeout=before_ms)
    codes = {answer.code for answer in answers}
    require_equal(
        "the codes while the slave stands still", codes, {ResponseCode.FLUSH_SLAVE_TIMEOUT}
    )
    return longest_s


async def _facts(broker: Wire) -> dict[str, str]:
    """Return the facts of a broker."""
    table = json_object(await broker.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).get("table")
    assert isinstance(table, dict)
    return table
