"""RMQ-REM: frames, headers, and the answers to requests."""

from __future__ import annotations

import asyncio
import json
import struct

from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.cases.send import batch_record
from staticfire.harness.conformance.request_fields import pull_fields, send_fields, short_fields
from staticfire.harness.conformance.wire import NoAnswer, Wire, request
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import ROCKETMQ

UNKNOWN_CODE = 9999
IDLE_S = 120
CONNECTIONS, BATCH = 6, 1_000
STANDSTILL_S = 1.0
FRAME_LIMIT = 16_777_216
INT_MIN, INT_MAX = -(1 << 31), (1 << 31) - 1


def frame(header: dict[str, object], body: bytes = b"") -> bytes:
    """Return a frame with a JSON header, encoded here because the target may use our encoder."""
    text = json.dumps(header).encode()
    return struct.pack(">ii", 4 + len(text) + len(body), len(text)) + text + body


async def is_served(wire: Wire) -> bool:
    """Whether the server still answers on the connection."""
    try:
        await wire.ask(RequestCode.GET_BROKER_CONFIG)
    except NoAnswer:
        return False
    return True


@case("RMQ-REM-01")
async def frames(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    future = broker.expect(77)
    ext = {name: str(value) for name, value in send_fields(topic, queue=0).items()}
    ext["unitMode"] = "false"
    header = {
        "code": 10,
        "extFields": ext,
        "flag": 0,
        "language": "JAVA",
        "opaque": 77,
        "serializeTypeCurrentRPC": "JSON",
        "version": 409,
    }
    body = b"\x00\xff four bytes are the length"
    broker.send_bytes(frame(header, body))
    answer = await broker.answer(future, 10)
    require_equal("the answer's code", answer.code, 0)
    pulled = await bench.pull(broker, topic, least=1)
    require_equal("the body", [message.body for message in pulled.messages], [body])


@case("RMQ-REM-02")
async def json_header(bench: Bench) -> None:
    broker = await bench.broker()
    topic = await bench.topic()
    ext = {"topic": topic, "queueId": "0", "aFieldOfTomorrow": "x"}
    header = {
        "code": int(RequestCode.GET_MAX_OFFSET),
        "extFields": ext,
        "flag": 0,
        "language": "JAVA",
        "opaque": 5,
        "version": 409,
        "headerOfTomorrow": {"a": [1]},
    }
    future = broker.expect(5)
    broker.send_bytes(frame(header))
    answer = await broker.answer(future, 30)
    require_equal("the answer's code", answer.code, 0)
    require_equal("the offset of an empty queue", answer.ext_fields.get("offset"), "0")


@case("RMQ-REM-03")
async def binary_header(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    fields = {"topic": topic, "queueId": 0}
    binary = await broker.obtain(RequestCode.GET_MAX_OFFSET, fields, serialize_type=ROCKETMQ)
    require_equal("the answer's code", binary.code, 0)
    require_equal("the answer's serialize type", binary.serialize_type, ROCKETMQ)
    require_equal("the offset of an empty queue", binary.ext_fields.get("offset"), "0")
    again = await broker.obtain(RequestCode.GET_MAX_OFFSET, fields)
    require_equal("the serialize type of the answer to a JSON request", again.serialize_type, 0)


@case("RMQ-REM-04")
async def opaque(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    held = broker.send(
        request(
            RequestCode.PULL_MESSAGE,
            pull_fields(
                topic,
                queue=0,
                offset=0,
                group=bench.fresh_name("g"),
                sysFlag=6,
                suspendTimeoutMillis=15_000,
            ),
        )
    )
    for queue in range(3):
        answer = await broker.obtain(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": queue})
        require(
            answer.flag & 1, f"the flag of an answer is {answer.flag}; expected bit 0 to be set"
        )
    require(not held.done(), "a pull that may wait 15 s was answered at once on an empty queue")
    require_equal("answers to no request", len(broker.stray), 0)
    for number in (INT_MIN, -1, 0, INT_MAX):
        future = broker.expect(number)
        broker.send_bytes(
            frame(
                {
                    "code": int(RequestCode.GET_MAX_OFFSET),
                    "extFields": {"topic": topic, "queueId": "0"},
                    "flag": 0,
                    "language": "JAVA",
                    "opaque": number,
                    "version": 409,
                }
            )
        )
        code = (await broker.answer(future, RequestCode.GET_MAX_OFFSET)).code
        require_equal(f"the code for a request with the opaque {number}", code, 0)


@case("RMQ-REM-05")
async def one_way(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    command = request(
        RequestCode.SEND_MESSAGE, send_fields(topic, queue=0), b"one way", oneway=True
    )
    future = broker.send(command)
    for _ in range(100):
        pulled = await bench.pull(broker, topic)
        if pulled.messages:
            break
        await asyncio.sleep(0.05)
    require_equal("what was stored", [m.body for m in pulled.messages], [b"one way"])
    require(not future.done(), "a one-way request was answered")


@case("RMQ-REM-06")
async def unknown_code(bench: Bench) -> None:
    broker = await bench.broker()
    answer = await broker.ask(UNKNOWN_CODE)
    require_equal(
        "the code for an unknown request", answer.code, ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    )
    require(answer.remark, "the answer has no remark")
    require(await is_served(broker), "the connection was closed after an unknown request code")


@case("RMQ-REM-07")
async def segments(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    command = request(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": 0})
    command.opaque = 1000
    split = broker.expect(1000)
    for byte in command.encode():
        broker.send_bytes(bytes((byte,)))
        await asyncio.sleep(0.002)
    require_equal("the code for a frame in single bytes", (await broker.answer(split, 30)).code, 0)
    futures, data = [], b""
    for command.opaque in range(2000, 2050):
        futures.append(broker.expect(command.opaque))
        data += command.encode()
    broker.send_bytes(data)
    for future in futures:
        require_equal("the code for one of 50 frames", (await broker.answer(future, 30)).code, 0)


@case("RMQ-REM-08")
async def frame_above_the_limit(bench: Bench) -> None:
    hostile, peaceful = await bench.broker(), await bench.broker()
    require(await is_served(peaceful), "a new connection is not served")
    hostile.send_bytes(struct.pack(">ii", FRAME_LIMIT + 1, 0) + bytes(64))
    require(await hostile.is_closed(), "a frame above the limit did not end its connection")
    require(await is_served(peaceful), "a frame above the limit ended another connection, too")


@case("RMQ-REM-09", limit_s=300, is_slow=True)
async def idle_connections(bench: Bench) -> None:
    idle = await bench.broker()
    require(await is_served(idle), "a new connection is not served")
    require(not await idle.is_closed(wait_s=IDLE_S - 20), f"closed before {IDLE_S - 20} s")
    require(await idle.is_closed(wait_s=80), f"not closed after {IDLE_S + 60} idle seconds")


@case("RMQ-REM-10")
async def missing_field(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    answer = await broker.ask(RequestCode.GET_MAX_OFFSET, {"topic": topic})
    require(answer.code != ResponseCode.SUCCESS, "a request without queueId was answered with 0")
    require(await is_served(broker), "the connection was closed after a missing field")


@case("RMQ-REM-11", limit_s=120)
async def after_a_standstill(bench: Bench) -> None:
    topic, master = await bench.topic(queues=2), (await bench.master()).address
    node, processes = bench.target.nodes[master], bench.controls().process
    wires = [await bench.connect(master) for _ in range(CONNECTIONS)]
    records = b"".join(batch_record(b"%d" % index, {}) for index in range(BATCH))
    batch = short_fields({**send_fields(topic, queue=0), "batch": True})
    end = {"topic": topic, "queueId": 0}
    await processes.pause(node)
    try:
        asked = [
            asyncio.ensure_future(wires[0].ask(RequestCode.SEND_BATCH_MESSAGE, batch, records))
        ]
        for wire in wires[1:]:
            single = wire.ask(RequestCode.SEND_MESSAGE, send_fields(topic, queue=1), b"single")
            asked += [
                asyncio.ensure_future(single),
                asyncio.ensure_future(wire.ask(RequestCode.GET_MAX_OFFSET, end)),
            ]
        await asyncio.sleep(STANDSTILL_S)
    finally:
        await processes.resume(node)
    codes = [answer.code for answer in await asyncio.gather(*asked)]
    allowed = (ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY)
    require(
        all(code in allowed for code in codes), f"what was sent meanwhile got the codes {codes}"
    )
    batch_code, *others = codes
    stored = others[::2].count(ResponseCode.SUCCESS)
    for wire in wires:
        require_equal(
            "the code for the next request",
            (await wire.ask(RequestCode.GET_MAX_OFFSET, end)).code,
            0,
        )
    singles = await bench.read_all(master, topic, queue=1, wanted=stored)
    require_equal("what is stored", singles, [b"single"] * stored)
    end_of_batch = BATCH if batch_code == ResponseCode.SUCCESS else 0
    await bench.end_of(wires[0], topic, least=end_of_batch)
    require_equal("the end of the batch", await bench.end_of(wires[0], topic), end_of_batch)
