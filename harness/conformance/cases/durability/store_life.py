"""RMQ-STO and RMQ-RCV: files that expire, are rebuilt, are incomplete, or were written by another program."""

from __future__ import annotations

import asyncio
import io
import lzma
import tarfile
from importlib.resources import files as resources
from typing import Any

from staticfire.harness.conformance.answers import json_in
from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.cases.durability.store import (
    ENTRY,
    LARGE,
    Files,
    below_root,
    files_of_master,
    log_files,
    root_of,
    stored_at,
)
from staticfire.harness.conformance.cases.offsets import commit, committed
from staticfire.harness.conformance.consumers import register_consumer
from staticfire.harness.conformance.wire import Wire
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.message import decode_records

DELETE_S = 90.0  # brokers check every 10 s, the first time after a minute
RESERVED_HOURS = 72
BLANK = (0, 2**31 - 1, 0)
FOREVER_MS = 1 << 60
TABLES = ("config/consumerOffset.json", "config/consumerFilter.json")
WRITTEN_S = 12.0  # brokers write offsets every 5 s and filters every 10 s
JAVA_TOPIC = "Golden"
JAVA_SIZES = (
    ("mappedFileSizeConsumeQueue", "2000"),
    ("maxHashSlotNum", "500"),
    ("maxIndexNum", "2000"),
)
# Read at import: code in the simulation reads no files of this machine.
_DATA = resources("staticfire.harness.conformance.data")
_PACKED = (_DATA / "java-store.tar.xz").read_bytes()
_LEDGER = (_DATA / "java-ledger.txt").read_text(encoding="utf-8")


async def first_offset(broker: Wire, topic: str) -> int:
    answer = await broker.ask(RequestCode.GET_MIN_OFFSET, {"topic": topic, "queueId": 0})
    return int(answer.ext_fields.get("offset", -1))


async def expired(bench: Bench, topic: str) -> list[int]:
    """Store large messages and make the broker remove expired files; return the messages' positions in the log."""
    broker = await bench.broker()
    positions = [await stored_at(bench, broker, topic, bytes(LARGE)) for _ in range(7)]
    await bench.configure(broker, fileReservedTime=0)
    loop = asyncio.get_running_loop()
    until_s = loop.time() + DELETE_S
    try:
        while await first_offset(broker, topic) == 0 and loop.time() < until_s:
            await broker.ask(RequestCode.DELETE_EXPIRED_COMMITLOG)
            await asyncio.sleep(1)
    finally:
        await bench.configure(broker, fileReservedTime=RESERVED_HOURS)
    require(
        await first_offset(broker, topic), f"nothing that has expired was removed in {DELETE_S:g} s"
    )
    return positions


@case("RMQ-STO-09", limit_s=180, is_alone=True)
async def retention(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=1), await bench.broker()
    positions = await expired(bench, topic)
    low = await first_offset(broker, topic)
    require(low < len(positions), "the last file of the log was removed")
    start = min(log_files(await files_of_master(bench)))
    gone = sum(position < start for position in positions)
    require_equal("the least offset of the queue", low, gone)
    found = await bench.pull(broker, topic, offset=low)
    require(found.messages, f"a pull at the least offset is answered with {found.code}")
    first = found.messages[0]
    offsets = first.queue_offset, first.physical_offset
    require_equal("the first message and its position", offsets, (low, positions[low]))
    below = await bench.pull(broker, topic, offset=0)
    moved = below.code, below.next_offset
    require_equal("the answer below", moved, (ResponseCode.PULL_OFFSET_MOVED, low))
    unknown = await committed(broker, topic, bench.fresh_name("g"))
    require_equal("the offset of a group that has none", unknown, None)


async def restart_without(bench: Bench, *folders: str, gracefully: bool = True) -> str:
    """Stop or kill the master, remove these folders of its store, and start it; return its address."""
    master = (await bench.master()).address
    node, processes = bench.target.nodes[master], bench.controls().process
    await (processes.stop(node) if gracefully else processes.kill(node))
    found = await bench.read_store(master)
    root = root_of(found)
    gone = [path for path in found if path.removeprefix(root).startswith(folders)]
    await bench.change_store(master, dict.fromkeys(gone))
    await processes.start(node)
    return master


@case("RMQ-STO-05", limit_s=240)
async def before_a_queue_begins(bench: Bench) -> None:
    topic = await bench.topic(queues=1)
    positions = await expired(bench, topic)
    master = await restart_without(bench, "consumequeue/")
    broker = await bench.until_serving(master, topic)
    low, end = await first_offset(broker, topic), await bench.end_of(broker, topic)
    require_equal("the end of the queue that was made again", end, len(positions))
    files = await files_of_master(bench)
    path = f"consumequeue/{topic}/0/{0:020d}"
    require(path in files, f"there is no {path}")
    data = files[path]
    entries = [ENTRY.unpack_from(data, index * ENTRY.size) for index in range(end)]
    require_equal("the entries before the first message", entries[:low], [BLANK] * low)
    found = [entry[0] for entry in entries[low:]]
    require_equal("the positions behind them", found, positions[low:])


