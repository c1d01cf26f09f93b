"""Changes a bit in the body of a record of a commit log, as a disk does whose content decays.

    bit_rot.py FOLDER SHARE

It makes all records below FOLDER durable, and takes the one at SHARE (0 to 1) of their number. It prints a JSON object:
"bitten"; if there was a record, "path" and "records" (one object with "key", "start", "end"); "error" if the disk
failed before the change. All readers of the file see the change, since processes share the page cache. It is also on
the disk, unless the disk fails meanwhile.
"""

from __future__ import annotations

import json
import os
import re
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import NamedTuple
from zlib import crc32

COMMIT_LOG = "/commitlog"
MAGIC = struct.pack(">I", 0xDAA320A7)  # RocketMQ, MessageDecoder.MESSAGE_MAGIC_CODE
KEYS = re.compile(rb"\x02KEYS\x01([^\x02]*)")
IPV6_SIZE = 12  # additional bytes of each IPv6 host
HEAD_SIZE = 8  # size and magic
LENGTH_AT = 84  # position of the body's length, with IPv4 hosts
BODY_AT_MAX = LENGTH_AT + 2 * IPV6_SIZE + 4


class StoredRecord(NamedTuple):
    """The position of a record and of its body in the file, in bytes."""

    start: int
    body_start: int
    body_end: int
    end: int

    def is_sound(self, record: bytes) -> bool:
        """Whether the body matches its checksum; `record` is the whole record."""
        expected = int.from_bytes(record[8:12], "big")
        body = record[self.body_start - self.start : self.body_end - self.start]
        return crc32(body) & 0x7FFFFFFF == expected

    def facts(self, record: bytes) -> dict[str, object]:
        """Return the message's key and the record's range in the log: the fields of `RottenRecord` of the facts."""
        log_position = int.from_bytes(record[28:36], "big")
        topic_at = self.body_end - self.start
        properties_at = topic_at + 1 + record[topic_at] + 2
        found = KEYS.search(b"\x02" + record[properties_at:])
        key = found[1].decode("utf-8", "replace") if found else ""
        return {"key": key, "start": log_position, "end": log_position + self.end - self.start}


def record_at(head: bytes, start: int, file_size: int) -> StoredRecord | None:
    """Return the record that begins with `head` at position `start` of a file; None if none begins there."""
    if head[4:HEAD_SIZE] != MAGIC or len(head) < LENGTH_AT + 4:
        return None
    size = int.from_bytes(head[:4], "big")
    flags = int.from_bytes(head[36:40], "big")
    length_at = LENGTH_AT + IPV6_SIZE * (bool(flags & 0x10) + bool(flags & 0x20))
    body_start = start + length_at + 4
    body_end = body_start + int.from_bytes(head[length_at : length_at + 4], "big")
    if not body_start <= body_end <= start + size <= file_size:
        return None
    return StoredRecord(start, body_start, body_end, start + size)


def stored_records(log: bytes) -> Iterator[StoredRecord]:
    """Yield the records of a log file, up to the first bytes that are no record."""
    return _records(lambda start: log[start : start + BODY_AT_MAX], len(log))


def records_of(opened: int) -> Iterator[StoredRecord]:
    """Yield the records of an open file in the same way."""
    size = os.fstat(opened).st_size
    return _records(lambda start: os.pread(opened, BODY_AT_MAX, start), size)


def _records(read_head: Callable[[int], bytes], size: int) -> Iterator[StoredRecord]:
    start = 0
    while (record := record_at(read_head(start), start, size)) is not None:
        yield record
        start = record.end


def logs_in(folder: str) -> list[str]:
    paths = [os.path.join(path, name) for path, _, names in os.walk(folder) for name in names]
    return sorted(path for path in paths if COMMIT_LOG in path and path[-20:].isdigit())


def changed(folder: str, share: float) -> dict[str, object]:
    durable: list[tuple[str, StoredRecord]] = []
    for path in logs_in(folder):
        opened = os.open(path, os.O_RDWR)
        try:
            found = [record for record in records_of(opened) if record.body_start < record.body_end]
            # the record is now on the disk, and no write-back overwrites the change
            os.fsync(opened)
            durable += [(path, record) for record in found]
        finally:
            os.close(opened)
    if not durable:
        return {"bitten": False}
    path, record = durable[int(share * len(durable))]
    opened = os.open(path, os.O_RDWR)
    try:
        return {"path": path, **flip(opened, record, Random(share))}
    finally:
        os.close(opened)


def flip(opened: int, record: StoredRecord, random: Random) -> dict[str, object]:
    before = os.pread(opened, record.end - record.start, record.start)
    position = record.body_start + int(random.random() * (record.body_end - record.body_start))
    changed_byte = before[position - record.start] ^ (1 << int(random.random() * 8))
    os.pwrite(opened, bytes([changed_byte]), position)
    with suppress(OSError):  # the disk fails, too: readers see the change while the page is cached
        os.fsync(opened)
    after = os.pread(opened, record.end - record.start, record.start)
    is_bitten = record.is_sound(before) and not record.is_sound(after)
    return {"bitten": is_bitten, "records": [record.facts(before)]}


def main(arguments: list[str]) -> None:
    folder, share = arguments
    try:
        found = changed(folder, float(share))
    except OSError as error:  # another fault has broken the disk
        found = {"bitten": False, "error": str(error)}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
