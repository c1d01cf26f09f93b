"""RMQ-PUL: answers to pulls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from staticfire.harness.conformance.answers import number
from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.request_fields import READ, WRITE, pull_fields
from staticfire.harness.conformance.wire import Wire
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode

COMMIT, SUSPEND, SUBSCRIPTION = 1, 2, 4  # system flags of a pull
HOLD_MS, AT_ONCE_S = 8000, 2.0
MEMORY_MAX = 256 << 10
COUNT_MAX = 32


async def filled(bench: Bench, count: int, *, size: int = 10) -> tuple[str, Wire]:
    """Make a topic with messages in its queue 0; return it and a connection to its broker."""
    topic, broker = await bench.topic(), await bench.broker()
    for index in range(count):
        await bench.store(broker, topic, b"%d " % index + bytes(size))
    return topic, broker


@case("RMQ-PUL-01")
async def found(bench: Bench) -> None:
    topic, broker = await filled(bench, 10)
    pulled = await bench.pull(broker, topic, offset=3, maxMsgNums=4)
    require_equal("the code", pulled.code, ResponseCode.SUCCESS)
    require_equal("the offsets", [m.queue_offset for m in pulled.messages], [3, 4, 5, 6])
    require_equal("the next offset", pulled.next_offset, 7)
    require_equal("the range of the queue", (pulled.min_offset, pulled.max_offset), (0, 10))


@case("RMQ-PUL-02")
async def at_the_end(bench: Bench) -> None:
    topic, broker = await filled(bench, 3)
    pulled = await bench.pull(broker, topic, offset=3)
    require_equal("the code", pulled.code, ResponseCode.PULL_NOT_FOUND)
    require_equal("the next offset", pulled.next_offset, 3)
    require_equal("the number of messages", len(pulled.messages), 0)


@case("RMQ-PUL-03")
async def out_of_range(bench: Bench) -> None:
    topic, broker = await filled(bench, 3)
    pulled = await bench.pull(broker, topic, offset=1000)
    require_equal("the code", pulled.code, ResponseCode.PULL_OFFSET_MOVED)
    require_equal("the next offset", pulled.next_offset, 3)
    began_s = asyncio.get_running_loop().time()
    waiting: dict[str, Any] = {"sysFlag": SUSPEND | SUBSCRIPTION, "suspendTimeoutMillis": HOLD_MS}
    moved = await bench.pull(broker, topic, offset=1000, **waiting)
    took_s = asyncio.get_running_loop().time() - began_s
    answer = moved.code, moved.next_offset
    require_equal("the answer to one that may wait", answer, (ResponseCode.PULL_OFFSET_MOVED, 3))
    require(took_s < AT_ONCE_S, f"a pull beyond the end that may wait took {took_s:.1f} s")


@case("RMQ-PUL-04")
async def empty_queue(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    at_zero = await bench.pull(broker, topic, queue=2)
    require_equal("the code at 0", at_zero.code, ResponseCode.PULL_NOT_FOUND)
    require_equal("the next offset at 0", at_zero.next_offset, 0)
    beyond = await bench.pull(broker, topic, queue=2, offset=5)
    require_equal("the code at 5", beyond.code, ResponseCode.PULL_OFFSET_MOVED)
    require_equal("the next offset at 5", beyond.next_offset, 0)


@case("RMQ-PUL-05")
async def size_of_an_answer(bench: Bench) -> None:
    topic, broker = await filled(bench, COUNT_MAX + 3)
    many = await bench.pull(broker, topic, maxMsgNums=1000)
    require(
        1 <= len(many.messages) <= COUNT_MAX,
        f"{len(many.messages)} messages in an answer; allowed: up to {COUNT_MAX}",
    )
    await _size_of_what_passes(bench, len(many.messages))
    topic, broker = await filled(bench, 6, size=100 << 10)
    large = await bench.pull(broker, topic)
    sizes = [message.size_bytes for message in large.messages]
    require(sizes, "no message at all in an answer")
    require(
        sum(sizes[:-1]) <= MEMORY_MAX, f"{sum(sizes)} bytes in an answer; the limit is {MEMORY_MAX}"
    )
    topic, broker = await filled(bench, 1, size=600 << 10)
    require_equal(
        "the messages above the limit", len((await bench.pull(broker, topic)).messages), 1
    )


async def _size_of_what_passes(bench: Bench, count: int) -> None:
    """Require that a filter does not reduce the number of messages, and that one pull skips all that do not match."""
    topic, broker = await bench.topic(), await bench.broker()
    red, blue = {"TAGS": "red"}, {"TAGS": "blue"}
    many = range(COUNT_MAX + 8)
    await asyncio.gather(*(bench.store(broker, topic, properties=red) for _ in many))
    await bench.store(broker, topic, b"the blue one", properties=blue)
    filtered = await bench.pull(broker, topic, subscription="red", maxMsgNums=1000)
    require_equal("the number of messages with a filter", len(filtered.messages), count)
    behind = await bench.pull(broker, topic, subscription="blue")
    bodies = [message.body for message in behind.messages]
    require_equal(f"what passes behind {len(many)} that do not", bodies, [b"the blue one"])


@case("RMQ-PUL-06")
async def nothing_matches(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    for _ in range(5):
        await bench.store(broker, topic, properties={"TAGS": "red"})
    pulled = await bench.pull(broker, topic, subscription="blue || green")
    require_equal("the code", pulled.code, ResponseCode.PULL_RETRY_IMMEDIATELY)
    require_equal("the next offset", pulled.next_offset, 5)
    require_equal("the number of messages", len(pulled.messages), 0)


@case("RMQ-PUL-07")
async def committing(bench: Bench) -> None:
    topic, broker = await filled(bench, 5)
    group = bench.fresh_name("g")
    fields = {"consumerGroup": group, "topic": topic, "queueId": 0}
    await bench.pull(broker, topic, group=group, sysFlag=SUBSCRIPTION | COMMIT, commitOffset=3)
    stored = await broker.ask(RequestCode.QUERY_CONSUMER_OFFSET, fields)
    require_equal("the offset after a pull that commits 3", stored.ext_fields.get("offset"), "3")
    await bench.pull(broker, topic, group=group, sysFlag=SUBSCRIPTION, commitOffset=4)
    stored = await broker.ask(RequestCode.QUERY_CONSUMER_OFFSET, fields)
    require_equal("the offset after a pull without the flag", stored.ext_fields.get("offset"), "3")


@case("RMQ-PUL-08")
async def which_broker(bench: Bench) -> None:
    topic, broker = await filled(bench, 5)
    pulled = await bench.pull(broker, topic)
    require_equal("the suggested broker", pulled.suggested_broker, 0)


@case("RMQ-PUL-09")
async def permission(bench: Bench) -> None:
    broker = await bench.broker()
    unreadable = await bench.topic(perm=WRITE)
    readable = await bench.topic(queues=2, perm=READ)
    codes = [
        await code_of(bench, broker, topic, queue)
        for topic, queue in (
            (unreadable, 0),
            (bench.fresh_name(), 0),
            (readable, 2),
            (readable, -1),
        )
    ]
    expected: Sequence[int] = (
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_ERROR,
    )
    require_equal("the codes", codes, [int(code) for code in expected])


async def code_of(bench: Bench, broker: Wire, topic: str, queue: int) -> int:
    ext = pull_fields(topic, queue=queue, offset=0, group=bench.fresh_name("g"))
    return (await broker.ask(RequestCode.PULL_MESSAGE, ext)).code


@case("RMQ-PUL-10")
async def records(bench: Bench) -> None:
    topic, broker = await filled(bench, 2, size=1000)
    pulled = await bench.pull(broker, topic, offset=1)
    message = pulled.messages[0]
    require_equal("the size in the record", message.size_bytes, len(pulled.answer.body))
    master = await bench.master()
    host, _, port = master.address.rpartition(":")
    require_equal("the store host", message.store_host, (host, int(port)))
    viewed = await broker.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": message.physical_offset})
    require_equal("the code by id", viewed.code, 0)
    require_equal("the bytes by id", viewed.body, pulled.answer.body)
    end = await broker.obtain(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": 0})
    require_equal("the end of the queue", number(end.ext_fields, "offset"), 2)
