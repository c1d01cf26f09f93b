"""RMQ-STO: the files of a broker's store."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any
from zlib import crc32

from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.cases.offsets import commit
from staticfire.harness.conformance.consumers import register_consumer
from staticfire.harness.conformance.failures import BadAnswer
from staticfire.harness.conformance.wire import Wire
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.message import java_string_hash, parse_offset_message_id

MESSAGE_MAGIC, BLANK_MAGIC = 0xDAA320A7, 0xCBD43194
ENTRY = struct.Struct(">qiq")
INDEX_HEADER = struct.Struct(">qqqqii")
INDEX_ENTRY = struct.Struct(">iqii")  # hash, position in the log, seconds, previous entry
LARGE = 3 << 20
EXPRESSION = "a > 1"
Files = Mapping[str, bytes]


async def files_of_master(bench: Bench) -> Files:
    """Return the files of the master that cases use, by path below the root of its store."""
    return below_root(await bench.read_store((await bench.master()).address))


def root_of(found: Files) -> str:
    """Return the folder that holds commitlog/, with its slash. Raises BadAnswer."""
    at = next((path.index("/commitlog/") for path in found if "/commitlog/" in path), None)
    if at is None:
        raise BadAnswer(f"there is no commitlog/ among {sorted(found)[:5]}")
    return next(path[: at + 1] for path in found if "/commitlog/" in path)


def below_root(found: Files) -> Files:
    """Return the files of a node by path below the root of its store. Raises BadAnswer."""
    root = root_of(found)
    return {path.removeprefix(root): found[path] for path in found if path.startswith(root)}


def log_files(files: Files) -> dict[int, bytes]:
    """Return the files of the commit log by the position at which they begin."""
    return {
        int(path.rpartition("/")[2]): data
        for path, data in sorted(files.items())
        if path.startswith("commitlog/") and path.rpartition("/")[2].isdigit()
    }


def read_log(files: Files, position: int, size: int) -> bytes:
    """Return bytes of the log. Raises BadAnswer if no file has them."""
    for start, data in log_files(files).items():
        if start <= position < start + len(data):
            return data[position - start : position - start + size]
    raise BadAnswer(f"no file of the commit log holds position {position}")


async def stored_at(bench: Bench, broker: Wire, topic: str, body: bytes, **fields: object) -> int:
    """Store a message and return its position in the log."""
    answer = await bench.store(broker, topic, body, **fields)
    return parse_offset_message_id(answer["msgId"])[2]


@case("RMQ-STO-01")
async def records(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    body = b"the body of a record"
    position = await stored_at(bench, broker, topic, body, queue=2, flag=5)
    head = read_log(await files_of_master(bench), position, 4096)
    size, magic, checksum, queue, flag, queue_offset, physical = struct.unpack_from(
        ">iIIiiqq", head
    )
    require_equal("the magic", magic, MESSAGE_MAGIC)
    require_equal("the checksum", checksum, crc32(body) & 0x7FFFFFFF)
    require_equal("queue, flag and queue offset", (queue, flag, queue_offset), (2, 5, 0))
    require_equal("the position", physical, position)
    require(body in head[:size], "the body is not within the size of the record")
    require(topic.encode() in head[:size], "the topic is not within the size of the record")


@case("RMQ-STO-02")
async def the_end_of_a_file(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    positions = [await stored_at(bench, broker, topic, bytes(LARGE)) for _ in range(7)]
    files = await files_of_master(bench)
    starts = sorted(log_files(files))
    require(
        len(starts) >= 2, f"21 MiB are in {len(starts)} file; expected more: is a file larger here?"
    )
    blanks, seen, at = 0, set(), positions[0]
    while at <= positions[-1]:
        seen.add(at)
        size, magic = struct.unpack(">iI", read_log(files, at, 8))
        require(size > 0, f"the size at position {at} is {size}")
        if magic == BLANK_MAGIC:
            _require_blank(files, at, size, starts)
            blanks += 1
        else:
            require_equal(f"the magic at position {at}", magic, MESSAGE_MAGIC)
        at += size
    require(seen.issuperset(positions), f"no walk over the log meets {positions}: {sorted(seen)}")
    require(blanks, f"21 MiB went over no end of a file; files begin at {starts}")


def _require_blank(files: Files, at: int, size: int, starts: Sequence[int]) -> None:
    """Require that the blank ends with its file, and that the next file begins with the record that did not fit."""
    following = min(start for start in starts if start > at)
    require_equal("the end of the rest", at + size, following)
    head = read_log(files, following, 36)
    needed, magic = struct.unpack_from(">iI", head)
    require_equal("the magic at the beginning of the next file", magic, MESSAGE_MAGIC)
    require_equal("the position of its first record", int.from_bytes(head[28:36], "big"), following)
    require(needed > size - 8, f"a rest of {size} bytes is blank; the next record has {needed}")


@case("RMQ-STO-03")
async def names(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    for _ in range(7):
        await bench.store(broker, topic, bytes(LARGE))
    files = await files_of_master(bench)
    for folder in ("commitlog/", f"consumequeue/{topic}/0/"):
        found = {
            path.removeprefix(folder): data
            for path, data in files.items()
            if path.startswith(folder)
        }
        require(found, f"there is nothing in {folder}")
        require(
            all(len(name) == 20 and name.isdigit() for name in found), f"names are {sorted(found)}"
        )
        ordered = sorted(found)
        for name, following in pairwise(ordered):
            require_equal(
                f"the end of {folder}{name}", int(name) + len(found[name]), int(following)
            )


@case("RMQ-STO-04")
async def queue_entries(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    tags = ("red", "", "AaAa")
    positions = [
        await stored_at(
            bench, broker, topic, b"x", queue=1, properties={"TAGS": tag} if tag else {}
        )
        for tag in tags
    ]
    await bench.read_all(broker.address, topic, queue=1, wanted=len(tags))
    files = await files_of_master(bench)
    data = files.get(f"consumequeue/{topic}/1/{0:020d}", b"")
    entries = [ENTRY.unpack_from(data, index * ENTRY.size) for index in range(len(tags))]
    require_equal("the positions", [entry[0] for entry in entries], positions)
    sizes = [int.from_bytes(read_log(files, position, 4), "big") for position in positions]
    require_equal("the sizes", [entry[1] for entry in entries], sizes)
    hashes = [java_string_hash(tag) if tag else 0 for tag in tags]
    require_equal("the hashes of the tags", [entry[2] for entry in entries], hashes)


async def stopped(bench: Bench) -> Files:
    """Stop the master gracefully and return its files."""
    await bench.controls().process.stop(bench.target.nodes[(await bench.master()).address])
    return await files_of_master(bench)


@case("RMQ-STO-06", limit_s=90)
async def index_files(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    slot_count = await _slot_count(broker)
    for index in range(10):
        await bench.store(broker, topic, properties={"KEYS": f"key-{index}"})
    files = await stopped(bench)
    found = [data for path, data in files.items() if path.startswith("index/")]
    require(found, "there is no file in index/")
    first, last, low, high, slots, count = INDEX_HEADER.unpack_from(found[-1])
    require(
        first <= last and low <= high, f"the header's ranges are {first}..{last}, {low}..{high}"
    )
    require(1 <= slots < count, f"the header says {slots} slots and {count} entries")
    require(count > 10, f"the header counts to {count}; 10 keys were sent")
    begin = INDEX_HEADER.size + 4 * slot_count + INDEX_ENTRY.size * (count - 10)
    for number in range(10):  # the last ones; entries are counted from 1
        _, offset, seconds, _ = INDEX_ENTRY.unpack_from(
            found[-1], begin + INDEX_ENTRY.size * number
        )
        require(low <= offset <= high, f"an entry points to {offset}, beyond {low}..{high}")
        require(
            0 <= 1000 * seconds <= last - first,
            f"an entry is {seconds} s younger than the first; the youngest is so by {last - first} ms",
        )


async def _slot_count(broker: Wire) -> int:
    """Return the number of slots of index files, from the broker's options or Java's default."""
    answer = await broker.ask(RequestCode.GET_BROKER_CONFIG)
    lines = dict(line.partition("=")[::2] for line in answer.body.decode().splitlines())
    return int(lines.get("maxHashSlotNum", 5_000_000))


@case("RMQ-STO-07", limit_s=90)
async def marks(bench: Bench) -> None:
    running = await files_of_master(bench)
    require("abort" in running, f"there is no abort while the broker runs: {_top(running)}")
    files = await stopped(bench)
    require("abort" not in files, "abort is there after a graceful stop")
    require("checkpoint" in files, f"there is no checkpoint after a graceful stop: {_top(files)}")


def _top(files: Files) -> list[str]:
    return sorted(path for path in files if "/" not in path)


@case("RMQ-STO-08", limit_s=90)
async def metadata(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=3), await bench.broker()
    group, filtering = bench.fresh_name("g"), bench.fresh_name("g")
    await bench.store(broker, topic)
    await register_consumer(bench, broker.address, group, topic)
    await register_consumer(
        bench, broker.address, filtering, topic, expression=EXPRESSION, expression_type="SQL92"
    )
    await commit(broker, topic, group, 1)
    files = await stopped(bench)
    topics = _json(files, "topics.json")["topicConfigTable"]
    require_equal("the queues of the topic", topics.get(topic, {}).get("writeQueueNums"), 3)
    offsets = _json(files, "consumerOffset.json")["offsetTable"].get(f"{topic}@{group}", {})
    require_equal("the offset", {int(key): value for key, value in offsets.items()}, {0: 1})
    groups = _json(files, "subscriptionGroup.json")["subscriptionGroupTable"]
    require(group in groups, f"{group} is not among the groups")
    _require_filter(files, topic, filtering)


def _require_filter(files: Files, topic: str, group: str) -> None:
    """Require that the SQL92 subscription of a group is in the file of filters."""
    by_topic = _json(files, "consumerFilter.json").get("filterDataByTopic", {})
    by_group: Any = by_topic.get(topic, {})
    found = by_group.get("groupFilterData", {}).get(group, {})
    wanted = {"consumerGroup": group, "topic": topic, "expression": EXPRESSION}
    wanted["expressionType"] = "SQL92"
    require_equal("the filter", {name: found.get(name) for name in wanted}, wanted)
    bits: Any = found.get("bloomFilterData") or {}
    positions, count = bits.get("bitPos"), bits.get("bitNum", 0)
    require(
        isinstance(positions, list)
        and positions
        and all(type(bit) is int and 0 <= bit < count for bit in positions),
        f"the bits of the filter are {positions!r:.100} of {count!r:.40}; expected numbers below that",
    )


def _json(files: Files, name: str) -> Mapping[str, dict[str, dict[str, object]]]:
    """Read a JSON file of the store. Raises BadAnswer."""
    try:
        found = json_dialect.loads(files[f"config/{name}"])
    except (KeyError, ValueError) as error:
        raise BadAnswer(f"config/{name} cannot be read: {error!r}") from error
    assert isinstance(found, dict)
    return found
