"""RMQ-HA: replicas whose logs differ, and masters that have lost theirs."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from zlib import crc32

from staticfire.faults.errors import CapabilityMissing
from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.cases.durability.replication import (
    first_difference,
    ha_address,
    log_of,
)
from staticfire.harness.conformance.cases.durability.store import Files, log_files, root_of
from staticfire.harness.conformance.cases.offsets import commit, committed
from staticfire.harness.conformance.failures import NotTriable
from staticfire.harness.conformance.inventory import inventory
from staticfire.harness.conformance.raw_stream import connect_ha
from staticfire.harness.conformance.target_facts import BrokerAddress
from staticfire.harness.conformance.wire import CannotConnect
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.message import parse_offset_message_id

BODY_SIZE = 2_000
RECORDS = 40  # 80 KiB: more than a slave may compare at first
OTHER = 25  # the last ones of these differ on the slave
SAME_S = 60.0
CHECKSUM_AT, QUEUE_OFFSET_AT, POSITION_AT = 8, 20, 28  # in a record
CHECKSUM_MASK = 0x7FFFFFFF
LARGE = 1 << 20
LARGE_BODIES = 8
FETCH_BITS_PER_S = 8_000_000  # the master needs 8 s to fetch everything
FETCH_S = 120.0
PART, PART_S = 2 * LARGE, 40.0  # it fetches this in 2 s
ASK_S = 0.05
YOUNG_QUEUES = 4


class StoredLog:
    """The commit log of a stopped node, which a case changes record by record."""

    def __init__(self, found: Files) -> None:
        self._folder = f"{root_of(found)}commitlog/"
        below = {path.removeprefix(root_of(found)): data for path, data in found.items()}
        self._files = {start: bytearray(data) for start, data in log_files(below).items()}

    def read(self, position: int, size: int) -> bytes:
        start = max(start for start in self._files if start <= position)
        return bytes(self._files[start][position - start : position - start + size])

    def write(self, position: int, data: bytes) -> None:
        start = max(start for start in self._files if start <= position)
        self._files[start][position - start : position - start + len(data)] = data

    def record(self, position: int) -> bytes:
        """Return the record at a position."""
        return self.read(position, int.from_bytes(self.read(position, 4), "big"))

    def files(self) -> dict[str, bytes]:
        """Return the files to write."""
        return {f"{self._folder}{start:020d}": bytes(data) for start, data in self._files.items()}


def with_body(record: bytes, body: bytes, other: bytes) -> bytes:
    """Return a record with another body of the same size, and a checksum that matches it."""
    at = record.index(body)
    changed = bytearray(record)
    changed[at : at + len(body)] = other
    changed[CHECKSUM_AT : CHECKSUM_AT + 4] = (crc32(other) & CHECKSUM_MASK).to_bytes(4, "big")
    return bytes(changed)


def behind(record: bytes, count: int) -> bytes:
    """Return `count` records that follow this one in its log and its queue, with the same body."""
    found = bytearray()
    for number in range(1, count + 1):
        following = bytearray(record)
        for at, step in ((QUEUE_OFFSET_AT, number), (POSITION_AT, number * len(record))):
            value = int.from_bytes(record[at : at + 8], "big") + step
            following[at : at + 8] = value.to_bytes(8, "big")
        found += following
    return bytes(found)


async def require_same_logs(
    bench: Bench, master: BrokerAddress, slave: BrokerAddress, last: bytes, what: str
) -> None:
    """Wait until both logs have a message, and require that they are equal."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + SAME_S
    while True:
        ours, theirs = await log_of(bench, master), await log_of(bench, slave)
        if last in theirs and ours == theirs:
            return
        if loop.time() > until_s:
            break
        await asyncio.sleep(0.5)
    at = first_difference(ours, theirs)
    difference = f"differ from byte {at} on" if at is not None else "have different ends"
    require(False, f"the logs of a master and a slave {what} {difference} after {SAME_S:g} s")


