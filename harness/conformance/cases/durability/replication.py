"""RMQ-HA: replication between a master and its slaves."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

from staticfire.harness.conformance.answers import json_in
from staticfire.harness.conformance.asking import ask_until
from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.cases.admin import option_of
from staticfire.harness.conformance.cases.durability.store import below_root, log_files
from staticfire.harness.conformance.cases.offsets import commit, committed
from staticfire.harness.conformance.consumers import register_consumer
from staticfire.harness.conformance.failures import TargetUnfit
from staticfire.harness.conformance.inventory import inventory
from staticfire.harness.conformance.raw_stream import HaStream, connect_ha
from staticfire.harness.conformance.request_fields import send_fields
from staticfire.harness.conformance.target_facts import BrokerAddress
from staticfire.harness.conformance.wire import NoAnswer, Wire, request
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.message import MAGIC_MESSAGE

HEARTBEAT_S, SILENCE_S = 5.0, 20.0
KEPT_S = 10.0  # two periods of persisting
WATCH_S, CALM_S = 2.0, 0.5  # together shorter than slaveTimeout (3 s)
# measurements, of which the least counts: a JVM may compile or collect garbage at any time
WATCHED = 3
WORK_SHARE = 0.05  # share of a processor that a wait may use
DELAY_LEVEL, DUE_S = 1, 6.0  # of 1 s
DELAY_OFFSETS = "config/delayOffset.json"
REFUSED_S = 10.0  # after which a peer that does not speak TLS has been refused
GOES_S = 1.0  # for the answer after the slave has gone; shorter than slaveTimeout
SLOW = 500.0  # slowdown factor of the disk
UNFLUSHED, UNFLUSHED_S = 20, 4.0  # 20 flushes take longer
SYNC_S = 10.0
SLAVE_TIMEOUT_S = 0.5
LATE_S = 2.0  # RocketMQ checks once a second
FAKE_ID = 77
WEAK = (ResponseCode.SLAVE_NOT_AVAILABLE, ResponseCode.FLUSH_SLAVE_TIMEOUT)
LARGE = 3 << 20
BEHIND_MAX = 1 << 20
PIECE = 1 << 16


async def ha_address(bench: Bench, master: BrokerAddress) -> str:
    """Return the address that slaves connect to; a name server returns it to a slave that registers."""
    name_server = await bench.name_server()
    identity: dict[str, object] = {
        "brokerName": master.name,
        "brokerAddr": bench.fresh_address(),
        "clusterName": master.cluster,
        "brokerId": FAKE_ID,
    }
    wrapper = {"dataVersion": {"timestamp": 1, "counter": 1}, "topicConfigTable": {}}
    body = json.dumps({"filterServerList": [], "topicConfigSerializeWrapper": wrapper}).encode()
    fields = {
        **identity,
        "haServerAddr": identity["brokerAddr"],
        "compressed": False,
        "bodyCrc32": 0,
    }
    answer = await name_server.ask(RequestCode.REGISTER_BROKER, fields, body)
    await name_server.obtain(RequestCode.UNREGISTER_BROKER, identity)
    found = answer.ext_fields.get("haServerAddr")
    if not found:
        raise TargetUnfit(
            f"a slave of {master.name} does not learn where to connect: {answer.ext_fields}"
        )
    return found


async def follow(bench: Bench) -> HaStream:
    """Connect a fake slave to the master that cases use."""
    return await connect_ha(await ha_address(bench, await bench.master()), bench.log)


@case("RMQ-HA-01", is_alone=True)
async def the_stream(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=1), await bench.broker()
    await bench.store(broker, topic, b"replicated")
    record = (await bench.pull(broker, topic)).messages[0]
    stream = await follow(bench)
    try:
        stream.report(record.physical_offset)
        frame = await stream.next_frame(wait_s=10)
        while not frame.data:
            frame = await stream.next_frame(wait_s=10)
    finally:
        stream.close()
    require_equal("the position of the first piece", frame.position, record.physical_offset)
    magic = int.from_bytes(frame.data[4:8], "big", signed=True)
    require_equal("the magic of the record there", magic, MAGIC_MESSAGE)
    require(b"replicated" in frame.data, "the message is not in the piece of the log")


async def log_of(bench: Bench, broker: BrokerAddress) -> bytes:
    """Return the commit log of a broker from its first file to its last nonzero byte."""
    files = log_files(below_root(await bench.read_store(broker.address)))
    return b"".join(files[start] for start in sorted(files)).rstrip(b"\0")


def first_difference(ours: bytes, theirs: bytes) -> int | None:
    """Return the first position at which two logs differ within their common range; None if they do not.

    Logs have tens of MiB; a comparison byte by byte would delay the cases that run concurrently.
    """
    end = min(len(ours), len(theirs))
    for start in range(0, end, PIECE):
        a, b = (log[start : min(start + PIECE, end)] for log in (ours, theirs))
        if a != b:
            return start + next(at for at, (x, y) in enumerate(zip(a, b, strict=True)) if x != y)
    return None


@case("RMQ-HA-02", limit_s=60)
async def a_prefix(bench: Bench) -> None:
    topic, master = await bench.topic(queues=1), await bench.master()
    broker, slave = await bench.broker(), await bench.slave_of(master)
    bodies = [b"replicated %d " % index * 100 for index in range(20)]
    for body in bodies:
        await bench.store(broker, topic, body)
    loop = asyncio.get_running_loop()
    until_s = loop.time() + SILENCE_S
    while bodies[-1] not in (theirs := await log_of(bench, slave)):
        require(loop.time() < until_s, f"the slave has not everything after {SILENCE_S:g} s")
        await asyncio.sleep(0.5)
    ours = await log_of(bench, master)  # read later, so it may be longer
    same = first_difference(ours, theirs)
    require(same is None, f"the logs of master and slave differ from byte {same} on")
    require(len(theirs) <= len(ours), "the log of the slave is longer than its master's")
    role = await option_of(await bench.connect(slave.address), "brokerRole")
    require_equal("brokerRole among the options of the slave", role, "SLAVE")


@case("RMQ-HA-05", limit_s=120)
async def a_slave_far_behind(bench: Bench) -> None:
    topic, master = await bench.topic(queues=1), await bench.master()
    slave, broker = await bench.slave_of(master), await bench.broker()
    await bench.store(broker, topic, b"first")
    first = (await bench.pull(broker, topic)).messages[0]
    await bench.controls().process.kill(bench.target.nodes[slave.address])
    await asyncio.sleep(1)
    lazy = await follow(bench)  # reports its offset once, and then nothing
    codes: list[int] = []
    await bench.configure(broker, haSlaveFallbehindMax=BEHIND_MAX)
    try:
        lazy.report(first.physical_offset + first.size_bytes)
        await asyncio.sleep(1)
        for size in (100, BEHIND_MAX, BEHIND_MAX):
            fields = send_fields(topic, queue=0)
            answer = await broker.ask(RequestCode.SEND_MESSAGE, fields, bytes(size), answer_s=30)
            codes.append(answer.code)
    finally:
        lazy.close()
        await bench.configure(broker, haSlaveFallbehindMax=256 << 20)
    near, *_, far = codes
    require_equal("the code with a slave that says nothing", near, ResponseCode.FLUSH_SLAVE_TIMEOUT)
    require_equal("the code with a slave too far behind", far, ResponseCode.SLAVE_NOT_AVAILABLE)


@case("RMQ-HA-03", limit_s=60, is_alone=True)
async def heartbeats(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=1), await bench.broker()
    await bench.store(broker, topic)
    record = (await bench.pull(broker, topic)).messages[0]
    stream = await follow(bench)
    stream.report(record.physical_offset + record.size_bytes)
    loop = asyncio.get_running_loop()
    start_s, beats = loop.time(), 0
    while loop.time() < start_s + 2 * HEARTBEAT_S:
        # Masters check every 5 s whether they have sent nothing since the last check.
        beats += not (await stream.next_frame(wait_s=2 * HEARTBEAT_S + 1)).data
    require(beats >= 2, f"{beats} heartbeats in {2 * HEARTBEAT_S:g} s and a bit")
    require(await stream.is_closed(wait_s=SILENCE_S), "a slave that says nothing is kept for ever")


@case("RMQ-HA-04", limit_s=120)
async def no_slave(bench: Bench) -> None:
    topic, master = await bench.topic(queues=1), await bench.master()
    slave, broker = await bench.slave_of(master), await bench.broker()
    node, processes = bench.target.nodes[slave.address], bench.controls().process
    await processes.stop(node)
    await asyncio.sleep(2)
    alone = await broker.ask(RequestCode.SEND_MESSAGE, send_fields(topic, queue=0), answer_s=30)
    require(alone.code in WEAK, f"the code without a slave is {alone.code}; expected 11")
    await processes.start(node)
    for _ in range(150):
        answer = await broker.ask(
            RequestCode.SEND_MESSAGE, send_fields(topic, queue=0), answer_s=30
        )
        if answer.code == ResponseCode.SUCCESS:
            return
        await asyncio.sleep(0.2)
    require(False, f"the code is still {answer.code} 30 s after the slave was started")


@case("RMQ-HA-06", limit_s=120)
async def reading_from_the_slave(bench: Bench) -> None:
    topic, master = await bench.topic(queues=1), await bench.master()
    broker, slave = await bench.broker(), await bench.slave_of(master)
    for index in range(5):
        await bench.store(broker, topic, b"%d" % index)
    group, processes = bench.fresh_name("g"), bench.controls().process
    await commit(broker, topic, group, 3)
    await bench.until_slave_knows(slave, topic)
    follower = await bench.connect(slave.address)
    await ask_until(
        lambda: committed(follower, topic, group),
        lambda offset: offset == 3,
        within_s=2 * SYNC_S + 5,
    )
    await asyncio.sleep(KEPT_S)
    await processes.kill(bench.target.nodes[master.address])
    await processes.kill(bench.target.nodes[slave.address])
    await processes.start(bench.target.nodes[slave.address])
    found = await bench.read_all(slave.address, topic, wanted=5)
    require_equal("what the slave has", found, [b"%d" % index for index in range(5)])
    again = await bench.until_serving(slave.address, topic)
    require_equal("the offset of a group", await committed(again, topic, group), 3)
    ahead = await bench.pull(await bench.connect(slave.address), topic, offset=9)
    require_equal("the next offset beyond the slave's end", ahead.next_offset, 9)
    require(
        ahead.code != ResponseCode.PULL_OFFSET_MOVED,
        "a slave moved a consumer's offset back to its end",
    )


@case("RMQ-HA-07", limit_s=60)
async def metadata(bench: Bench) -> None:
    topic, group = await bench.topic(), bench.fresh_name("g")
    broker, slave = await bench.broker(), await bench.slave_of(await bench.master())
    await register_consumer(bench, broker.address, group, topic)
    await bench.store(broker, topic)
    await commit(broker, topic, group, 1)
    follower = await bench.connect(slave.address)
    loop = asyncio.get_running_loop()
    until_s = loop.time() + 2 * SYNC_S + 5
    while loop.time() < until_s:
        unknown = await _unknown_metadata(follower, topic, group)
        if not unknown:
            return
        await asyncio.sleep(0.5)
    require(False, f"the slave does not know {unknown} after {2 * SYNC_S + 5:g} s")


async def _unknown_metadata(follower: Wire, topic: str, group: str) -> str:
    """Describe the metadata that a slave still lacks; empty if it has all."""
    known = await inventory(follower)
    if topic not in known.topics:
        return "the topic"
    if group not in known.groups:
        return "the group"
    return "" if await committed(follower, topic, group) == 1 else "the group's offset"


@case("RMQ-HA-18", limit_s=90)
async def progress_of_delayed_messages(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=1), await bench.broker()
    slave = await bench.slave_of(await bench.master())
    await bench.store(broker, topic, properties={"DELAY": str(DELAY_LEVEL)})
    pulled = await ask_until(
        lambda: bench.pull(broker, topic), lambda pulled: pulled.messages, within_s=DUE_S
    )
    require(pulled.messages, f"a message of level {DELAY_LEVEL} is not there after {DUE_S:g} s")
    wanted = _progress((await broker.obtain(RequestCode.GET_ALL_DELAY_OFFSET)).body)
    require(wanted > 0, f"the master's progress of level {DELAY_LEVEL} is {wanted}")

    async def copied() -> int:
        files = below_root(await bench.read_store(slave.address))
        return _progress(files.get(DELAY_OFFSETS, b"{}"))

    within_s = 2 * SYNC_S + 5
    found = await ask_until(copied, lambda found: found >= wanted, within_s=within_s)
    require(found >= wanted, f"the slave has progress {found} after {within_s:g} s, not {wanted}")


def _progress(document: bytes) -> int:
    """Return the next offset to deliver of the level, as delayOffset.json and code 45 have it; 0 for none."""
    found = json_in(document)
    table = found.get("offsetTable") if isinstance(found, dict) else None
    return int(table.get(str(DELAY_LEVEL), 0)) if isinstance(table, dict) else 0


@case(
    "RMQ-HA-08", limit_s=90, spoils=True
)  # a master may believe the report for as long as it lives
async def reports_above_the_end(bench: Bench) -> None:
    topic, master = await bench.topic(queues=1), await bench.master()
    slave, broker = await bench.slave_of(master), await bench.broker()
    await bench.controls().process.kill(bench.target.nodes[slave.address])
    await asyncio.sleep(1)
    liar = await follow(bench)
    try:
        liar.report(1 << 40)
        await asyncio.sleep(1)
        answer = await broker.ask(
            RequestCode.SEND_MESSAGE, send_fields(topic, queue=0), answer_s=30
        )
    finally:
        liar.close()
    require(
        answer.code != ResponseCode.SUCCESS,
        "a message that no slave has was acknowledged after a report of more than the master has",
    )


@case("RMQ-HA-09", limit_s=120)
async def going_on(bench: Bench) -> None:
    topic, master = await bench.topic(queues=1), await bench.master()
    slave, broker = await bench.slave_of(master), await bench.broker()
    node, processes = bench.target.nodes[slave.address], bench.controls().process
    bodies = [b"%d" % index for index in range(12)]
    for body in bodies[:4]:
        await bench.store(broker, topic, body)
    await bench.until_slave_knows(slave, topic)
    await processes.kill(node)
    for body in bodies[4:8]:
        await broker.ask(RequestCode.SEND_MESSAGE, send_fields(topic, queue=0), body, answer_s=30)
    await processes.start(node)
    for body in bodies[8:]:
        await broker.ask(RequestCode.SEND_MESSAGE, send_fields(topic, queue=0), body, answer_s=30)
    found = await bench.read_all(slave.address, topic, wanted=len(bodies), within_s=40)
    require_equal("what the slave has", found, bodies)


@case("RMQ-HA-10", limit_s=180, spoils=True)  # a Java slave then has one file of the log
async def an_empty_slave(bench: Bench) -> None:
    topic, master = await bench.topic(queues=1), await bench.master()
    slave, broker = await bench.slave_of(master), await bench.broker()
    node, processes = bench.target.nodes[slave.address], bench.controls().process
    sizes = [LARGE] * 7  # more than one file of the log
    for index, size in enumerate(sizes):
        await bench.store(broker, topic, bytes((index,)) * size)
    await processes.kill(node)
    await bench.controls().disk.wipe(node)
    await processes.start(node)
    found = await bench.read_all(slave.address, topic, wanted=len(sizes), within_s=90)
    first = [body[:1] for body in found]
    require_equal("what the slave has", first, [bytes((index,)) for index in range(len(sizes))])


@case("RMQ-HA-11", limit_s=120)
async def time_for_a_slave(bench: Bench) -> None:
    topic, master = await bench.topic(queues=1), await bench.master()
    slave, broker = await bench.slave_of(master), await bench.broker()
    node, processes = bench.target.nodes[slave.address], bench.controls().process
    await bench.until_slave_knows(slave, topic)
    before_ms = await option_of(broker, "slaveTimeout")
    require(before_ms, "the broker has no slaveTimeout")
    await bench.configure(broker, slaveTimeout=round(SLAVE_TIMEOUT_S * 1000))
    try:
        await processes.pause(node)
        code, waited_s = await _timed_send(broker, topic)
    finally:
        await processes.resume(node)
        await bench.configure(broker, slaveTimeout=before_ms)
    expected = ResponseCode.FLUSH_SLAVE_TIMEOUT
    require_equal("the code while the slave stands still", code, expected)
    require(
        SLAVE_TIMEOUT_S <= waited_s <= SLAVE_TIMEOUT_S + LATE_S,
        f"a send was answered after {waited_s:.1f} s with a slaveTimeout of {SLAVE_TIMEOUT_S:g} s",
    )


async def _timed_send(broker: Wire, topic: str) -> tuple[int, float]:
    """Send one message; return the code of the answer and the time until then."""
    loop = asyncio.get_running_loop()
    begin_s = loop.time()
    answer = await broker.ask(
        RequestCode.SEND_MESSAGE, send_fields(topic, queue=0), b"late", answer_s=30
    )
    return answer.code, loop.time() - begin_s


@case("RMQ-HA-14", limit_s=120)
async def a_slave_that_goes(bench: Bench) -> None:
    topic, master = await bench.topic(queues=1), await bench.master()
    broker, slave = await bench.broker(), await bench.slave_of(master)
    node, processes = bench.target.nodes[slave.address], bench.controls().process
    await bench.store(broker, topic, b"before")
    await processes.pause(node)
    sent = broker.send(request(RequestCode.SEND_MESSAGE, send_fields(topic, queue=0), b"waits"))
    await asyncio.sleep(GOES_S)
    require(not sent.done(), "a send was answered while the slave stood still")
    await processes.kill(node)
    loop = asyncio.get_running_loop()
    begin_s = loop.time()
    answer = await broker.answer(sent, RequestCode.SEND_MESSAGE)
    took_s = loop.time() - begin_s
    require_equal("the code", answer.code, ResponseCode.SLAVE_NOT_AVAILABLE)
    require(took_s < GOES_S, f"the answer came {took_s:.1f} s after the slave went")
    await processes.start(node)


@case("RMQ-HA-17", limit_s=120)
async def waiting_is_no_work(bench: Bench) -> None:
    topic, master = await bench.topic(queues=1), await bench.master()
    broker, slave = await bench.broker(), await bench.slave_of(master)
    node, processes = bench.target.nodes[slave.address], bench.controls().process
    idle_s, waiting_s = [], []
    for _ in range(WATCHED):
        await bench.store(broker, topic)
        await asyncio.sleep(CALM_S)
        idle_s.append(await _worked(bench, master.address))
        await processes.pause(node)
        try:
            fields = send_fields(topic, queue=0)
            sent = broker.send(request(RequestCode.SEND_MESSAGE, fields, b"waits"))
            await asyncio.sleep(CALM_S)
            waiting_s.append(await _worked(bench, master.address))
            require(not sent.done(), "a send was answered while the slave stood still")
        finally:
            await processes.resume(node)
        await broker.answer(sent, RequestCode.SEND_MESSAGE)
    allowed_s = 2 * min(idle_s) + WORK_SHARE * WATCH_S
    require(
        min(waiting_s) <= allowed_s,
        f"while a send waited for a slave for {WATCH_S:g} s the master worked for {min(waiting_s):.3f} s or more, "
        f"and for {min(idle_s):.3f} s without one; allowed: up to {allowed_s:.3f} s",
    )


async def _worked(bench: Bench, address: str) -> float:
    """Return the CPU time of a node during WATCH_S, in seconds."""
    before_s = await bench.cpu_s(address)
    await asyncio.sleep(WATCH_S)
    return await bench.cpu_s(address) - before_s


@case("RMQ-HA-16", limit_s=60, cluster={"replica_tls": True})
async def replication_over_tls(bench: Bench) -> None:
    topic, master = await bench.topic(queues=1), await bench.master()
    slave, plain = await bench.slave_of(master), await follow(bench)
    plain.report(0)
    try:
        require(await plain.is_closed(wait_s=REFUSED_S), "a peer without TLS stays connected")
        with suppress(NoAnswer):
            frame = await plain.next_frame(wait_s=0)
            require(False, f"a peer without TLS gets {len(frame.data)} bytes of the log")
    finally:
        plain.close()
    await bench.store(await bench.broker(), topic, b"replicated")
    await bench.until_slave_knows(slave, topic)
    found = await bench.read_all(slave.address, topic, wanted=1)
    require_equal("what the slave has", found, [b"replicated"])


@case("RMQ-HA-15", limit_s=60, cluster={"flush": "async"})
async def replication_without_flush(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=1), await bench.broker()
    await bench.store(broker, topic)
    await bench.controls().disk.slow(bench.target.nodes[broker.address], SLOW)
    loop = asyncio.get_running_loop()
    begin_s = loop.time()
    for _ in range(UNFLUSHED):
        await bench.store(broker, topic)
    took_s = loop.time() - begin_s
    require(took_s < UNFLUSHED_S, f"{UNFLUSHED} sends one after the other took {took_s:.1f} s")
