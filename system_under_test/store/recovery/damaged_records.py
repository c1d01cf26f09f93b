"""Distinguishes a record that the disk has changed from a torn tail, while a store is recovered.

A torn tail was never durable: the log ends before it. A record that was durable once and is invalid now is damaged, and
the log goes on behind it. Two things prove that bytes were durable. A queue entry is written only after a flush of its
record, and so of everything before it. The checkpoint names a store time before which everything was durable. Stale
bytes of an older tail prove nothing; they show by records older than those before them.

Headers, topics and properties have no checksum. If one of them changed, the record's queue entry shows what it was.
Without an entry its neighbours show its position and size, and recovery gives it the queue offset that a queue lacks.
RocketMQ ends the log at the first invalid record (CommitLog.recoverNormally, recoverAbnormally).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from staticfire.system_under_test.protocol.message import MAGIC_MESSAGE
from staticfire.system_under_test.store.checkpoint import Checkpoint
from staticfire.system_under_test.store.log.commit_log import CommitLog
from staticfire.system_under_test.store.queues.consume_queue import ENTRY_SIZE, ConsumeQueue, Entry
from staticfire.system_under_test.store.queues.queue_table import QueueTable
from staticfire.system_under_test.store.record_scan import RecordScanner, ScannedRecord

_WINDOW_SIZE = 1 << 20
_MAGIC = struct.pack(">i", MAGIC_MESSAGE)
_MAGIC_AT = 4
# TOTALSIZE MAGICCODE BODYCRC QUEUEID FLAG QUEUEOFFSET PHYSICALOFFSET
_HEADER = struct.Struct(">IiIiiqq")
_FIELDS_MIN = 3  # a header is recognized by four fields, of which one may have changed
_ENTRIES_TRIED = 256  # from the end of a queue; a power cut tears the last sectors only


class DamagedRange(NamedTuple):
    """Log bytes [start, end) that were durable and are invalid now; `record`: what is still known of the record."""

    start: int
    end: int
    record: ScannedRecord | None


class DamagedRecords:
    """Finds damaged ranges in the log of one store. Only reads."""

    def __init__(
        self,
        *,
        commit_log: CommitLog,
        queues: QueueTable,
        checkpoint: Checkpoint,
        scanner: RecordScanner,
        record_at: Callable[[int], ScannedRecord | None],
    ) -> None:
        """`record_at` returns the sound record at an offset, or None."""
        self._log = commit_log
        self._queues = queues
        self._checkpoint = checkpoint
        self._scanner = scanner
        self._record_at = record_at
        self._durable_end: int | None = None

    def at(self, start: int, last_ms: int) -> DamagedRange | None:
        """The damaged range that begins at `start`, behind a record stored at `last_ms`; None if the log ends there."""
        if start >= self._log.files.end_of_content(start):
            return None
        if start >= self.durable_end:
            follower = self._next_sound(start)
            if (
                follower is None
                or not last_ms <= follower.store_timestamp_ms < self._checkpoint.physic_ms
            ):
                return None
        record = self.record_at(start)
        if record is not None:
            return DamagedRange(start, start + record.size, record)
        follower = self._next_sound(start)
        if follower is None:
            return None
        end = follower.physical_offset
        return DamagedRange(start, end, self._with_known_fields(start, end))

    def _with_known_fields(self, start: int, end: int) -> ScannedRecord | None:
        """The record in [start, end) if only its size, magic number or physical offset are damaged, else None."""
        if end - start < _HEADER.size:
            return None
        data = bytearray(self._log.files.read(start, end - start))
        _, _, crc, queue_id, flag, queue_offset, _ = _HEADER.unpack_from(data)
        _HEADER.pack_into(
            data, 0, end - start, MAGIC_MESSAGE, crc, queue_id, flag, queue_offset, start
        )
        found: list[ScannedRecord] = []
        self._scanner.scan(data, start, found.append)
        return found[0] if found and found[0].size == end - start else None

    def place_of(self, record: ScannedRecord) -> ScannedRecord | None:
        """The record with the topic, queue id and queue offset of the entry that points to it.

        None if its own fields are right, or no such entry differs from them in exactly one bit: an entry that differs
        in more belongs to another log.
        """
        own = self._queues.get(record.topic.decode("utf-8", "replace"), record.queue_id)
        entry = None if own is None else own.probe(record.queue_offset)
        if entry is not None and entry.physical_offset == record.physical_offset:
            return None
        for queue in self._queues:
            offset = _lower_bound(queue, record.physical_offset)
            entry = queue.probe(offset)
            if entry is None or entry[:2] != (record.physical_offset, record.size):
                continue
            known = record._replace(
                topic=queue.topic.encode(), queue_id=queue.queue_id, queue_offset=offset
            )
            if _bits_apart(record, known) == 1:
                return known
        return None

    def record_at(self, start: int) -> ScannedRecord | None:
        """What is known of the damaged record at `start`, from its header or from the queue entry that points there."""
        data = self._log.files.read(start, _WINDOW_SIZE)
        size = int.from_bytes(data[:_MAGIC_AT], "big")
        if len(data) == _WINDOW_SIZE < size <= self._log.file_size:
            data = self._log.files.read(start, size)
        return self._scanner.with_bad_body(data, start) or self._by_entry(start)

    @property
    def durable_end(self) -> int:
        """The end of the last record that a queue entry points to; 0 if there is none."""
        if self._durable_end is None:
            self._durable_end = max(map(self._last_end, self._queues), default=0)
        return self._durable_end

    def _last_end(self, queue: ConsumeQueue) -> int:
        files = queue.files
        first = files.first_offset
        last = (files.end_of_content(first) - 1) // ENTRY_SIZE
        for offset in range(last, max(first // ENTRY_SIZE, last - _ENTRIES_TRIED) - 1, -1):
            entry = queue.probe(offset)
            if entry is not None and self.leads_there(queue, offset, entry):
                return entry.physical_offset + entry.size
        return 0

    def leads_there(self, queue: ConsumeQueue, offset: int, entry: Entry) -> bool:
        """Whether `entry` at queue offset `offset` points to its record; one field of the header may be wrong."""
        header = self._log.files.read(entry.physical_offset, _HEADER.size)
        if len(header) < _HEADER.size:
            return False
        size, magic, _, queue_id, _, queue_offset, own_offset = _HEADER.unpack(header)
        agrees: tuple[bool, ...] = (
            size == entry.size,
            magic == MAGIC_MESSAGE,
            own_offset == entry.physical_offset,
            (queue_id, queue_offset) == (queue.queue_id, offset),
        )
        return sum(agrees) >= _FIELDS_MIN

    def _by_entry(self, start: int) -> ScannedRecord | None:
        for queue in self._queues:
            offset = _lower_bound(queue, start)
            entry = queue.probe(offset)
            if (
                entry is not None
                and entry.physical_offset == start
                and self.leads_there(queue, offset, entry)
            ):
                return ScannedRecord(
                    topic=queue.topic.encode(),
                    queue_id=queue.queue_id,
                    queue_offset=offset,
                    physical_offset=start,
                    size=entry.size,
                    tags_code=entry.tags_code,
                    store_timestamp_ms=0,
                    has_entry=True,
                    indexed=b"",
                )
        return None

    def _next_sound(self, start: int) -> ScannedRecord | None:
        """The first sound record behind `start`."""
        files = self._log.files
        position = start + 1
        while position < files.end_of_files:
            window = files.read(position, _WINDOW_SIZE)
            at = window.find(_MAGIC)
            while at >= 0:
                record = self._record_at(position + at - _MAGIC_AT)
                if record is not None and record.physical_offset > start:
                    return record
                at = window.find(_MAGIC, at + 1)
            file_end = position - position % self._log.file_size + self._log.file_size
            position += max(len(window) - len(_MAGIC) + 1, 1)
            if position + len(_MAGIC) > file_end or not window:
                position = file_end
        return None


def _bits_apart(one: ScannedRecord, other: ScannedRecord) -> int:
    """The number of bits in which topic, queue id and queue offset differ."""
    names = [int.from_bytes(record.topic, "big") for record in (one, other)]
    if len(one.topic) != len(other.topic):
        return len(one.topic)
    pairs = (
        names,
        (one.queue_id, other.queue_id),
        (one.queue_offset, other.queue_offset),
    )
    return sum((left ^ right).bit_count() for left, right in pairs)


def _lower_bound(queue: ConsumeQueue, physical_offset: int) -> int:
    """The queue offset of the first entry that points to `physical_offset` or beyond, or is empty."""
    low = queue.files.first_offset // ENTRY_SIZE
    high = queue.files.end_of_files // ENTRY_SIZE
    while low < high:
        middle = (low + high) // 2
        entry = queue.probe(middle)
        if entry is not None and entry.physical_offset < physical_offset:
            low = middle + 1
        else:
            high = middle
    return low
