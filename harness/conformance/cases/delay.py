"""RMQ-DLY: delayed messages."""

from __future__ import annotations

import asyncio

from staticfire.faults.errors import CapabilityMissing
from staticfire.harness.conformance.answers import Pulled
from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.failures import NotTriable
from staticfire.harness.conformance.wire import Wire

LEVELS_S = {1: 1.0, 2: 5.0, 3: 10.0}
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
LATE_S = 1.0
FLAG, BORN_MS = 9, 1_600_000_123_456  # fields of the delayed messages
REPEAT_S = 3.0  # wait for repeated deliveries after a start
CLOCK_S = 0.1  # greatest difference of two clocks after a few seconds
HIGHEST = 18
HOUR_MS = 3_600_000
SET_S = 5.0  # a broker reads its clock every few seconds


async def arrival(
    bench: Bench, broker: Wire, topic: str, *, queue: int = 0, within_s: float, count: int = 1
) -> tuple[Pulled, float] | None:
    """Return the pull that found this many messages, and the seconds until then; None if they do not come."""
    loop = asyncio.get_running_loop()
    start_s = loop.time()
    while loop.time() < start_s + within_s:
        pulled = await bench.pull(broker, topic, queue=queue)
        if len(pulled.messages) >= count:
            return pulled, loop.time() - start_s
        await asyncio.sleep(0.02)
    return None


async def end_of_level(bench: Bench, broker: Wire, level: int, *, least: int = 0) -> int:
    """Return the end of a level's queue; wait a moment for `least`."""
    return await bench.end_of(broker, SCHEDULE_TOPIC, queue=level - 1, least=least)


async def send_delayed(
    bench: Bench, broker: Wire, topic: str, level: int, body: bytes = b"later", *, queue: int = 0
) -> None:
    properties = {"DELAY": str(level), "TAGS": "tag", "KEYS": "key"}
    await bench.store(
        broker,
        topic,
        body,
        queue=queue,
        properties=properties,
        flag=FLAG,
        bornTimestamp=BORN_MS,
    )


@case("RMQ-DLY-01", limit_s=60)
async def levels(bench: Bench) -> None:
    await asyncio.gather(*(_level(bench, level, wait_s) for level, wait_s in LEVELS_S.items()))


async def _level(bench: Bench, level: int, wait_s: float) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    now_s = asyncio.get_running_loop().time
    begin_s = now_s()
    await send_delayed(bench, broker, topic, level)
    found = await arrival(bench, broker, topic, within_s=wait_s + 3)
    took_s = now_s() - begin_s
    require(found is not None, f"a message of level {level} did not come in {wait_s + 3:g} s")
    require(took_s > wait_s - CLOCK_S, f"a message of level {level} came after {took_s:.3f} s")


