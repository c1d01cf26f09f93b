"""RMQ-LIM: messages that are too large, forbidden requests, invalid frames."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.cases.send import MANY, batch_record
from staticfire.harness.conformance.request_fields import pull_fields, send_fields, short_fields
from staticfire.harness.conformance.wire import NoAnswer, Wire, request
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand

BODY_MAX = 4 << 20
PROPERTIES_MAX = 32_767
TOPIC_MAX = 127
SYSTEM_TOPICS = (
    "SCHEDULE_TOPIC_XXXX",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
    "SELF_TEST_TOPIC",
    "OFFSET_MOVED_EVENT",
)
RECOVERY_S = 30.0  # for pending sends to be written once the disk has recovered
STUCK = 5000.0  # slowdown factor of the disk: a flush takes seconds
IN_TIME_S = 6.0  # a flush has 5 s (syncFlushTimeout)
SLOW = 40.0  # slowdown factor: a flush takes tens of milliseconds, much less than a send may wait
STUCK_S = 0.2  # if every send is faster than this, none has waited for the disk
STORED = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
    }
)
LONG_MAX = (1 << 63) - 1
INT_MAX = (1 << 31) - 1


@case("RMQ-LIM-01")
async def body_size(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    require_equal(
        "the code at the limit", (await bench.send(broker, topic, bytes(BODY_MAX))).code, 0
    )
    above = await bench.send(broker, topic, bytes(BODY_MAX + 1))
    require_equal("the code above it", above.code, ResponseCode.MESSAGE_ILLEGAL)
    require_equal("the end of the queue", await bench.end_of(broker, topic), 1)


@case("RMQ-LIM-02")
async def topic_names(bench: Bench) -> None:
    broker = await bench.broker()
    longest = bench.fresh_name().ljust(TOPIC_MAX, "x")
    made = await bench.send(broker, longest)
    require_equal(f"the code for {TOPIC_MAX} characters", made.code, 0)
    bench.remove_later(longest, broker.address)
    for bad in (longest + "x", "", "has a blank", "has.a.dot", "größe"):
        refused = await bench.send(broker, bad)
        require_equal(f"the code for {bad[:40]!r}", refused.code, ResponseCode.SYSTEM_ERROR)


@case("RMQ-LIM-03")
async def property_size(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    room = PROPERTIES_MAX - 200  # brokers add properties of their own
    stored = await bench.send(broker, topic, properties={"big": "x" * room})
    require_equal("the code below the limit", stored.code, 0)
    pulled = await bench.pull(broker, topic)
    kept = pulled.messages[0].properties.get("big", "")
    require_equal("the length of the property", len(kept), room)
    fitting = room + PROPERTIES_MAX - _size_of_properties(pulled.answer.body, topic)
    largest = await bench.send(broker, topic, properties={"big": "x" * fitting})
    require_equal("the code at the limit", largest.code, 0)
    for size in (fitting + 1, PROPERTIES_MAX + 1):
        refused = await bench.send(broker, topic, properties={"big": "x" * size})
        what = f"the code for {size - fitting} bytes above it"
        require_equal(what, refused.code, ResponseCode.MESSAGE_ILLEGAL)
    require_equal("the end of the queue", await bench.end_of(broker, topic), 2)


def _size_of_properties(record: bytes, topic: str) -> int:
    """Return the size of a record's properties, from the two bytes after the topic."""
    at = record.index(topic.encode()) + len(topic)
    return int.from_bytes(record[at : at + 2], "big")


@case("RMQ-LIM-11", spoils=True)
async def property_size_in_batches(bench: Bench) -> None:
    """Test a cluster that the suite has started, since Java 4.9.8 afterwards delivers no message of any topic."""
    topic, broker = await bench.topic(queues=1), await bench.broker()
    fields = short_fields({**send_fields(topic, queue=0), "batch": True})

    async def send(size: int, small: int = 1) -> RemotingCommand:
        records = batch_record(b"small", {}) * small + batch_record(b"large", {"big": "x" * size})
        return await broker.ask(RequestCode.SEND_BATCH_MESSAGE, fields, records)

    room = PROPERTIES_MAX - 200  # brokers add properties of their own
    require_equal("the code below the limit", (await send(room)).code, 0)
    stored = await bench.pull(broker, topic, offset=1, least=2)
    fitting = room + PROPERTIES_MAX - _size_of_properties(stored.answer.body, topic)
    require_equal("the code at the limit", (await send(fitting)).code, 0)
    for small in (1, MANY):
        above = await send(fitting + 1, small)
        what = f"the code above it, behind {small} other messages"
        require_equal(what, above.code, ResponseCode.MESSAGE_ILLEGAL)
    after = await bench.store(broker, topic, b"afterwards")
    require_equal("the offset of the next message", after.get("queueOffset"), "4")
    found = await bench.read_all(broker.address, topic, wanted=5)
    bodies = [b"small", b"large"] * 2 + [b"afterwards"]
    require_equal("what is stored", found, bodies)


