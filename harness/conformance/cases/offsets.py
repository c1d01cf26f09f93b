"""RMQ-OFF: offsets of groups, and the first and last offsets of queues."""

from __future__ import annotations

import asyncio

from staticfire.harness.conformance.answers import json_in, json_object, number
from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.cases.admin import by_queue
from staticfire.harness.conformance.consumers import register_consumer
from staticfire.harness.conformance.failures import BadAnswer
from staticfire.harness.conformance.wire import Wire, request
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode

PERSIST_S = 5.0
LONG_MAX = (1 << 63) - 1  # behind it is every offset of the compared group
# The faithful mode has a table of offsets of its own.
FAITHFUL = {"mode": "faithful"}
TO_THE_END = -1  # the timestamp that means the end of each queue


async def commit(broker: Wire, topic: str, group: str, offset: int, *, queue: int = 0) -> None:
    """Commit an offset. Raises BadAnswer."""
    fields = {"consumerGroup": group, "topic": topic, "queueId": queue, "commitOffset": offset}
    answer = await broker.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
    if answer.code != ResponseCode.SUCCESS:
        raise BadAnswer(f"committing an offset was answered with {answer.code} {answer.remark}")


async def committed(broker: Wire, topic: str, group: str, *, queue: int = 0) -> int | None:
    """Return the committed offset at the broker; None if there is none."""
    fields = {"consumerGroup": group, "topic": topic, "queueId": queue}
    answer = await broker.ask(RequestCode.QUERY_CONSUMER_OFFSET, fields)
    if answer.code == ResponseCode.QUERY_NOT_FOUND:
        return None
    require_equal("the code for an offset", answer.code, 0)
    return number(answer.ext_fields, "offset")