@case("RMQ-HA-12", limit_s=300, spoils=True)  # a Java slave keeps the log of its own
async def a_slave_with_another_log(bench: Bench) -> None:
    topic, master = await bench.topic(queues=1), await bench.master()
    slave, broker = await bench.slave_of(master), await bench.broker()
    node, processes = bench.target.nodes[slave.address], bench.controls().process
    bodies = [b"%06d" % index + b"x" * BODY_SIZE for index in range(RECORDS)]
    answers = [await bench.store(broker, topic, body) for body in bodies]
    positions = [parse_offset_message_id(answer["msgId"])[2] for answer in answers]
    await require_same_logs(bench, master, slave, bodies[-1], "that was never stopped")
    for turn, what in enumerate(("whose last records are others", "that has more records")):
        await processes.kill(node)
        log = StoredLog(await bench.read_store(slave.address))
        if turn == 0:
            for position, body in list(zip(positions, bodies, strict=True))[-OTHER:]:
                log.write(position, with_body(log.record(position), body, body[::-1]))
        else:
            newest = log.record(positions[-1])
            log.write(positions[-1] + len(newest), behind(newest, OTHER))
        await bench.change_store(slave.address, log.files())
        await processes.start(node)
        last = b"%06d" % (RECORDS + turn) + b"x" * BODY_SIZE
        answer = await bench.store(broker, topic, last)
        positions.append(parse_offset_message_id(answer["msgId"])[2])
        bodies.append(last)
        await require_same_logs(bench, master, slave, last, what)
    found = await bench.read_all(slave.address, topic, wanted=len(bodies))
    require_equal("how many messages the slave has", len(found), len(bodies))
    require(found == bodies, "the messages of the slave are not those of its master")


async def limit_sending(bench: Bench, node: str, bits_per_s: int) -> None:
    """Limit the rate at which a node sends; 0: no limit. Raises NotTriable."""
    try:
        await bench.controls().network.limit(node, bits_per_s)
    except CapabilityMissing as error:
        raise NotTriable(f"the bandwidth of nodes cannot be limited: {error}") from None


@case("RMQ-HA-13", limit_s=300, spoils=True)  # a Java master then has less than its slave
async def a_master_with_a_new_disk(bench: Bench) -> None:
    topic, master = await bench.topic(queues=1), await bench.master()
    slave, broker = await bench.slave_of(master), await bench.broker()
    node, processes = bench.target.nodes[master.address], bench.controls().process
    source = bench.target.nodes[slave.address]
    group = bench.fresh_name("g")
    config = json.dumps({"groupName": group, "retryQueueNums": 3, "consumeEnable": True}).encode()
    await broker.obtain(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=config)
    deleted = await bench.topic(queues=1)
    await bench.store(broker, deleted)
    bodies = [bytes((index + 1,)) * LARGE for index in range(LARGE_BODIES)]
    for body in bodies:
        await bench.store(broker, topic, body)
    await commit(broker, topic, group, 5)
    await bench.until_slave_knows(slave, topic)
    follower = await bench.connect(slave.address)
    loop = asyncio.get_running_loop()
    until_s = loop.time() + SAME_S
    await broker.obtain(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": deleted})
    while loop.time() < until_s:
        has_offset = await committed(follower, topic, group) == 5
        if has_offset and deleted not in (await inventory(follower)).topics:
            break
        await asyncio.sleep(0.5)
    await limit_sending(bench, source, FETCH_BITS_PER_S)
    young = await bench.topic(queues=YOUNG_QUEUES)
    await bench.store(broker, young, b"young", queue=YOUNG_QUEUES - 1)
    asking = loop.create_task(_ask_again_and_again(bench, await ha_address(bench, master)))
    try:
        await processes.kill(node)
        await bench.controls().disk.wipe(node)
        await processes.start(node)
        await _until_it_has_a_part(bench, master)
        await processes.kill(node)
    finally:
        asking.cancel()
        await limit_sending(bench, source, 0)
    await processes.start(node)
    found = await bench.read_all(master.address, topic, wanted=len(bodies), within_s=FETCH_S)
    kept = [body[:1] for body in found]
    require_equal("the messages that the master has", kept, [body[:1] for body in bodies])
    again = await bench.until_serving(master.address, topic)
    known = await inventory(again)
    require(topic in known.topics, f"the master does not know the topic {topic}")
    require(deleted not in known.topics, f"the master has the deleted topic {deleted} again")
    require(group in known.groups, f"the master does not know the group {group}")
    require_equal("the offset of the group", await committed(again, topic, group), 5)
    last = await bench.read_all(master.address, young, queue=YOUNG_QUEUES - 1, wanted=1)
    require_equal("the last queue of a topic that the slave had not copied", last, [b"young"])


async def _ask_again_and_again(bench: Bench, address: str) -> None:
    """Ask a master for its log repeatedly, as slaves do, each time over a connection that ends at once."""
    while True:
        with suppress(CannotConnect):
            stream = await connect_ha(address, bench.log)
            stream.report(0)
            await asyncio.sleep(ASK_S)
            stream.close()
        await asyncio.sleep(ASK_S)


async def _until_it_has_a_part(bench: Bench, master: BrokerAddress) -> None:
    """Wait until the master's log has a part of its slave's log."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + PART_S
    while loop.time() < until_s:
        files = await bench.read_store(master.address)
        if any("/commitlog/" in path for path in files) and len(await log_of(bench, master)) > PART:
            return
        await asyncio.sleep(0.5)
    require(False, f"a master with an empty disk does not fetch {PART >> 20} MiB in {PART_S:g} s")