@case("RMQ-RCV-09", limit_s=180)
async def queues_and_index_from_the_log(bench: Bench) -> None:
    queues = 3
    topic, broker = await bench.topic(queues=queues), await bench.broker()
    for index in range(12):
        properties = {"KEYS": f"key-{index}"}
        await bench.store(broker, topic, b"%d" % index, queue=index % queues, properties=properties)
    master = await restart_without(bench, "consumequeue/", "index/", gracefully=False)
    again = await bench.until_serving(master, topic)
    for queue in range(queues):
        wanted = [b"%d" % index for index in range(queue, 12, queues)]
        found = await bench.read_all(master, topic, queue=queue, wanted=len(wanted))
        require_equal(f"what is in queue {queue}", found, wanted)
    for index in (0, 11):
        query = {
            "topic": topic,
            "key": f"key-{index}",
            "maxNum": 32,
            "beginTimestamp": 0,
            "endTimestamp": FOREVER_MS,
        }
        answer = await again.ask(RequestCode.QUERY_MESSAGE, query)
        bodies = [message.body for message in decode_records(answer.body)]
        require_equal(f"what is found by key-{index}", bodies, [b"%d" % index])


@case("RMQ-RCV-11", limit_s=180, spoils=True)  # a broker may never start over such a store
async def a_file_just_begun(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=1), await bench.broker()
    await bench.store(broker, topic, b"before")
    master = (await bench.master()).address
    node, processes = bench.target.nodes[master], bench.controls().process
    await processes.kill(node)
    found = await bench.read_store(master)
    logs = log_files(below_root(found))
    following = max(logs) + len(logs[min(logs)])
    await bench.change_store(master, {f"{root_of(found)}commitlog/{following:020d}": bytes(4096)})
    await processes.start(node)
    again = await bench.until_serving(master, topic)
    for _ in range(150):
        sent = await bench.send(again, topic, b"after")
        if "queueOffset" in sent.ext_fields:
            break
        await asyncio.sleep(0.2)
    bodies = await bench.read_all(master, topic, wanted=2)
    require_equal("what is there", bodies[:1] + bodies[-1:], [b"before", b"after"])


def java_store() -> dict[str, bytes]:
    """Return the files of the store by path below its root."""
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(_PACKED))) as archive:
        for member in archive.getmembers():
            extracted = archive.extractfile(member) if member.isfile() else None
            if extracted is not None:
                found[member.name.partition("/")[2]] = extracted.read()
    return found


@case(
    "RMQ-RCV-10",
    limit_s=180,
    cluster={
        "log_file_bytes": 65536,
        "broker_properties": JAVA_SIZES,
        "replication": "async",
        "followers": (0, 0),
    },
)
async def a_store_of_java(bench: Bench) -> None:
    master = (await bench.master()).address
    node, processes = bench.target.nodes[master], bench.controls().process
    await processes.stop(node)
    root = root_of(await bench.read_store(master))
    await bench.controls().disk.wipe(node)
    await bench.change_store(master, {root + path: data for path, data in java_store().items()})
    await processes.start(node)
    broker = await bench.until_serving(master, JAVA_TOPIC)
    sent = [line.split() for line in _LEDGER.splitlines() if line.startswith("send ")]
    for _, number, _, _, offset_id, queue, offset in sent:
        index = int(number)
        body = bytes([ord("a") + index % 26]) * (20 + (index * 37) % 900)
        pulled = await bench.pull(broker, JAVA_TOPIC, queue=int(queue), offset=int(offset))
        found = (
            (pulled.messages[0].physical_offset, pulled.messages[0].body) if pulled.messages else ()
        )
        require_equal(
            f"the message at offset {offset} of queue {queue}",
            found,
            (int(offset_id[-16:], 16), body),
        )
    require(sent, "the ledger is empty")


@case("RMQ-STO-10", limit_s=120, spoils=True)  # another case may commit an offset first
async def tables_that_do_not_change(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=1), await bench.broker()
    address, group = broker.address, bench.fresh_name("g")
    await bench.store(broker, topic)
    await asyncio.sleep(WRITTEN_S)
    early = sorted(path for path in await files_of_master(bench) if path.startswith(TABLES))
    require_equal("the files of offsets and filters before the first change", early, [])
    await bench.configure(broker, enablePropertyFilter="true")
    for number in (1, 2):
        await commit(broker, topic, group, number)
        await register_consumer(
            bench,
            address,
            group,
            topic,
            expression=f"a = {number}",
            version=number,
            expression_type="SQL92",
        )
        await asyncio.sleep(WRITTEN_S)
    await asyncio.sleep(WRITTEN_S)
    files = await files_of_master(bench)
    for suffix, number in (("", 2), (".bak", 1)):
        offsets, filters = (_table(files, f"{path}{suffix}") for path in TABLES)
        queues = offsets["offsetTable"].get(f"{topic}@{group}", {})
        of_topic = filters["filterDataByTopic"].get(topic, {"groupFilterData": {}})
        found = queues.get("0"), of_topic["groupFilterData"].get(group, {}).get("expression")
        expected = number, f"a = {number}"
        require_equal(f"offset and expression in the files{suffix}", found, expected)


def _table(files: Files, path: str) -> dict[str, Any]:
    require(path in files, f"there is no {path}")
    return json_in(files[path])