@case("RMQ-OFF-01")
async def consumer_offsets(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    group = bench.fresh_name("g")
    require(await committed(broker, topic, group) in (None, 0), "an unknown group has an offset")
    for offset in (5, 9, 2):
        await commit(broker, topic, group, offset, queue=1)
        require_equal("the offset", await committed(broker, topic, group, queue=1), offset)
    require(
        await committed(broker, topic, group, queue=2) in (None, 0), "another queue has it, too"
    )
    require(
        await committed(broker, topic, bench.fresh_name("g"), queue=1) in (None, 0),
        "another group has it, too",
    )


@case("RMQ-OFF-02", limit_s=90)
async def graceful_stop(bench: Bench) -> None:
    topic, master = await bench.topic(), (await bench.master()).address
    group, broker = bench.fresh_name("g"), await bench.broker()
    for offset in range(1, 4):
        for _ in range(offset):
            await bench.store(broker, topic, queue=offset)
        await commit(broker, topic, group, offset, queue=offset)
    node, processes = bench.target.nodes[master], bench.controls().process
    await processes.stop(node)
    await processes.start(node)
    again = await bench.until_serving(master, topic)
    found = [await committed(again, topic, group, queue=queue) for queue in range(1, 4)]
    require_equal("the offsets after a graceful stop", found, [1, 2, 3])


@case("RMQ-OFF-03", limit_s=120)
async def kill(bench: Bench) -> None:
    topic, master = await bench.topic(), (await bench.master()).address
    group, broker = bench.fresh_name("g"), await bench.broker()
    for _ in range(9):
        await bench.store(broker, topic)
    await commit(broker, topic, group, 4)
    await asyncio.sleep(PERSIST_S * 2)
    await commit(broker, topic, group, 9)
    node, processes = bench.target.nodes[master], bench.controls().process
    await processes.kill(node)
    await processes.start(node)
    again = await bench.until_serving(master, topic)
    found = await committed(again, topic, group)
    require(
        found in (4, 9), f"the offset after a kill is {found}; committed were 4, long ago, and 9"
    )


@case("RMQ-OFF-04")
async def ends(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    fields = {"topic": topic, "queueId": 0}
    require_equal("the end of an empty queue", await bench.end_of(broker, topic), 0)
    for index in range(4):
        await bench.store(broker, topic)
        require_equal("the end of the queue", await bench.end_of(broker, topic), index + 1)
    low = await broker.obtain(RequestCode.GET_MIN_OFFSET, fields)
    require_equal("the beginning of the queue", low.ext_fields.get("offset"), "0")
    earliest = await broker.obtain(RequestCode.GET_EARLIEST_MSG_STORETIME, fields)
    first = (await bench.pull(broker, topic)).messages[0]
    require_equal(
        "the earliest store time",
        earliest.ext_fields.get("timestamp"),
        str(first.store_timestamp_ms),
    )


@case("RMQ-OFF-05")
async def by_time(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    for _ in range(6):
        await bench.store(broker, topic)
        await asyncio.sleep(0.02)
    times = [m.store_timestamp_ms for m in (await bench.pull(broker, topic)).messages]
    require_equal(
        "what a time before the first finds", await _at(broker, topic, times[0] - 1000), 0
    )
    for index, time_ms in enumerate(times):
        require_equal("what a store time finds", await _at(broker, topic, time_ms), index)
    require_equal("what 1 ms after a message finds", await _at(broker, topic, times[2] + 1), 2)
    require_equal("what 1 ms before a message finds", await _at(broker, topic, times[3] - 1), 3)
    after = await _at(broker, topic, times[-1] + 3_600_000)
    require(after in (5, 6), f"a time after the last message finds {after}; allowed: 5 or 6")


async def _at(broker: Wire, topic: str, time_ms: int) -> int:
    fields = {"topic": topic, "queueId": 0, "timestamp": time_ms}
    answer = await broker.obtain(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, fields)
    return number(answer.ext_fields, "offset")


@case("RMQ-OFF-06")
async def reset(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=2), await bench.broker()
    group = bench.fresh_name("g")
    for _ in range(3):
        await bench.store(broker, topic)
    fields = {"topic": topic, "group": group, "timestamp": 0, "isForce": True}
    for queue in range(2):
        await commit(broker, topic, group, 3 - 3 * queue, queue=queue)
    offline = await broker.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
    require_equal("the code without a consumer", offline.code, ResponseCode.CONSUMER_NOT_ONLINE)
    consumer = await register_consumer(bench, broker.address, group, topic)
    await _reset_forwards(bench, broker, topic, group)
    while await consumer.wire.next_request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, wait_s=0.5):
        pass
    answer = await broker.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
    table = json_object(answer).get("offsetTable", {})
    require_equal("the offsets in the answer", by_queue({"offsetTable": table}), {0: 0, 1: 0})
    pushed = await consumer.wire.next_request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, wait_s=5)
    require(pushed is not None, "the consumer was not notified")
    assert pushed is not None
    require_equal("the group in the notification", pushed.ext_fields.get("group"), group)
    require_equal("the topic in the notification", pushed.ext_fields.get("topic"), topic)
    require_equal("the offsets in the notification", by_queue(json_in(pushed.body)), {0: 0, 1: 0})


async def _reset_forwards(bench: Bench, broker: Wire, topic: str, group: str) -> None:
    """Require that only a forced reset moves a group forwards, from offsets 1 and 0 in queues that end at 3 and 0."""
    await commit(broker, topic, group, 1)
    await bench.end_of(broker, topic)
    fields = {"topic": topic, "group": group, "timestamp": TO_THE_END}
    for is_force, offset in ((False, 1), (True, 3)):
        forced = {**fields, "isForce": is_force}
        answer = await broker.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, forced)
        table = by_queue({"offsetTable": json_object(answer).get("offsetTable", {})})
        what = "by force" if is_force else "without force"
        require_equal(f"the offsets of a reset forwards {what}", table, {0: offset, 1: 0})


