"""RMQ-ADM: queries and changes of administrators."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from staticfire.harness.conformance.answers import json_in, json_object, number, read_messages
from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.consumers import Member, register_consumer
from staticfire.harness.conformance.failures import BadAnswer
from staticfire.harness.conformance.request_fields import topic_fields
from staticfire.harness.conformance.wire import Wire, request
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.message import (
    Message,
    java_string_hash,
    parse_offset_message_id,
)

SYSTEM_PREFIX = "rmq_sys_"
_CAPACITY = re.compile(r"Total : ([0-9.]+) [KMGTP]iB, Free : ([0-9.]+) ?[KMGTP]?i?B\.?")
INT_MAX = (1 << 31) - 1
VERSIONS = {"V4_9_8": "409"}  # MQVersion.Version
UNIT = 1024  # of sizes: the next unit begins there
SHORT_WAITS = (  # options for which RocketMQ accepts any time, including 1 ms
    "waitTimeMillsInSendQueue",
    "waitTimeMillsInPullQueue",
    "waitTimeMillsInHeartbeatQueue",
    "waitTimeMillsInTransactionQueue",
)
TAGS = ("red", "blue", "green")
MANY_TOPICS, MANY_QUEUES = 5, 500
OTHER_TIME_MS = 60_000
QUESTIONS, QUESTIONS_AT_ONCE = 10_100, 25  # more than a broker may have pending
AGE_MS = 200  # minimum age of a message
STATUS_S = 15.0  # for two members, each of which has 5 s to answer
QUERY = {"maxNum": 32, "beginTimestamp": 0, "endTimestamp": 1 << 62}


@case("RMQ-ADM-01")
async def topics(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=3), await bench.broker()
    route = await bench.await_route(topic, within_s=3)
    require(route is not None, "a new topic has no route after 3 s")
    await broker.obtain(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields(topic, queues=6))
    queues = await bench.await_in_route(topic, "writeQueueNums", 6, within_s=3)
    require_equal("the queues after a change", queues, 6)
    await bench.store(broker, topic, queue=5)
    await broker.obtain(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
    for index in range(len(bench.target.name_servers)):
        name_server = await bench.name_server(index)
        await name_server.obtain(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": topic})
    require(await bench.route(topic) is None, "a deleted topic has a route")
    served = await bench.pull_if_served(broker, topic, queue=0, offset=0)
    require(served is None, "a deleted topic can be pulled")
    system = f"{SYSTEM_PREFIX}{bench.fresh_name()}"
    refused = await broker.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields(system, queues=1))
    if refused.code == ResponseCode.SUCCESS:
        bench.remove_later(system, broker.address)
    require_equal(f"the code for a topic {system}", refused.code, ResponseCode.SYSTEM_ERROR)


@case("RMQ-ADM-02")
async def groups(bench: Bench) -> None:
    broker, group = await bench.broker(), bench.fresh_name("g")
    config = {"groupName": group, "retryQueueNums": 2, "retryMaxTimes": 5, "consumeEnable": True}
    body = json.dumps(config).encode()
    made = await broker.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
    require_equal("the code for a new group", made.code, 0)
    found = (await groups_of(broker)).get(group, {})
    options = {name: found.get(name) for name in config}
    require_equal("the group", options, config)
    await broker.obtain(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": group})
    require(group not in await groups_of(broker), "a deleted group is still there")


async def groups_of(broker: Wire) -> Mapping[str, Any]:
    answer = await broker.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    table = json_object(answer).get("subscriptionGroupTable", {})
    assert isinstance(table, dict)
    return table


@case("RMQ-ADM-03", is_alone=True)
async def options(bench: Bench) -> None:
    broker = await bench.broker()
    name = "waitTimeMillsInSendQueue"
    before = await option_of(broker, name)
    require(before is not None, f"the options do not have {name}")
    try:
        changed = await broker.ask(RequestCode.UPDATE_BROKER_CONFIG, body=f"{name}=777\n".encode())
        require_equal("the code for a change", changed.code, 0)
        require_equal(name, await option_of(broker, name), "777")
        escaped = f"{name}=\\u0037\\8\\u0039\n".encode()
        await broker.obtain(RequestCode.UPDATE_BROKER_CONFIG, body=escaped)
        require_equal(f"{name} that was written with escapes", await option_of(broker, name), "789")
    finally:
        await broker.obtain(RequestCode.UPDATE_BROKER_CONFIG, body=f"{name}={before}\n".encode())
    answer = await broker.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
    facts = json_object(answer).get("table", {})
    for fact in (
        "brokerVersionDesc",
        "brokerVersion",
        "commitLogMaxOffset",
        "putTps",
        "bootTimestamp",
    ):
        require(fact in facts, f"the facts do not have {fact}")
    version = facts["brokerVersion"]
    number = VERSIONS.get(facts["brokerVersionDesc"], version)
    require_equal(f"brokerVersion of {facts['brokerVersionDesc']}", version, number)
    require_equal("the version in the header of an answer", str(answer.version), version)
    room = str(facts.get("commitLogDirCapacity", ""))
    sizes = _CAPACITY.fullmatch(room)
    require(sizes, f"commitLogDirCapacity is {room!r:.100}; expected sizes with units")
    assert sizes is not None
    total, free = float(sizes[1]), float(sizes[2])
    require(
        1 <= total <= UNIT and free <= UNIT,
        f"commitLogDirCapacity is {room!r:.100}; expected units of which there are 1 to {UNIT}",
    )
    await _lock_of_nothing(broker)
    for option in SHORT_WAITS:
        await _extreme(broker, option, 1)
    await _extreme(broker, "diskMaxUsedSpaceRatio", INT_MAX)


async def _lock_of_nothing(broker: Wire) -> None:
    """Require that the broker soon reports no message in progress; another client may send at the same moment."""
    for _ in range(20):
        facts = json_object(await broker.ask(RequestCode.GET_BROKER_RUNTIME_INFO))
        locked_ms = facts.get("table", {}).get("pageCacheLockTimeMills")
        if locked_ms == "0":
            break
        await asyncio.sleep(0.1)
    require_equal("pageCacheLockTimeMills", locked_ms, "0")


async def _extreme(broker: Wire, name: str, value: int) -> None:
    """Require that the broker accepts this value of an option. A broker without the option is not tested."""
    before = await option_of(broker, name)
    if before is None:
        return
    try:
        body = f"{name}={value}\n".encode()
        changed = await broker.ask(RequestCode.UPDATE_BROKER_CONFIG, body=body)
        require_equal(f"the code for {name}={value} ({changed.remark})", changed.code, 0)
    finally:
        await broker.obtain(RequestCode.UPDATE_BROKER_CONFIG, body=f"{name}={before}\n".encode())
    require_equal(f"{name} when it was changed back", await option_of(broker, name), before)


@case("RMQ-ADM-16", is_alone=True, cluster={"mode": "faithful"})
async def values_that_are_none(bench: Bench) -> None:
    broker = await bench.broker()
    bad, good = SHORT_WAITS[:2]
    before = [await option_of(broker, name) for name in (bad, good)]
    try:
        body = f"{bad}=soon\n{good}=777\nnoSuchOption=1\n".encode()
        changed = await broker.ask(RequestCode.UPDATE_BROKER_CONFIG, body=body)
        require_equal("the code for a value that is no number", changed.code, 0)
        require_equal(f"{bad} after that", await option_of(broker, bad), before[0])
        require_equal(f"{good} of the same request", await option_of(broker, good), "777")
    finally:
        await bench.configure(broker, **{good: before[1]})


async def option_of(broker: Wire, name: str) -> str | None:
    """Return the value of an option as the broker reports it; None if it has no such option."""
    answer = await broker.ask(RequestCode.GET_BROKER_CONFIG)
    require_equal("the code for the options", answer.code, 0)
    version = json_in(answer.ext_fields.get("version", "").encode())
    parts = {"timestamp", "counter"}
    require(parts <= version.keys(), f"the version of the options has {sorted(version)}")
    lines = dict(line.partition("=")[::2] for line in answer.body.decode().splitlines())
    return lines.get(name)


@case("RMQ-ADM-04")
async def statistics(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=2), await bench.broker()
    group = bench.fresh_name("g")
    for _ in range(5):
        await asyncio.sleep(0.01)  # each with a time of its own
        await bench.store(broker, topic, queue=1)
    last = (await bench.pull(broker, topic, queue=1)).messages[-1]
    commit = {"consumerGroup": group, "topic": topic, "queueId": 1, "commitOffset": 2}
    await broker.obtain(RequestCode.UPDATE_CONSUMER_OFFSET, commit)
    stats = json_object(await broker.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic}))
    ends = {queue: entry["maxOffset"] for queue, entry in by_queue(stats).items()}
    require_equal("the ends of the queues", ends, {0: 0, 1: 5})
    updated_ms = by_queue(stats)[1].get("lastUpdateTimestamp")
    require_equal("the time of the last message", updated_ms, last.store_timestamp_ms)
    fields = {"consumerGroup": group, "topic": topic}
    consumed = json_object(await broker.ask(RequestCode.GET_CONSUME_STATS, fields))
    entry = by_queue(consumed).get(1, {})
    lag = (entry.get("brokerOffset"), entry.get("consumerOffset"))
    require_equal("end and offset", lag, (5, 2))
    await _statistics_of_many(bench)


async def _statistics_of_many(bench: Bench) -> None:
    """Require that the broker answers several concurrent requests for a group with offsets in many queues."""
    group, broker = bench.fresh_name("g"), await bench.broker()
    for _ in range(MANY_TOPICS):
        fields = {"topic": await bench.topic(queues=MANY_QUEUES), "queueId": 0, "commitOffset": 1}
        await broker.obtain(RequestCode.UPDATE_CONSUMER_OFFSET, {"consumerGroup": group, **fields})
    fields = {"consumerGroup": group, "topic": ""}
    asked = [broker.ask(RequestCode.GET_CONSUME_STATS, fields) for _ in range(2)]
    sizes = [
        len(json_object(answer).get("offsetTable", {})) for answer in await asyncio.gather(*asked)
    ]
    require_equal("the numbers of queues in the answers", sizes, [MANY_TOPICS * MANY_QUEUES] * 2)


def by_queue(answer: Mapping[str, object]) -> dict[int, Mapping[str, object]]:
    """Return the entries of an offsetTable by queue id. Raises BadAnswer."""
    table = answer.get("offsetTable", {})
    if not isinstance(table, dict):
        raise BadAnswer(f"offsetTable is a JSON {type(table).__name__}; expected an object")
    return {
        int(json.loads(key)["queueId"] if isinstance(key, str) else dict(key)["queueId"]): entry
        for key, entry in table.items()
    }


@case("RMQ-ADM-05")
async def queries(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    unique = f"{bench.fresh_number():032X}"
    keys = (bench.fresh_name("k"), bench.fresh_name("k"))
    properties = {"KEYS": " ".join(keys), "UNIQ_KEY": unique}
    await bench.store(broker, topic, b"another", properties={"KEYS": bench.fresh_name("k")})
    stored = await bench.store(broker, topic, b"wanted", properties=properties)
    for key in keys:
        require_equal(f"what key {key} finds", await found_by_key(broker, topic, key), [b"wanted"])
    by_unique = await found_by_key(broker, topic, unique, is_unique=True)
    require_equal("what the unique key finds", by_unique, [b"wanted"])
    await _end_of_index(broker, topic, keys[0])
    nothing = await broker.ask(RequestCode.QUERY_MESSAGE, {**QUERY, "topic": topic, "key": "none"})
    require_equal("the code for an unknown key", nothing.code, ResponseCode.QUERY_NOT_FOUND)
    _, _, offset = parse_offset_message_id(stored["msgId"])
    viewed = await broker.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": offset})
    require_equal("what the id finds", [m.body for m in read_messages(viewed.body)], [b"wanted"])
    await _at_its_time_alone(broker, topic, keys[0], read_messages(viewed.body)[0])
    missing = await broker.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": offset + (1 << 40)})
    require(missing.code != 0, "an id beyond the end of the log was answered with 0")


async def _at_its_time_alone(broker: Wire, topic: str, key: str, message: Message) -> None:
    """Require that a key finds the message in a range with its time, and not in another range."""
    stored_ms = message.store_timestamp_ms
    near = {"beginTimestamp": stored_ms - 2000, "endTimestamp": stored_ms + 2000}
    found = await broker.ask(
        RequestCode.QUERY_MESSAGE, {**QUERY, **near, "topic": topic, "key": key}
    )
    bodies = [one.body for one in read_messages(found.body)]
    require_equal("what its key finds around its time", bodies, [message.body])
    for begin_ms, end_ms in (
        (0, stored_ms - OTHER_TIME_MS),
        (stored_ms + OTHER_TIME_MS, stored_ms + 2 * OTHER_TIME_MS),
    ):
        other = {"beginTimestamp": begin_ms, "endTimestamp": end_ms}
        fields = {**QUERY, **other, "topic": topic, "key": key}
        answer = await broker.ask(RequestCode.QUERY_MESSAGE, fields)
        require_equal("the code at another time", answer.code, ResponseCode.QUERY_NOT_FOUND)


async def _end_of_index(broker: Wire, topic: str, key: str) -> None:
    """Require that an answer has the position and the store time of the message that was indexed last."""
    answer = await broker.obtain(RequestCode.QUERY_MESSAGE, {**QUERY, "topic": topic, "key": key})
    offset = number(answer.ext_fields, "indexLastUpdatePhyoffset")
    viewed = await broker.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": offset})
    require_equal("the code for the message that was indexed last", viewed.code, 0)
    last = read_messages(viewed.body)[0]
    time_ms = number(answer.ext_fields, "indexLastUpdateTimestamp")
    require_equal("the time of the last index entry", time_ms, last.store_timestamp_ms)


async def found_by_key(
    broker: Wire, topic: str, key: str, *, is_unique: bool = False
) -> list[bytes]:
    """Return the bodies that a key finds; the index may lag behind the log for a moment."""
    fields = {**QUERY, "topic": topic, "key": key, "_UNIQUE_KEY_QUERY": is_unique}
    for _ in range(40):
        answer = await broker.ask(RequestCode.QUERY_MESSAGE, fields)
        if answer.code == ResponseCode.SUCCESS:
            return [message.body for message in read_messages(answer.body)]
        await asyncio.sleep(0.05)
    return []


@case("RMQ-ADM-06", limit_s=90)
async def questions(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    group = bench.fresh_name("g")
    stored = await bench.store(broker, topic, b"consume this")
    member = await register_consumer(bench, broker.address, group, topic)
    fields = {"consumerGroup": group, "clientId": member.client_id, "jstackEnable": False}
    asked = broker.send(request(RequestCode.GET_CONSUMER_RUNNING_INFO, fields))
    passed = await member.next_request(RequestCode.GET_CONSUMER_RUNNING_INFO, wait_s=5)
    require(passed is not None, "the consumer was not asked for its running info")
    assert passed is not None
    member.wire.respond(passed, 0, body=b'{"properties":{}}')
    answer = await broker.answer(asked, RequestCode.GET_CONSUMER_RUNNING_INFO)
    require_equal("what comes back", (answer.code, answer.body), (0, b'{"properties":{}}'))
    fields = {"consumerGroup": group, "clientId": member.client_id, "msgId": stored["msgId"]}
    asked = broker.send(request(RequestCode.CONSUME_MESSAGE_DIRECTLY, fields))
    passed = await member.next_request(RequestCode.CONSUME_MESSAGE_DIRECTLY, wait_s=5)
    require(passed is not None, "the consumer was not asked to consume")
    assert passed is not None
    bodies = [message.body for message in read_messages(passed.body)]
    require_equal("the message that it gets", bodies, [b"consume this"])
    member.wire.respond(passed, 0, body=b'{"consumeResult":"CR_SUCCESS"}')
    answer = await broker.answer(asked, RequestCode.CONSUME_MESSAGE_DIRECTLY)
    require_equal(
        "what comes back", (answer.code, answer.body), (0, b'{"consumeResult":"CR_SUCCESS"}')
    )
    fields = {"consumerGroup": group, "clientId": "nobody", "jstackEnable": False}
    response = await broker.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, fields)
    require(response.code != 0, "a question for a client that does not exist was answered with 0")
    await _many_questions(broker, member)
    await _status_of_those_that_answer(bench, broker, topic, member)


async def _many_questions(broker: Wire, member: Member) -> None:
    """Require that the broker still forwards requests to a member after it has forwarded many."""
    code = RequestCode.GET_CONSUMER_RUNNING_INFO
    fields = {"consumerGroup": member.group, "clientId": member.client_id, "jstackEnable": False}
    for asked in range(0, QUESTIONS, QUESTIONS_AT_ONCE):
        answers = [broker.send(request(code, fields)) for _ in range(QUESTIONS_AT_ONCE)]
        for _ in range(QUESTIONS_AT_ONCE):
            passed = await member.next_request(code, wait_s=5)
            require(passed is not None, f"after {asked} questions the consumer was asked no more")
            assert passed is not None
            member.wire.respond(passed, 0)
        codes = {(await broker.answer(answer, code)).code for answer in answers}
        require_equal(f"the codes for questions after {asked}", codes, {0})


async def _status_of_those_that_answer(
    bench: Bench, broker: Wire, topic: str, member: Member
) -> None:
    """Require that the status of a group omits a member that does not answer."""
    await register_consumer(bench, broker.address, member.group, topic)
    code = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
    asked = broker.send(request(code, {"topic": topic, "group": member.group}))
    passed = await member.next_request(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, wait_s=STATUS_S)
    require(passed is not None, "the consumer was not asked for its status")
    assert passed is not None
    queue = {"brokerName": "broker", "queueId": 1, "topic": topic}
    member.wire.respond(
        passed, 0, body=b'{"messageQueueTable":{%s:7}}' % json.dumps(queue).encode()
    )
    answer = json_object(await broker.answer(asked, code, answer_s=STATUS_S))
    table = answer.get("consumerTable", {})
    require_equal("the members in the status of the group", sorted(table), [member.client_id])
    offsets = by_queue({"offsetTable": table[member.client_id]})
    require_equal("the offsets of the member", offsets, {1: 7})


@case("RMQ-ADM-07", is_alone=True)
async def cleaning(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    await bench.store(broker, topic, b"kept")
    await bench.store(broker, topic, b"delayed", properties={"DELAY": "1"})
    cleaned = await broker.ask(RequestCode.CLEAN_UNUSED_TOPIC)
    require_equal("the code", cleaned.code, 0)
    found = await bench.read_all(broker.address, topic, wanted=2, within_s=5)
    require_equal("what is there afterwards", found, [b"kept", b"delayed"])


@case("RMQ-ADM-09")
async def times_of_queues(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=2), await bench.broker()
    group = bench.fresh_name("g")
    for _ in range(3):
        await bench.store(broker, topic, queue=1)
        await asyncio.sleep(0.01)  # each with a time of its own
    messages = (await bench.pull(broker, topic, queue=1)).messages
    stored_ms = [message.store_timestamp_ms for message in messages]
    require_equal("the number of messages", len(stored_ms), 3)
    spans = await _spans(broker, topic, group)
    require_equal("the times of a queue without messages", spans.get(0), (-1, -1, -1))
    first, _, last = stored_ms
    require_equal("the times of a queue without an offset", spans.get(1), (first, last, first))
    commit = {"consumerGroup": group, "topic": topic, "queueId": 1, "commitOffset": 2}
    await broker.obtain(RequestCode.UPDATE_CONSUMER_OFFSET, commit)
    spans = await _spans(broker, topic, group)
    require_equal("the times of a queue", spans.get(1), (first, last, stored_ms[1]))
    await _delay_of_one(bench, broker, topic, group)


async def _delay_of_one(bench: Bench, broker: Wire, topic: str, group: str) -> None:
    """Require that the group's delay is the age of the only message that it has not consumed, and 0 afterwards."""
    await bench.store(broker, topic)
    await bench.pull(broker, topic)
    await asyncio.sleep(AGE_MS / 1000)
    for offset in (0, 1):
        commit = {"consumerGroup": group, "topic": topic, "queueId": 0, "commitOffset": offset}
        await broker.obtain(RequestCode.UPDATE_CONSUMER_OFFSET, commit)
        delay_ms = (await _spans(broker, topic, group, ("delayTime",)))[0][0]
        low, high = (AGE_MS, AGE_MS + OTHER_TIME_MS) if offset == 0 else (0, 0)
        require(
            isinstance(delay_ms, int) and low <= delay_ms <= high,
            f"delayTime of a group at offset {offset} is {delay_ms!r:.50}; expected {low} to {high}",
        )


