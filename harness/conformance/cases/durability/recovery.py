"""RMQ-RCV: the messages and offsets of a restarted broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from staticfire.harness.conformance.answers import number
from staticfire.harness.conformance.bench import HOLD_S, ROUTE_S, Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.cases.admin import groups_of
from staticfire.harness.conformance.cases.durability.replication_repair import StoredLog
from staticfire.harness.conformance.cases.long_polling import SCAN_S, WAITING, is_answered
from staticfire.harness.conformance.request_fields import pull_fields, send_fields, topic_fields
from staticfire.harness.conformance.wire import NoAnswer, Wire, request
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import parse_offset_message_id

QUEUES = 2
DURABLE_S = 3.0  # until queue entries are on the disk
REPAIR_S = 10.0  # for a replica to repair damage
SLOW = 20.0  # slowdown factor of the disk
LOST = 1  # offset of the message that is damaged on every replica
GIVEN_UP_S = 60.0  # from the start of the last replica
TOGETHER_S = 1.0  # shorter than the 5 s between brokers' scans of waiting pulls


async def replicas(bench: Bench) -> list[str]:
    """Return the addresses of all brokers that hold messages of cases."""
    name = (await bench.master()).name
    return [one.address for one in await bench.brokers() if one.name == name]


async def burst(
    bench: Bench, topic: str, bodies: Sequence[bytes]
) -> list[asyncio.Future[RemotingCommand]]:
    """Send all messages without waiting for answers."""
    broker = await bench.broker()
    return [
        broker.send(request(RequestCode.SEND_MESSAGE, send_fields(topic, queue=0), body))
        for body in bodies
    ]


def acknowledged(
    futures: Sequence[asyncio.Future[RemotingCommand]], bodies: Sequence[bytes]
) -> dict[int, bytes]:
    """Return the bodies of the sends that were answered with 0 so far, by offset."""
    found: dict[int, bytes] = {}
    for future, body in zip(futures, bodies, strict=True):
        if future.done() and not future.exception():
            answer = future.result()
            if answer.code == ResponseCode.SUCCESS:
                found[number(answer.ext_fields, "queueOffset")] = body
    return found


async def require_kept(bench: Bench, topic: str, kept: dict[int, bytes]) -> Wire:
    """Require every acknowledged message at its offset, and that the queue continues after them."""
    master = (await bench.master()).address
    # Without durable metadata the topic may be lost, but its messages must not.
    await bench.make_topic(await bench.until_listening(master), topic, queues=1)
    broker = await bench.until_serving(master, topic)
    bodies = await bench.read_all(master, topic, wanted=max(kept, default=-1) + 1)
    for offset, body in sorted(kept.items()):
        found = bodies[offset] if offset < len(bodies) else None
        require_equal(f"the message at offset {offset}", found, body)
    sent = await _send_until_stored(broker, topic)
    end = number(sent.ext_fields, "queueOffset")
    require(end >= len(bodies), f"the next message got offset {end}, and {len(bodies)} are there")
    return broker


async def _send_until_stored(
    broker: Wire, topic: str, body: bytes = b"afterwards", *, queue: int = 0
) -> RemotingCommand:
    """Send until the message is stored, since a broker that has just started may refuse for a while."""
    for _ in range(150):
        answer = await broker.ask(
            RequestCode.SEND_MESSAGE, send_fields(topic, queue=queue), body, answer_s=30
        )
        if "queueOffset" in answer.ext_fields:
            return answer
        await asyncio.sleep(0.2)
    raise NoAnswer(f"{broker.address} stores nothing: {answer.code} {answer.remark}")


@case("RMQ-RCV-01", limit_s=120)
async def graceful_restart(bench: Bench) -> None:
    topic, master = await bench.topic(), (await bench.master()).address
    broker = await bench.broker()
    for queue in range(4):
        for index in range(queue):
            await bench.store(broker, topic, b"%d" % index, queue=queue)
    node, processes = bench.target.nodes[master], bench.controls().process
    await processes.stop(node)
    await processes.start(node)
    again = await bench.until_serving(master, topic)
    ends = [await bench.end_of(again, topic, queue=queue) for queue in range(4)]
    require_equal("the ends of the queues", ends, [0, 1, 2, 3])
    found = await bench.read_all(master, topic, queue=3, wanted=3)
    require_equal("what is in a queue", found, [b"0", b"1", b"2"])


@case("RMQ-RCV-02", limit_s=120)
async def a_kill(bench: Bench) -> None:
    topic, master = await bench.topic(queues=1), (await bench.master()).address
    bodies = [b"%d" % index for index in range(200)]
    futures = await burst(bench, topic, bodies)
    await asyncio.wait(futures[:20])
    node, processes = bench.target.nodes[master], bench.controls().process
    await processes.kill(node)
    await asyncio.sleep(0.5)
    kept = acknowledged(futures, bodies)
    require(kept, "nothing was acknowledged before the kill")
    await processes.start(node)
    await require_kept(bench, topic, kept)


@case("RMQ-RCV-16", limit_s=120)
async def settings_after_a_kill(bench: Bench) -> None:
    topic, group = await bench.topic(queues=1), bench.fresh_name("g")
    master, broker = (await bench.master()).address, await bench.broker()
    for retries in (5, 7):
        config = {"groupName": group, "retryMaxTimes": retries, "consumeEnable": True}
        body = json.dumps(config).encode()
        await broker.obtain(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
    await broker.obtain(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields(topic, queues=6))
    node, processes = bench.target.nodes[master], bench.controls().process
    await processes.kill(node)
    await processes.start(node)
    again = await bench.until_serving(master, topic)
    kept = (await groups_of(again)).get(group, {})
    require_equal("the retries of the group", kept.get("retryMaxTimes"), 7)
    queues = await bench.await_in_route(topic, "writeQueueNums", 6, within_s=ROUTE_S)
    require_equal("the queues of the topic", queues, 6)


async def _power_rounds(bench: Bench, *, rounds: int, sizes: Sequence[int], again: int = 0) -> Wire:
    """Send bursts and cut the power of all replicas within each; `again` times during recovery, too."""
    topic = await bench.topic(queues=1)
    addresses = await replicas(bench)
    nodes, disk = [bench.target.nodes[address] for address in addresses], bench.controls().disk
    for turn in range(rounds):
        for node in nodes:
            await disk.slow(node, SLOW)
        bodies = [
            b"%d-%d " % (turn, index) + bytes(sizes[index % len(sizes)]) for index in range(40)
        ]
        futures = await burst(bench, topic, bodies)
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        for _ in range(again):
            await disk.power_cut(nodes)
            for node in nodes:
                await disk.power_on(node)
            await asyncio.sleep(0.05)
        await bench.cut_power(*addresses)
        kept = acknowledged(futures, bodies)
        broker = await require_kept(bench, topic, kept)
    found = await bench.read_all(broker.address, topic, wanted=await bench.end_of(broker, topic))
    end = await bench.end_of(broker, topic, least=len(found))
    require_equal("how many messages lie between the ends of the queue", len(found), end)
    return broker


@case("RMQ-RCV-03", limit_s=300)
async def power(bench: Bench) -> None:
    await _power_rounds(bench, rounds=3, sizes=(100,))


@case(
    "RMQ-RCV-04",
    limit_s=120,
    cluster={"flush": "async", "replication": "async", "followers": (0, 0)},
)
async def power_without_flush(bench: Bench) -> None:
    queues = 3
    topic, master = await bench.topic(queues=queues), (await bench.master()).address
    broker = await bench.broker()
    stored: dict[int, bytes] = {}  # by position in the log
    for index in range(300):
        body = b"%d " % index * 20
        answer = await bench.store(broker, topic, body, queue=index % queues)
        stored[parse_offset_message_id(answer["msgId"])[2]] = body
        await asyncio.sleep(0.004)
    await bench.cut_power(master)
    # The topic may be lost with its metadata, but its messages are in the log.
    await bench.make_topic(await bench.until_listening(master), topic, queues=queues)
    kept = {
        body
        for queue in range(queues)
        for body in await bench.read_all(master, topic, queue=queue, wanted=1, within_s=5)
    }
    is_kept = [body in kept for _, body in sorted(stored.items())]
    survivors = sum(is_kept)
    require(
        all(is_kept[:survivors]),
        f"{survivors} of {len(is_kept)} messages are there, and one before the last of them is not",
    )


@case("RMQ-RCV-05", limit_s=300)
async def torn_records(bench: Bench) -> None:
    await _power_rounds(bench, rounds=3, sizes=(10_000, 3))


@case("RMQ-RCV-06", limit_s=300)
async def holes(bench: Bench) -> None:
    await _power_rounds(bench, rounds=4, sizes=(600, 5000, 40, 20_000))


@case("RMQ-RCV-07", limit_s=300)
async def power_during_recovery(bench: Bench) -> None:
    await _power_rounds(bench, rounds=2, sizes=(2000, 50), again=2)


@case("RMQ-RCV-08", limit_s=300)
async def queues_and_log(bench: Bench) -> None:
    broker = await _power_rounds(bench, rounds=2, sizes=(30,))
    require(not await broker.is_closed(wait_s=0), "the broker ended")


@case("RMQ-RCV-12", limit_s=120, spoils=True)  # a disk that failed
async def failed_flush(bench: Bench) -> None:
    topic, master = await bench.topic(queues=1), await bench.master()
    broker, disk = await bench.broker(), bench.controls().disk
    for address in await replicas(bench):
        await disk.fail(bench.target.nodes[address], writes=0, fsyncs=1000)
    try:
        answer = await broker.ask(
            RequestCode.SEND_MESSAGE, send_fields(topic, queue=0), b"lost", answer_s=20
        )
    except NoAnswer:
        return
    finally:
        for address in await replicas(bench):
            await disk.heal(bench.target.nodes[address])
    require(
        answer.code != ResponseCode.SUCCESS, f"{master.name} acknowledged what it could not flush"
    )


@case("RMQ-RCV-14", limit_s=240)
async def a_damaged_record(bench: Bench) -> None:
    topic, master = await bench.topic(queues=QUEUES), (await bench.master()).address
    node, processes = bench.target.nodes[master], bench.controls().process
    sent: list[list[bytes]] = [[] for _ in range(QUEUES)]
    damaged: set[bytes] = set()
    for turn in range(2):
        broker = await bench.until_serving(master, topic)
        positions = []
        for index in range(8):
            # In the second round the damaged message is the last one of its queue, but not of the log.
            queue = index % QUEUES if turn == 0 or index < 4 else 0
            body = b"%d-%d " % (turn, index) + b"x" * 40
            answer = await _send_until_stored(broker, topic, body, queue=queue)
            _, _, position = parse_offset_message_id(answer.ext_fields["msgId"])
            positions.append(position)
            sent[queue].append(body)
        await asyncio.sleep(DURABLE_S)
        await processes.kill(node)
        log = StoredLog(await bench.read_store(master))
        record = log.record(positions[2 + turn])
        at = record.index(b"x" * 40) if turn == 0 else record.index(topic.encode()) - 1
        log.write(positions[2 + turn] + at, bytes((record[at] ^ 4,)))
        await bench.change_store(master, log.files())
        await processes.start(node)
        again = await bench.until_serving(master, topic)
        damaged.add(b"%d-%d " % (turn, 2 + turn) + b"x" * 40)
        for queue, bodies in enumerate(sent):
            end = await bench.end_of(again, topic, queue=queue, least=len(bodies))
            require_equal(f"the end of queue {queue}", end, len(bodies))
            found = await bench.read_all(
                master, topic, queue=queue, wanted=len(bodies), within_s=REPAIR_S
            )
            kept = [body for body in bodies if body not in damaged or body in found]
            require_equal(f"what is in queue {queue}", found, kept)


@case("RMQ-RCV-15", limit_s=240)
async def a_lost_record(bench: Bench) -> None:
    topic, master = await bench.topic(queues=1), (await bench.master()).address
    broker, processes = await bench.broker(), bench.controls().process
    bodies = [b"%d " % index + b"x" * 40 for index in range(4)]
    answers = [await bench.store(broker, topic, body) for body in bodies]
    _, _, position = parse_offset_message_id(answers[LOST]["msgId"])
    await bench.until_slave_knows(await bench.slave_of(await bench.master()), topic)
    await asyncio.sleep(DURABLE_S)
    addresses = await replicas(bench)
    for address in addresses:
        await processes.kill(bench.target.nodes[address])
    for address in addresses:
        log = StoredLog(await bench.read_store(address))
        at = position + log.record(position).index(b"x")
        log.write(at, b"y")
        await bench.change_store(address, log.files())
    await processes.start(bench.target.nodes[master])
    waiter, reader = [await bench.until_serving(master, topic) for _ in range(2)]
    waiting = _wait_behind(bench, waiter, topic)
    # Wait for one answer: the broker has then just scanned all waiting pulls.
    require(await is_answered(waiting, within_s=HOLD_S + SCAN_S), "a pull waits for ever")
    for address in addresses:
        if address != master:
            await processes.start(bench.target.nodes[address])
    loop = asyncio.get_running_loop()
    until_s = loop.time() + GIVEN_UP_S
    while True:
        if waiting.done():
            waiting = _wait_behind(bench, waiter, topic)
        pulled = await bench.pull(reader, topic, offset=LOST)
        if pulled.messages:
            break
        require(loop.time() < until_s, f"nothing behind it is delivered in {GIVEN_UP_S:g} s")
        await asyncio.sleep(0.05)
    found = [message.body for message in pulled.messages]
    require_equal("what is delivered from the damaged message on", found, bodies[LOST + 1 :])
    require(
        await is_answered(waiting, within_s=TOGETHER_S),
        f"a pull that waits there gets nothing for {TOGETHER_S:g} s, and another one gets the messages",
    )
    require_equal("the code of its answer", waiting.result().code, ResponseCode.SUCCESS)


def _wait_behind(bench: Bench, broker: Wire, topic: str) -> asyncio.Future[RemotingCommand]:
    """Send a pull at the damaged message that may wait."""
    fields = pull_fields(
        topic,
        queue=0,
        offset=LOST,
        group=bench.fresh_name("g"),
        sysFlag=WAITING,
        suspendTimeoutMillis=round(HOLD_S * 1000),
        subscription="*",
    )
    return broker.send(request(RequestCode.PULL_MESSAGE, fields))