@case("RMQ-OFF-07")
async def cloning(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    source, target = bench.fresh_name("g"), bench.fresh_name("g")
    other_topic = await bench.topic()
    await commit(broker, topic, source, 7, queue=2)
    await commit(broker, other_topic, source, 5, queue=1)
    fields = {"srcGroup": source, "destGroup": target, "topic": topic, "offline": False}
    answer = await broker.ask(RequestCode.CLONE_GROUP_OFFSET, fields)
    require_equal("the code", answer.code, 0)
    require_equal("the clone's offset", await committed(broker, topic, target, queue=2), 7)
    require_equal("the source's offset", await committed(broker, topic, source, queue=2), 7)
    await commit(broker, topic, target, 9, queue=2)
    kept = await committed(broker, topic, source, queue=2)
    require_equal("the source's offset after a commit of the clone", kept, 7)
    elsewhere = await committed(broker, other_topic, target, queue=1)
    require(elsewhere in (0, None), f"the clone's offset in a topic not asked for is {elsewhere}")


@case("RMQ-OFF-08")
async def first_commits(bench: Bench) -> None:
    topic, group = await bench.topic(queues=16), bench.fresh_name("g")
    wires = [await bench.broker() for _ in range(16)]
    futures = [
        wire.send(
            request(
                RequestCode.UPDATE_CONSUMER_OFFSET,
                {
                    "consumerGroup": group,
                    "topic": topic,
                    "queueId": queue,
                    "commitOffset": queue + 1,
                },
            )
        )
        for queue, wire in enumerate(wires)
    ]
    for wire, future in zip(wires, futures, strict=True):
        await wire.answer(future, RequestCode.UPDATE_CONSUMER_OFFSET)
    found = [await committed(wires[0], topic, group, queue=queue) for queue in range(16)]
    require_equal("the offsets", found, list(range(1, 17)))


@case("RMQ-OFF-09", limit_s=120)
async def never_beyond_the_end(bench: Bench) -> None:
    topic, group = await bench.topic(queues=1), bench.fresh_name("g")
    master = (await bench.master()).address
    broker = await bench.broker()
    for _ in range(5):
        await bench.store(broker, topic)
    # The state after the loss of a tail of the log that a group had consumed and committed.
    await commit(broker, topic, group, 8)
    await asyncio.sleep(PERSIST_S * 2)
    node, processes = bench.target.nodes[master], bench.controls().process
    await processes.kill(node)
    await processes.start(node)
    again = await bench.until_serving(master, topic)
    stored, end = await committed(again, topic, group), await bench.end_of(again, topic)
    require((stored or 0) <= end, f"the group stands at {stored}, the queue ends at {end}")


@case("RMQ-OFF-11")
async def lowest_offsets(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=1), await bench.broker()
    ahead, behind = bench.fresh_name("g"), bench.fresh_name("g")
    for _ in range(3):
        await bench.store(broker, topic)
    await commit(broker, topic, ahead, 3)
    await commit(broker, topic, behind, 1)
    for compared, left_out, lowest in (
        (behind, None, 1),
        (ahead, None, 1),
        (ahead, behind, 3),
        (behind, behind, LONG_MAX),
    ):
        fields = {"topic": topic, "compareGroup": compared}
        if left_out:
            fields["filterGroups"] = left_out
        answer = json_object(await broker.ask(RequestCode.QUERY_CORRECTION_OFFSET, fields))
        found = {int(queue): low for queue, low in answer.get("correctionOffsets", {}).items()}
        what = (
            f"the lowest offset of all groups but {left_out}" if left_out else "the lowest offset"
        )
        require_equal(f"{what}, compared with {compared}", found, {0: lowest})
    kept = await committed(broker, topic, behind)
    require_equal("the offset of a group that was left out", kept, 1)


@case("RMQ-OFF-12", cluster=FAITHFUL)
async def offsets_of_several_queues(bench: Bench) -> None:
    topics, broker = [await bench.topic() for _ in range(2)], await bench.broker()
    group = bench.fresh_name("g")
    expected: dict[tuple[str, int], int | None] = {}
    for offset in (3, 8, 5):
        for topic in topics:
            for queue in range(4):
                await commit(broker, topic, group, offset, queue=queue)
                expected[topic, queue] = offset
                found = {
                    key: await committed(broker, key[0], group, queue=key[1]) for key in expected
                }
                require_equal(
                    f"the offsets after a commit of {offset} in queue {queue}", found, expected
                )
