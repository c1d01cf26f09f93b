"""The index that follows from a log: it is the one that Apache RocketMQ 4.9.8 wrote, and what differs is found."""

from __future__ import annotations

import struct
import tarfile
from pathlib import Path

import pytest

from staticfire.harness.store_crash.index_files import IndexShape, IndexWrong, check_index
from staticfire.harness.store_crash.raw_record import IndexKey, RawRecord, parse_record

GOLDEN = Path(__file__).parents[2] / "data" / "golden-store" / "store-clean.tar.xz"
GOLDEN_FILE_SIZE = 65_536
SHAPE = IndexShape(slots=500, numbers=2_000)
ENTRIES_AT = 40 + 4 * SHAPE.slots


@pytest.fixture(scope="module")
def golden() -> dict[str, bytes]:
    files = {}
    with tarfile.open(GOLDEN) as archive:
        for member in archive:
            if (file := archive.extractfile(member)) is not None:
                files[member.name.removeprefix("clean/")] = file.read()
    return files


def records(golden: dict[str, bytes]) -> list[RawRecord]:
    log = b"".join(content for path, content in sorted(golden.items()) if "commitlog/" in path)
    found: list[RawRecord] = []
    position = 0
    while size := struct.unpack_from(">I", log, position)[0]:
        if log[position + 4 : position + 8] == b"\xda\xa3\x20\xa7":
            found.append(parse_record(log[position : position + size], position))
        position += size
    assert position > GOLDEN_FILE_SIZE
    return found


def keys_of(golden: dict[str, bytes]) -> list[IndexKey]:
    return [key for record in records(golden) for key in record.index_keys]


def index_of(golden: dict[str, bytes]) -> tuple[str, bytes]:
    (item,) = [item for item in golden.items() if item[0].startswith("index/")]
    return item


def editable(golden: dict[str, bytes]) -> tuple[str, bytearray]:
    path, content = index_of(golden)
    return path, bytearray(content)


def test_the_queue_entries_are_those_of_the_broker(golden: dict[str, bytes]) -> None:
    entries: dict[tuple[str, int], list[bytes]] = {}
    for record in records(golden):
        if record.has_queue_entry and record.queue[0] != "SCHEDULE_TOPIC_XXXX":
            entries.setdefault(record.queue, []).append(record.queue_entry)
    assert len(entries) > 5
    for (topic, queue_id), expected in entries.items():
        content = golden[f"consumequeue/{topic}/{queue_id}/{0:020d}"]
        assert content.rstrip(b"\0").ljust(20 * len(expected), b"\0") == b"".join(expected)


def test_the_index_is_that_of_the_broker(golden: dict[str, bytes]) -> None:
    keys = keys_of(golden)
    assert len(keys) > 300
    check_index([index_of(golden)], keys, 0, SHAPE)


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (7, "is of .* to .*; its messages are of"),
        (15, "is of .* to .*; its messages are of"),
        (23, "byte 23 of the header"),
        (35, "byte 35 of the header"),
        (40 + 4 * 7, "slot 7"),
        (ENTRIES_AT + 20 * 3, "entry 3 of .* is of no message"),
        (ENTRIES_AT + 20 * 3 + 15, "entry 3 from the index that the log makes"),
        (ENTRIES_AT + 20 * 9 + 19, "entry 9 from the index that the log makes"),
        (ENTRIES_AT + 20 * 1_999, "entry 1999 from the index that the log makes"),
    ],
)
def test_a_wrong_byte_is_found(golden: dict[str, bytes], place: int, text: str) -> None:
    path, content = editable(golden)
    content[place] ^= 1
    with pytest.raises(IndexWrong, match=text):
        check_index([(path, bytes(content))], keys_of(golden), 0, SHAPE)


def test_a_lost_and_a_repeated_key_are_found(golden: dict[str, bytes]) -> None:
    keys = keys_of(golden)
    with pytest.raises(IndexWrong, match="and not the"):
        check_index([index_of(golden)], [*keys, IndexKey(7, 200_000, 9)], 0, SHAPE)
    with pytest.raises(IndexWrong, match="is of no message"):
        check_index([index_of(golden)], keys[:-1], 0, SHAPE)
    path, content = editable(golden)
    count = len(keys)
    struct.pack_into(">i", content, 36, count + 2)
    last = bytes(content[ENTRIES_AT + 20 * count : ENTRIES_AT + 20 * (count + 1)])
    content[ENTRIES_AT + 20 * (count + 1) : ENTRIES_AT + 20 * (count + 2)] = last
    with pytest.raises(IndexWrong, match="and not the"):
        check_index([(path, bytes(content))], keys, 0, SHAPE)


def test_a_file_that_is_not_full_may_only_be_the_last(golden: dict[str, bytes]) -> None:
    path, content = index_of(golden)
    keys = keys_of(golden)
    again = [key._replace(physical_offset=key.physical_offset + (1 << 20)) for key in keys]
    other = bytearray(content)
    for number, key in enumerate(again, start=1):
        struct.pack_into(">q", other, ENTRIES_AT + 20 * number + 4, key.physical_offset)
    with pytest.raises(IndexWrong, match="is not the last; full are 1999"):
        check_index([(path, content), (path, bytes(other))], [*keys, *again], 0, SHAPE)


def test_entries_of_deleted_messages_may_stay_or_go(golden: dict[str, bytes]) -> None:
    keys = keys_of(golden)
    deleted = [IndexKey(5, 10, 20), *keys]
    check_index([index_of(golden)], deleted, keys[40].physical_offset, SHAPE)
    with pytest.raises(IndexWrong, match="and not the"):
        check_index([index_of(golden)], deleted, 0, SHAPE)