async def _spans(
    broker: Wire,
    topic: str,
    group: str,
    names: Sequence[str] = ("minTimeStamp", "maxTimeStamp", "consumeTimeStamp"),
) -> dict[int, tuple[object, ...]]:
    """Return fields by queue id, by default the store times of the first, last and last consumed message."""
    fields = {"topic": topic, "group": group}
    answer = json_object(await broker.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, fields))
    spans = answer.get("consumeTimeSpanSet")
    if not isinstance(spans, list):
        raise BadAnswer(f"consumeTimeSpanSet is a {type(spans).__name__}; expected a list")
    return {
        span["messageQueue"]["queueId"]: tuple(span.get(name) for name in names) for span in spans
    }


@case("RMQ-ADM-11")
async def entries_of_queues(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=1), await bench.broker()
    group = bench.fresh_name("g")
    for tag in TAGS:
        await bench.store(broker, topic, properties={"TAGS": tag})
    messages = (await bench.pull(broker, topic)).messages
    require_equal("the number of messages", len(messages), len(TAGS))
    await register_consumer(bench, broker.address, group, topic, expression=TAGS[1])
    fields = {"topic": topic, "queueId": 0, "index": 0, "count": 10, "consumerGroup": group}
    answer = json_object(await broker.ask(RequestCode.QUERY_CONSUME_QUEUE, fields))
    names = ("physicOffset", "tagsCode", "eval")
    found = [tuple(entry.get(name) for name in names) for entry in answer.get("queueData", [])]
    expected = [
        (message.physical_offset, java_string_hash(tag), tag == TAGS[1])
        for message, tag in zip(messages, TAGS, strict=True)
    ]
    require_equal("the entries and whether the group takes them", found, expected)
