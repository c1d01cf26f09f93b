"""RMQ-LIM: what is too large, too long, senseless or too slow."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Iterator
from random import Random

from harness.conformance.bench import Bench, pull_fields, send_fields
from harness.conformance.case import case, require, require_equal
from harness.conformance.wire import NoAnswer, Wire, request
from system_under_test.protocol.codes import RequestCode, ResponseCode

BODY_MAX = 4 << 20
TOPIC_MAX = 127
PROPERTIES_MAX = 32_767
FORBIDDEN = (
    "SCHEDULE_TOPIC_XXXX",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
    "SELF_TEST_TOPIC",
    "OFFSET_MOVED_EVENT",
)
SENSELESS = ("-1", "-2147483648", "2147483647", "2147483648", "9223372036854775808", "many", "")
RECOVERY_S = 30.0  # for what waits at a disk that is well again to be written
STUCK = 5000.0  # times as long as usual, so that a flush takes seconds
SENDS_AT_ONCE = 40
HOSTILE_CONNECTIONS = 60
GREEDY_PULLS = 120


async def end_of(broker: Wire, topic: str, queue: int = 0) -> int:
    """How many messages the queue holds."""
    answer = await broker.ask(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": queue})
    require_equal("the code for the end of a queue", answer.code, ResponseCode.SUCCESS)
    return int(answer.ext_fields["offset"])


@case("RMQ-LIM-01", limit_s=60)
async def size_of_a_body(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    body = bytes(range(256)) * (BODY_MAX // 256)
    largest = await bench.send(broker, topic, body)
    require_equal("the code for a body of 4 MiB", largest.code, ResponseCode.SUCCESS)
    pulled = await bench.pull(broker, topic)
    require(
        [message.body for message in pulled.messages] == [body],
        "a body of 4 MiB did not come back as it was sent",
    )
    larger = await bench.send(broker, topic, body + b"x")
    require_equal("the code for one byte more", larger.code, ResponseCode.MESSAGE_ILLEGAL)
    require_equal("the end of the queue after it", await end_of(broker, topic), 1)


@case("RMQ-LIM-02")
async def names_of_topics(bench: Bench) -> None:
    broker = await bench.broker()
    longest = f"{bench.fresh_name()}-%|_".ljust(TOPIC_MAX, "x")
    made = await bench.send(broker, longest)
    require_equal("the code for a name of 127 characters", made.code, ResponseCode.SUCCESS)
    bench.remove_later(longest, broker.address)
    for name in (f"{longest}x", f"{bench.fresh_name()} t", f"{bench.fresh_name()}.t", "größe", ""):
        refused = await bench.send(broker, name)
        require_equal(
            f"the code for the topic {name!r:.60}", refused.code, ResponseCode.SYSTEM_ERROR
        )


@case("RMQ-LIM-03")
async def size_of_properties(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    large = "v" * 32_000
    stored = await bench.send(broker, topic, properties={"large": large})
    require_equal("the code for properties of 32 KB", stored.code, ResponseCode.SUCCESS)
    pulled = await bench.pull(broker, topic)
    found = [message.properties.get("large") for message in pulled.messages]
    require(found == [large], "a property of 32,000 characters did not come back as it was sent")
    too_large = "v" * (PROPERTIES_MAX + 1 - len("large\x01"))
    refused = await bench.send(broker, topic, properties={"large": too_large})
    require_equal("the code for 32,768 bytes", refused.code, ResponseCode.MESSAGE_ILLEGAL)
    require_equal("the end of the queue after it", await end_of(broker, topic), 1)


@case("RMQ-LIM-04")
async def topics_of_the_broker(bench: Bench) -> None:
    broker = await bench.broker()
    for topic in FORBIDDEN:
        refused = await bench.send(broker, topic)
        require_equal(f"the code for a send to {topic}", refused.code, ResponseCode.NO_PERMISSION)


@case("RMQ-LIM-06")
async def empty_bodies(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    empty = await bench.send(broker, topic, b"", properties={"KEYS": "k"})
    require_equal("the code for an empty body", empty.code, ResponseCode.SUCCESS)
    await bench.store(broker, topic, b"after")
    messages = (await bench.pull(broker, topic)).messages
    require_equal("the bodies", [message.body for message in messages], [b"", b"after"])
    require_equal("the keys of the first", messages[0].properties.get("KEYS"), "k")


async def is_served_again(bench: Bench, broker: Wire, topic: str) -> bool:
    """Whether sends are, before long."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + RECOVERY_S
    while loop.time() < until_s:
        if (await bench.send(broker, topic, b"after", queue=1)).code == ResponseCode.SUCCESS:
            return True
        await asyncio.sleep(0.5)
    return False


