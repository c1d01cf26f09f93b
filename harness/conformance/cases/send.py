"""RMQ-SND: sends and their answers."""

from __future__ import annotations

import asyncio
import struct
import zlib
from ipaddress import ip_address

from staticfire.harness.conformance.answers import number
from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.request_fields import property_text, send_fields, short_fields
from staticfire.harness.conformance.wire import request
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import parse_offset_message_id

COMPRESSED = 1
BODY_MAX = 4 << 20
SLOW = 50.0  # slowdown factor of the disk
ONE_WAY_S = 15.0
MANY = 3_000  # messages of a batch: more than brokers store without a pause
BESIDE = 5  # connections
WEAK = (ResponseCode.SLAVE_NOT_AVAILABLE, ResponseCode.FLUSH_SLAVE_TIMEOUT)
PROPERTIES = {
    "TAGS": "TagA",
    "KEYS": "key-1 key-2",
    "UNIQ_KEY": "7F00000100002A139A55000000000001",
    "__SHARDINGKEY": "customer 7",
    "größe": "Ω ≠ ∞",
    "empty-looking": " ",
}


@case("RMQ-SND-01")
async def two_codes(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    long = send_fields(topic, queue=1, properties={"TAGS": "a"})
    first = await broker.ask(RequestCode.SEND_MESSAGE, long, b"body")
    second = await broker.ask(RequestCode.SEND_MESSAGE_V2, short_fields(long), b"body")
    require_equal("the codes", (first.code, second.code), (0, 0))
    require_equal(
        "the fields of the answer to 310", sorted(second.ext_fields), sorted(first.ext_fields)
    )
    found = [
        (m.body, m.flag, m.sys_flag, m.properties.get("TAGS"), m.queue_id)
        for m in (await bench.pull(broker, topic, queue=1, least=2)).messages
    ]
    require_equal("the number of messages", len(found), 2)
    require_equal("what 310 stored", found[1], found[0])


@case("RMQ-SND-02")
async def answer(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    for offset in range(5):
        fields = await bench.store(broker, topic, b"%d" % offset, queue=3)
        require_equal("the queue id", fields.get("queueId"), "3")
        require_equal("the queue offset", fields.get("queueOffset"), str(offset))
        identity = fields.get("msgId", "")
        require_equal("the length of the id", len(identity), 32)
        _, _, physical = parse_offset_message_id(identity)
        pulled = await bench.pull(broker, topic, queue=3, offset=offset)
        require_equal(
            "the commit log offset in the id", physical, pulled.messages[0].physical_offset
        )


@case("RMQ-SND-03")
async def fidelity(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    body = bytes(range(256)) * 5
    await bench.store(
        broker,
        topic,
        body,
        properties={**PROPERTIES, "WAIT": "true"},
        flag=77,
        bornTimestamp=1_600_000_123_456,
    )
    message = (await bench.pull(broker, topic)).messages[0]
    require_equal("the body", message.body, body)
    require_equal("the flag", message.flag, 77)
    require_equal("the born time", message.born_timestamp_ms, 1_600_000_123_456)
    kept = {name: message.properties.get(name) for name in PROPERTIES}
    require_equal("the properties", kept, PROPERTIES)
    require("WAIT" not in message.properties, "the property WAIT is kept")
    require_equal("the topic", message.topic, topic)
    require_equal("the checksum", message.body_crc, zlib.crc32(body) & 0x7FFFFFFF)
    require_equal("the born host", message.born_host, broker.local_address)


@case("RMQ-SND-04")
async def compressed(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    body = zlib.compress(b"the same again and again " * 400)
    await bench.store(broker, topic, body, sysFlag=COMPRESSED)
    message = (await bench.pull(broker, topic)).messages[0]
    require_equal("the body", message.body, body)
    require(message.sys_flag & COMPRESSED, f"the system flag is {message.sys_flag}: not compressed")


def batch_record(body: bytes, properties: dict[str, str]) -> bytes:
    """Return one encoded message of a batch (RocketMQ: MessageDecoder.encodeMessage)."""
    text = property_text(properties).encode()
    size = 4 + 4 + 4 + 4 + 4 + len(body) + 2 + len(text)
    return (
        struct.pack(">iiiii", size, 0, 0, 0, len(body)) + body + struct.pack(">h", len(text)) + text
    )


def _host_in_hex(host: tuple[str, int]) -> str:
    """Return a host and its port as the first half of a message id has them."""
    address, port = host
    return (ip_address(address).packed + port.to_bytes(4, "big")).hex().upper()


@case("RMQ-SND-05")
async def batches(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    await bench.store(broker, topic, b"before")
    fields = short_fields({**send_fields(topic, queue=0), "batch": True})
    bodies = [b"one", b"two", b"three"]
    records = b"".join(
        batch_record(body, {"UNIQ_KEY": f"{index:032X}"}) for index, body in enumerate(bodies)
    )
    stored = await broker.ask(RequestCode.SEND_BATCH_MESSAGE, fields, records)
    require_equal("the code for a batch", stored.code, 0)
    require_equal("the first offset", stored.ext_fields.get("queueOffset"), "1")
    ids = stored.ext_fields.get("msgId", "").split(",")
    require_equal("the number of ids", len(ids), 3)
    pulled = await bench.pull(broker, topic, least=4)
    require_equal("the bodies", [m.body for m in pulled.messages], [b"before", *bodies])
    offsets = [f"{m.physical_offset:016X}" for m in pulled.messages[1:]]
    require_equal("the places in the ids", [one[-16:] for one in ids], offsets)
    require_equal("the offsets", [m.queue_offset for m in pulled.messages], [0, 1, 2, 3])
    alone, *together = [m.store_host for m in pulled.messages]
    require_equal("the store hosts", together, [alone] * 3)
    require_equal("the hosts in the ids", [one[:-16] for one in ids], [_host_in_hex(alone)] * 3)
    large = batch_record(b"small", {}) + batch_record(bytes(BODY_MAX), {})
    refused = await broker.ask(RequestCode.SEND_BATCH_MESSAGE, fields, large)
    require_equal(
        "the code for a batch above the limit", refused.code, ResponseCode.MESSAGE_ILLEGAL
    )
    cut = batch_record(b"whole", {}) + batch_record(b"cut", {"name": "value"})[:-3]
    refused = await broker.ask(RequestCode.SEND_BATCH_MESSAGE, fields, cut)
    require(refused.code != 0, "a batch whose last message is cut was answered with 0")
    end = await broker.obtain(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": 0})
    require_equal("the end of the queue after them", end.ext_fields.get("offset"), "4")
    await _batch_of_many(bench)


async def _batch_of_many(bench: Bench) -> None:
    """Require that a batch of thousands stays together, and delays no sends to its queue and to another one."""
    topic, broker = await bench.topic(), await bench.broker()
    others = [await bench.broker() for _ in range(BESIDE)]
    bodies = [b"%d" % index for index in range(MANY)]
    fields = short_fields({**send_fields(topic, queue=0), "batch": True})
    records = b"".join(batch_record(body, {}) for body in bodies)
    batch = broker.ask(RequestCode.SEND_BATCH_MESSAGE, fields, records)
    sends = [
        other.ask(RequestCode.SEND_MESSAGE, send_fields(topic, queue=queue), b"beside")
        for queue in (0, 1)
        for _ in range(2)
        for other in others
    ]
    first, *beside = await asyncio.gather(batch, *sends)
    require_equal("the code for a batch of thousands", first.code, 0)
    for answer in beside:
        require_equal(f"the code for a send beside it ({answer.remark})", answer.code, 0)
    end = MANY + 2 * BESIDE
    await bench.end_of(broker, topic, least=end)
    found = await bench.read_all(broker.address, topic, wanted=end)
    start = number(first.ext_fields, "queueOffset")
    require(found[start : start + MANY] == bodies, "the messages of a batch are not neighbours")
    rest = found[:start] + found[start + MANY :]
    require_equal("what else is in the queue", rest, [b"beside"] * 2 * BESIDE)
    found = await bench.read_all(broker.address, topic, queue=1, wanted=2 * BESIDE)
    require_equal("what is in the other queue", found, [b"beside"] * 2 * BESIDE)


@case("RMQ-SND-06")
async def automatic_topics(bench: Bench) -> None:
    topic, broker = bench.fresh_name(), await bench.broker()
    made = await bench.send(broker, topic, defaultTopicQueueNums=3)
    require_equal("the code for the first message of a topic", made.code, 0)
    bench.remove_later(topic, broker.address)
    route = await bench.await_route(topic)
    require(route is not None, "a topic that a send made has no route")
    assert route is not None
    data = route["queueDatas"][0]
    require_equal("the number of queues", data["writeQueueNums"], 3)
    require_equal("the permission", data["perm"], 6)
    many = bench.fresh_name()
    bench.remove_later(many, broker.address)
    await bench.send(broker, many, defaultTopicQueueNums=500)
    route = await bench.await_route(many)
    assert route is not None
    require_equal(
        "the number of queues where 500 were wanted", route["queueDatas"][0]["writeQueueNums"], 8
    )
    unknown = await bench.send(broker, bench.fresh_name(), defaultTopic=bench.fresh_name("no"))
    require_equal(
        "the code where the default topic is unknown", unknown.code, ResponseCode.TOPIC_NOT_EXIST
    )


@case("RMQ-SND-07", is_alone=True)
async def no_write_permission(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    await bench.await_route(topic)
    try:
        answer = await broker.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"brokerPermission=4\n")
        require_equal("the code for the option", answer.code, 0)
        found = await bench.await_in_route(topic, "perm", 4, within_s=10)
        require_equal("the permission of the topic", found, 4)
    finally:
        await broker.obtain(RequestCode.UPDATE_BROKER_CONFIG, body=b"brokerPermission=6\n")
    found = await bench.await_in_route(topic, "perm", 6, within_s=10)
    require_equal("the permission afterwards", found, 6)
    require_equal("the code for a send", (await bench.send(broker, topic)).code, 0)


@case("RMQ-SND-08")
async def queue_out_of_range(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=2), await bench.broker()
    refused = await bench.send(broker, topic, queue=2)
    require_equal("the code for a queue that is not there", refused.code, ResponseCode.SYSTEM_ERROR)
    for queue in range(2):
        end = await broker.obtain(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": queue})
        require_equal(f"the end of queue {queue}", end.ext_fields.get("offset"), "0")
    any_queue = await bench.store(broker, topic, queue=-1)
    require(number(any_queue, "queueId") in (0, 1), f"queue id -1 went to {any_queue['queueId']}")


@case("RMQ-SND-09", limit_s=120)
async def synchronous_flush(bench: Bench) -> None:
    topic, master = await bench.topic(queues=1), await bench.master()
    replicas = [one.address for one in await bench.brokers() if one.name == master.name]
    for address in replicas:  # so slow that an early answer comes before the flush
        await bench.controls().disk.slow(bench.target.nodes[address], SLOW)
    broker = await bench.connect(master.address)
    bodies = [b"%d" % index for index in range(20)]
    acknowledged = [
        body
        for body in bodies
        if (await bench.send(broker, topic, body)).code == ResponseCode.SUCCESS
    ]
    await bench.cut_power(*replicas)
    require(acknowledged, "nothing was acknowledged")
    # Without durable metadata the topic may be lost, but its messages must not.
    await bench.make_topic(await bench.until_listening(master.address), topic, queues=1)
    found = await bench.read_all(master.address, topic, wanted=len(acknowledged))
    require_equal("what is left after the power failure", found[: len(acknowledged)], acknowledged)


@case("RMQ-SND-10", limit_s=120)
async def synchronous_replication(bench: Bench) -> None:
    topic, master = await bench.topic(queues=1), await bench.master()
    slave, processes = await bench.slave_of(master), bench.controls().process
    broker = await bench.connect(master.address)
    await bench.until_slave_knows(slave, topic)
    bodies = [b"%d" % index for index in range(20)]
    acknowledged = [
        body
        for body in bodies
        if (await bench.send(broker, topic, body)).code == ResponseCode.SUCCESS
    ]
    require(acknowledged, "nothing was acknowledged")
    await processes.pause(bench.target.nodes[slave.address])
    unsafe = await broker.ask(
        RequestCode.SEND_MESSAGE, send_fields(topic, queue=0), b"unsafe", answer_s=30
    )
    require(unsafe.code != ResponseCode.SUCCESS, "acknowledged while the slave stood still")
    await processes.kill(bench.target.nodes[master.address])
    await processes.resume(bench.target.nodes[slave.address])
    found = await bench.read_all(slave.address, topic, wanted=len(acknowledged))
    require_equal("what the slave has", found[: len(acknowledged)], acknowledged)


@case("RMQ-SND-11", limit_s=120)
async def weaker_statuses(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=1), await bench.broker()
    slave = await bench.slave_of(await bench.master())
    await bench.controls().process.kill(bench.target.nodes[slave.address])
    sent = await broker.ask(
        RequestCode.SEND_MESSAGE, send_fields(topic, queue=0), b"alone", answer_s=30
    )
    require(
        sent.code in WEAK, f"the code without a slave is {sent.code}; expected 11, or 12 at first"
    )
    require_equal("the offset in the answer", sent.ext_fields.get("queueOffset"), "0")
    await bench.controls().process.start(bench.target.nodes[slave.address])
    found = await bench.read_all((await bench.master()).address, topic, wanted=1)
    require_equal("what is stored", found, [b"alone"])


@case("RMQ-SND-12")
async def one_way_sends(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    bodies = [b"%d" % index for index in range(30)]

    def send(body: bytes) -> asyncio.Future[RemotingCommand]:
        fields = send_fields(topic, queue=0)
        return broker.send(request(RequestCode.SEND_MESSAGE, fields, body, oneway=True))

    futures = {body: send(body) for body in bodies}
    loop = asyncio.get_running_loop()
    until_s = loop.time() + ONE_WAY_S
    while True:
        asked_s = loop.time()
        found = await bench.read_all(broker.address, topic, wanted=len(bodies), within_s=1)
        codes = {body: future.result().code for body, future in futures.items() if future.done()}
        answered = sorted(body for body, code in codes.items() if code != ResponseCode.SYSTEM_BUSY)
        require_equal("what was answered, and not because the broker is busy", answered, [])
        if len(found) >= len(bodies) or asked_s > until_s:
            break
        futures.update({body: send(body) for body in codes})  # refused, so not stored
    require_equal("what was stored, in any order", sorted(found), sorted(bodies))