@case("RMQ-LIM-04")
async def system_topics(bench: Bench) -> None:
    broker = await bench.broker()
    for topic in SYSTEM_TOPICS:
        refused = await bench.send(broker, topic)
        require_equal(f"the code for {topic}", refused.code, ResponseCode.NO_PERMISSION)


@case("RMQ-LIM-06")
async def empty_bodies(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    answer = await bench.send(broker, topic, b"")
    allowed = (ResponseCode.SUCCESS, ResponseCode.MESSAGE_ILLEGAL)
    require(answer.code in allowed, f"the code is {answer.code}; allowed: 0 or 13")
    found = [message.body for message in (await bench.pull(broker, topic)).messages]
    require_equal("what is there", found, [b""] if answer.code == ResponseCode.SUCCESS else [])


@case("RMQ-LIM-07", limit_s=180)
async def too_much(bench: Bench) -> None:
    topic, master = await bench.topic(queues=3), await bench.master()
    slave = await bench.slave_of(master)
    processes, node = bench.controls().process, bench.target.nodes[slave.address]
    await processes.pause(node)
    answers = await _answers_of_many(bench, topic, queue=0)
    await processes.resume(node)
    await _require_refused_not_stored(bench, master.address, topic, answers, queue=0)
    if bench.controls().has("disk.slow"):
        await _slow_disk(bench, topic, master.address)
        await _stuck_disk(bench, topic, master.address)


async def _slow_disk(bench: Bench, topic: str, address: str) -> None:
    """Require that a broker with a slow disk refuses no send as long as the disk keeps up."""
    disk, node = bench.controls().disk, bench.target.nodes[address]
    broker, loop = await bench.until_serving(address, topic), asyncio.get_running_loop()
    until_s = loop.time() + RECOVERY_S
    while await _is_refused(bench, broker, topic):  # until the sends to the paused node are over
        require(loop.time() < until_s, f"sends are refused for {RECOVERY_S:g} s after a pause")
        await asyncio.sleep(0.5)
    await disk.slow(node, SLOW)
    try:
        answers = await _answers_of_many(bench, topic, queue=2, pause_s=0.01)
    finally:
        await disk.heal(node)
    slowest_s = max(after_s for _, after_s in answers)
    refused = sum(code == ResponseCode.SYSTEM_BUSY for code, _ in answers)
    require(
        not refused or slowest_s > STUCK_S,
        f"{refused} of {len(answers)} sends to a broker whose disk is slow were refused;"
        f" the slowest one took {slowest_s:.3f} s",
    )


async def _is_refused(bench: Bench, broker: Wire, topic: str) -> bool:
    """Whether one of several concurrent sends is answered with SYSTEM_BUSY."""
    sends = [bench.send(broker, topic, b"x" * 1000, queue=2) for _ in range(10)]
    answers = await asyncio.gather(*sends)
    return any(answer.code == ResponseCode.SYSTEM_BUSY for answer in answers)


async def _stuck_disk(bench: Bench, topic: str, address: str) -> None:
    """Require that a broker with a stuck disk answers in time, and serves again once the disk recovers."""
    disk, node = bench.controls().disk, bench.target.nodes[address]
    await bench.store(await bench.broker(), topic, queue=1)
    await disk.slow(node, STUCK)
    try:
        answers = await _answers_of_many(bench, topic, queue=1, pause_s=0.01)
    finally:
        await disk.heal(node)
    require_answered_in_time(answers)
    await _require_refused_not_stored(bench, address, topic, answers, queue=1, others=1)
    broker, loop = await bench.until_serving(address, topic), asyncio.get_running_loop()
    until_s = loop.time() + RECOVERY_S
    while (again := await bench.send(broker, topic, b"afterwards", queue=1)).code:
        require(
            loop.time() < until_s,
            f"a send is answered with {again.code} {RECOVERY_S:g} s after the disk is well again",
        )
        await asyncio.sleep(0.5)


def require_answered_in_time(answers: Sequence[tuple[int, float]]) -> None:
    """Require that sends to a broker with a stuck disk are answered in time: some refused, or all flushed."""
    codes = {code for code, _ in answers}
    require(
        codes <= {ResponseCode.SYSTEM_BUSY, *STORED},
        f"sends to a broker whose disk is stuck were answered with {sorted(codes)}",
    )
    if codes.isdisjoint({ResponseCode.SYSTEM_BUSY, ResponseCode.FLUSH_DISK_TIMEOUT}):
        slowest_s = max(after_s for _, after_s in answers)
        require(
            STUCK_S <= slowest_s <= IN_TIME_S,
            f"none of {len(answers)} sends to a broker whose disk is stuck was answered with SYSTEM_BUSY or "
            f"FLUSH_DISK_TIMEOUT, but with {sorted(codes)}, after up to {slowest_s:.2f} s; "
            f"allowed: {STUCK_S:g} to {IN_TIME_S:g} s",
        )


async def _answers_of_many(
    bench: Bench, topic: str, *, queue: int, pause_s: float = 0.0
) -> list[tuple[int, float]]:
    """Send more messages at once than a broker with a stuck disk has room for; return each code and time in s."""
    loop, ext = asyncio.get_running_loop(), send_fields(topic, queue=queue)

    async def answer_of(wire: Wire) -> tuple[int, float]:
        begin_s = loop.time()
        sent = wire.send(request(RequestCode.SEND_MESSAGE, ext, b"x" * 1000))
        answer = await wire.answer(sent, RequestCode.SEND_MESSAGE, answer_s=60)
        return answer.code, loop.time() - begin_s

    wires = [await bench.broker() for _ in range(8)]
    answers = []
    for _ in range(40):
        answers += [loop.create_task(answer_of(wire)) for wire in wires]
        await asyncio.sleep(pause_s)
    return await asyncio.gather(*answers)


async def _require_refused_not_stored(
    bench: Bench,
    address: str,
    topic: str,
    answers: Sequence[tuple[int, float]],
    *,
    queue: int,
    others: int = 0,
) -> None:
    stored = sum(code != ResponseCode.SYSTEM_BUSY for code, _ in answers) + others
    found = await bench.read_all(address, topic, queue=queue, wanted=stored)
    require_equal("what is stored", len(found), stored)


@case("RMQ-LIM-08")
async def nonsense(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    random = Random(8)
    whole = request(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": 0}).encode()
    addresses = [broker.address, *bench.target.name_servers[:1]]
    for address in addresses:
        for _ in range(40):
            hostile = await bench.connect(address)
            damaged = bytearray(whole)
            for _ in range(random.randrange(1, 6)):
                damaged[random.randrange(len(damaged))] = random.randrange(256)
            hostile.send_bytes(bytes(damaged) if random.random() < 0.7 else random.randbytes(300))
            hostile.send_bytes(random.randbytes(random.randrange(40)))
            await asyncio.sleep(0.001)
            hostile.close()
        await asyncio.sleep(0.1)
    await bench.store(broker, topic, b"still there")
    require(await bench.await_route(topic), "the name server does not answer any more")


@case("RMQ-LIM-09")
async def numbers(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    await bench.store(broker, topic, b"one")
    for field, value in (
        ("queueOffset", -1),
        ("queueOffset", LONG_MAX),
        ("maxMsgNums", INT_MAX),
        ("maxMsgNums", -5),
        ("queueId", INT_MAX),
        ("queueId", -INT_MAX),
        ("suspendTimeoutMillis", -1),
        ("commitOffset", -9),
    ):
        fields = {
            **pull_fields(topic, queue=0, offset=0, group=bench.fresh_name("g")),
            field: value,
        }
        await _is_answered(broker, RequestCode.PULL_MESSAGE, fields, f"{field}={value}")
    for value in (-1, LONG_MAX):
        for code in (RequestCode.VIEW_MESSAGE_BY_ID, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP):
            fields = {"offset": value, "timestamp": value, "topic": topic, "queueId": 0}
            await _is_answered(broker, code, fields, f"{code.name} {value}")
    require_equal(
        "the queue", [m.body for m in (await bench.pull(broker, topic)).messages], [b"one"]
    )


async def _is_answered(
    broker: Wire, code: RequestCode, fields: dict[str, object], what: str
) -> None:
    try:
        await broker.ask(code, fields, answer_s=10)
    except NoAnswer as error:
        require(False, f"{what}: {error}")


@case("RMQ-LIM-10", limit_s=60, is_alone=True)
async def a_peer_that_does_not_read(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    for _ in range(8):
        await bench.store(broker, topic, bytes(200 << 10))
    greedy = await bench.broker()
    greedy.pause()
    fields = pull_fields(topic, queue=0, offset=0, group=bench.fresh_name("g"))
    for _ in range(300):
        greedy.send(request(RequestCode.PULL_MESSAGE, fields))
    await asyncio.sleep(1)
    loop = asyncio.get_running_loop()
    start_s = loop.time()
    await bench.store(broker, topic, b"in the meantime")
    waited_s = loop.time() - start_s
    require(waited_s < 5, f"a send took {waited_s:.1f} s while another client did not read")