@case("RMQ-LIM-07", limit_s=180)
async def busy(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    disk, node = bench.controls().disk, bench.target.nodes[broker.address]
    await bench.store(broker, topic, b"before")
    await disk.slow(node, STUCK)
    try:
        futures = []
        for index in range(SENDS_AT_ONCE):
            ext = send_fields(topic, queue=0)
            futures.append(broker.send(request(RequestCode.SEND_MESSAGE, ext, b"%d" % index)))
            await asyncio.sleep(0.05)
        answers = [await broker.answer(future, 10, answer_s=60) for future in futures]
    finally:
        await disk.mend(node)
    codes = [answer.code for answer in answers]
    require(
        ResponseCode.SYSTEM_BUSY in codes,
        f"none of {SENDS_AT_ONCE} sends to a broker whose disk is stuck was answered with SYSTEM_BUSY, "
        f"but with {sorted(set(codes))}",
    )
    require(
        await is_served_again(bench, broker, topic),
        f"sends are not answered with 0 within {RECOVERY_S:g} s after the disk is well again",
    )
    refused = {
        b"%d" % index for index, code in enumerate(codes) if code == ResponseCode.SYSTEM_BUSY
    }
    found = await bench.read_all(broker.address, topic, wanted=len(codes) - len(refused) + 1)
    require_equal("what is stored of refused messages", sorted(refused.intersection(found)), [])


@case("RMQ-LIM-08", limit_s=60)
async def no_frames(bench: Bench) -> None:
    topic, peaceful = await bench.topic(), await bench.broker()
    name_server = await bench.name_server()
    for number, data in enumerate(hostile_bytes()):
        server = (peaceful, name_server)[number % 2]
        hostile = await bench.connect(server.address)
        hostile.send_bytes(data)
        await asyncio.sleep(0.01)
        hostile.close()
    for served, code in (
        (peaceful, RequestCode.GET_BROKER_CONFIG),
        (name_server, RequestCode.GET_BROKER_CLUSTER_INFO),
    ):
        try:
            answer = await served.ask(code)
        except NoAnswer as error:
            require(False, f"bytes on other connections ended service: {error}")
        require_equal("the code after bytes on other connections", answer.code, 0)
    require_equal("what such bytes have stored", await end_of(peaceful, topic), 0)


def hostile_bytes() -> Iterator[bytes]:
    """Noise, and frames that are nearly good: each time the same."""
    random = Random("conformance/RMQ-LIM-08")
    good = json.dumps(
        {"code": 105, "opaque": 1, "flag": 0, "version": 409, "extFields": {}}
    ).encode()
    for number in range(HOSTILE_CONNECTIONS):
        header = bytearray(good)
        for _ in range(random.randrange(1, 8)):
            header[random.randrange(len(header))] = random.randrange(256)
        noise = random.randbytes(random.randrange(1, 400))
        frame = struct.pack(">ii", 4 + len(header), len(header) | random.choice((0, 1, 9)) << 24)
        yield (
            noise,
            frame + header,
            struct.pack(">ii", 100, random.randrange(-(2**31), 2**31)) + noise,
            struct.pack(">i", random.randrange(-(2**31), 4)) + noise,
        )[number % 4]


@case("RMQ-LIM-09", limit_s=60)
async def senseless_numbers(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    group = bench.fresh_name("g")
    pull = pull_fields(topic, queue=0, offset=0, group=group)
    end = {"topic": topic, "queueId": "0"}
    for code, fields, names in (
        (RequestCode.PULL_MESSAGE, pull, ("queueId", "queueOffset", "maxMsgNums", "sysFlag")),
        (RequestCode.GET_MAX_OFFSET, end, ("queueId",)),
        (
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
            {**end, "timestamp": "0"},
            ("queueId", "timestamp"),
        ),
        (
            RequestCode.UPDATE_CONSUMER_OFFSET,
            {**end, "consumerGroup": group, "commitOffset": "0"},
            ("queueId", "commitOffset"),
        ),
        (RequestCode.SEND_MESSAGE, send_fields(topic, queue=9), ("flag", "reconsumeTimes")),
    ):
        for name in names:
            for value in SENSELESS:
                try:
                    await broker.ask(code, {**fields, name: value})
                except NoAnswer as error:
                    require(False, f"request {code} with {name}={value!r}: {error}")
    require_equal("what such requests have stored", await end_of(broker, topic), 0)


@case("RMQ-LIM-10", limit_s=60)
async def slow_readers(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    for _ in range(4):
        await bench.store(broker, topic, bytes(200_000))
    greedy = await bench.broker()
    greedy.pause()
    for _ in range(GREEDY_PULLS):
        ext = pull_fields(topic, queue=0, offset=0, group=bench.fresh_name("g"))
        greedy.send(request(RequestCode.PULL_MESSAGE, ext))
    loop = asyncio.get_running_loop()
    for _ in range(20):
        asked_s = loop.time()
        try:
            await bench.store(broker, topic, b"small", queue=1)
        except NoAnswer as error:
            require(False, f"while another client does not read its answers: {error}")
        took_s = loop.time() - asked_s
        require(took_s < 2, f"a send took {took_s:.1f} s while another client does not read")