@case("RMQ-DLY-02")
async def never_early(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    now_s = asyncio.get_running_loop().time
    due_s = now_s() + LEVELS_S[2]  # at the earliest, since storing takes time, too
    await send_delayed(bench, broker, topic, 2)
    found = await arrival(bench, broker, topic, within_s=due_s - CLOCK_S - now_s())
    require(found is None, f"a message of level 2 came before {LEVELS_S[2]:g} s")


@case("RMQ-DLY-03")
async def hardly_late(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    await send_delayed(bench, broker, topic, 1)
    found = await arrival(bench, broker, topic, within_s=LEVELS_S[1] + LATE_S)
    require(found is not None, f"a message of level 1 did not come in {LEVELS_S[1] + LATE_S:g} s")


@case("RMQ-DLY-04")
async def out_of_range(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    before = await end_of_level(bench, broker, HIGHEST)
    await send_delayed(bench, broker, topic, 99)
    after = await end_of_level(bench, broker, HIGHEST, least=before + 1)
    require(
        after > before, f"level 99 is not among those of level {HIGHEST}: it ends at {after} still"
    )
    await send_delayed(bench, broker, topic, 0)
    found = await arrival(bench, broker, topic, within_s=0.5)
    require(found is not None, "a message of level 0 was delayed")


@case("RMQ-DLY-05")
async def what_arrives(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    await send_delayed(bench, broker, topic, 1, b"a body", queue=3)
    found = await arrival(bench, broker, topic, queue=3, within_s=5)
    require(found is not None, "a message of level 1 did not come in 5 s")
    assert found is not None
    message = found[0].messages[0]
    require_equal(
        "topic, queue and body",
        (message.topic, message.queue_id, message.body),
        (topic, 3, b"a body"),
    )
    expected = {"TAGS": "tag", "KEYS": "key", "DELAY": "1", "REAL_TOPIC": topic, "REAL_QID": "3"}
    kept = {name: message.properties.get(name) for name in expected}
    require_equal("the properties", kept, expected)
    origin = message.flag, message.born_timestamp_ms, message.born_host
    require_equal("flag, born time and host", origin, (FLAG, BORN_MS, broker.local_address))
    tagged = await bench.pull(broker, topic, queue=3, subscription="tag")
    require_equal("what a filter by its tag finds", len(tagged.messages), 1)


@case("RMQ-DLY-06", limit_s=150)
async def a_kill(bench: Bench) -> None:
    topic, master = await bench.topic(), (await bench.master()).address
    broker = await bench.broker()
    await send_delayed(bench, broker, topic, 2)
    node, processes = bench.target.nodes[master], bench.controls().process
    await processes.kill(node)
    await processes.start(node)
    again = await bench.until_serving(master, topic)
    found = await arrival(bench, again, topic, within_s=30)
    require(found is not None, "a delayed message did not come after the broker was killed")
    before = await bench.read_all(master, topic, wanted=1)
    await send_delayed(bench, again, topic, 2, b"over the stop")
    await processes.stop(node)
    await processes.start(node)
    again = await bench.until_serving(master, topic)
    await asyncio.sleep(LEVELS_S[2] + REPEAT_S)
    after = await bench.read_all(master, topic, wanted=len(before) + 1)
    require_equal("what is there after a graceful stop", after, [*before, b"over the stop"])


@case("RMQ-DLY-07")
async def together(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    bodies = [b"%d" % index for index in range(20)]
    for body in bodies:
        await send_delayed(bench, broker, topic, 1, body)
    found = await arrival(bench, broker, topic, within_s=6, count=len(bodies))
    require(found is not None, "20 messages of level 1 did not come in 6 s")
    assert found is not None
    require_equal("their order", [message.body for message in found[0].messages], bodies)


@case("RMQ-DLY-08")
async def schedule_topic(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    end = await end_of_level(bench, broker, 5)
    await send_delayed(bench, broker, topic, 5, b"waits a minute")
    pulled = await bench.pull(broker, SCHEDULE_TOPIC, queue=4, offset=end, least=end + 1)
    bodies = [message.body for message in pulled.messages]
    require(b"waits a minute" in bodies, f"queue 4 of {SCHEDULE_TOPIC} holds {bodies!r:.200}")


@case("RMQ-DLY-09", limit_s=120)
async def a_clock_set_back(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    node, now_s = bench.target.nodes[broker.address], asyncio.get_running_loop().time
    begin_s = now_s()
    await send_delayed(bench, broker, topic, 3)
    try:
        await bench.controls().clock.step(node, -HOUR_MS)
    except CapabilityMissing as error:
        raise NotTriable(f"the clocks of nodes cannot be set: {error}") from None
    try:
        found = await arrival(bench, broker, topic, within_s=LEVELS_S[3] + SET_S)
    finally:
        await bench.controls().clock.reset(node)
    took_s = now_s() - begin_s
    require(found is not None, f"a message of level 3 did not come in {took_s:.1f} s")
    require(took_s > LEVELS_S[3] - CLOCK_S, f"a message of level 3 came after {took_s:.1f} s")
