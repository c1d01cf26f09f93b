"""Reads messages of a queue for a pull (RocketMQ, DefaultMessageStore.getMessage)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from enum import Enum
from typing import NamedTuple

from staticfire.system_under_test.protocol.message import RecordError, record_properties
from staticfire.system_under_test.store.log.commit_log import CommitLog
from staticfire.system_under_test.store.pull_limits import PullLimits
from staticfire.system_under_test.store.queues.consume_queue import ENTRY_SIZE, ConsumeQueue, Entry
from staticfire.system_under_test.store.record_filter import ExtensionUnit, RecordFilter
from staticfire.system_under_test.store.record_scan import (
    RECORD_HEADER_SIZE,
    is_sound,
    stored_at_ms,
)

_SCAN_BYTES_MIN = 16_000  # RocketMQ, DefaultMessageStore.getMessage: maxFilterMessageCount
# bytes of records that a filter examines; RocketMQ need not copy them
_EXAMINED_BYTES_MAX = 4 << 20
_GAP_SIZE_MAX = 16 * 1024  # records this close are read together


class GetStatus(Enum):
    """RocketMQ, GetMessageStatus."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    RECORD_DAMAGED = "RECORD_DAMAGED"  # not in RocketMQ: the disk has changed the next record
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


class GetResult(NamedTuple):
    """The result of a pull. `next_offset` is where the next pull goes on, or the correction of a wrong offset."""

    status: GetStatus
    next_offset: int
    min_offset: int
    max_offset: int
    records: list[bytes] = []  # noqa: RUF012  never changed
    # the record of the last examined entry does not count as in memory any more
    is_far_behind: bool = False


# RocketMQ makes a queue when a client asks for it, so it never answers NO_MATCHED_LOGIC_QUEUE.
NO_QUEUE = GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)


class QueueReader:
    """Reads entries and the records that they point to."""

    __slots__ = ("_limits", "_log", "_lost", "on_damage")

    def __init__(self, log: CommitLog, limits: PullLimits, lost: Set[int] = frozenset()) -> None:
        """`on_damage` gets the physical offset of each damaged record found; readers skip those in `lost`."""
        self._lost = lost
        self._log = log
        self._limits = limits
        self.on_damage: Callable[[int], None] = _ignore

    def get(
        self,
        queue: ConsumeQueue,
        offset: int,
        max_messages: int,
        tags: frozenset[int] | None,
        wanted: RecordFilter | None = None,
    ) -> GetResult:
        """Up to `max_messages` records from `offset` that have one of `tags` and match `wanted`, if given."""
        low, high = queue.min_offset, queue.max_offset
        # A consumer may have read messages at a slave that are not visible here yet: its offset is right.
        is_at_end = high <= offset <= queue.next_offset
        if high == 0 and not (is_at_end and offset):
            return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, low, high)
        if offset < low:
            return GetResult(GetStatus.OFFSET_TOO_SMALL, low, low, high)
        if is_at_end:
            return GetResult(GetStatus.OFFSET_OVERFLOW_ONE, offset, low, high)
        if offset > high:
            return GetResult(GetStatus.OFFSET_OVERFLOW_BADLY, high, low, high)
        filters = tags is not None or wanted is not None
        entries = queue.read(offset, self._count_to_examine(max_messages, filters=filters))
        if not entries:
            if queue.has_file(offset):
                return GetResult(GetStatus.RECORD_DAMAGED, offset, low, high)
            return GetResult(GetStatus.OFFSET_FOUND_NULL, self._next_file(queue, offset), low, high)
        damaged: Entry | None
        if wanted is None:
            examined, chosen = self._choose(entries, max_messages, tags)
            records, damaged = self._read_records(chosen)
            is_removed = bool(chosen)
        else:
            units = queue.extension_units(offset, len(entries))
            selection = _Selection(self._log, wanted, units, self._lost)
            examined = self._select(entries, max_messages, tags, selection)
            records, is_removed = selection.records, selection.met_removed
            damaged = selection.damaged
        if damaged is not None:  # return the records before it, and let the next pull begin at it
            examined = entries.index(damaged)
            self.on_damage(damaged.physical_offset)
            if not records:
                return GetResult(GetStatus.RECORD_DAMAGED, offset + examined, low, high)
        status = GetStatus.FOUND
        if not records:
            status = GetStatus.MESSAGE_WAS_REMOVING if is_removed else GetStatus.NO_MATCHED_MESSAGE
        is_far_behind = entries[examined - 1].physical_offset < self._disk_end
        return GetResult(status, offset + examined, low, high, records, is_far_behind)

    @property
    def _disk_end(self) -> int:
        """Records below this offset count as on the disk (RocketMQ, checkInDiskByCommitOffset)."""
        return self._log.end_offset - self._limits.memory_bytes

    def _count_to_examine(self, max_messages: int, *, filters: bool) -> int:
        if not filters:  # every message matches
            limits = self._limits
            count_max = max(limits.transfer_memory_count, limits.transfer_disk_count)
            return max(1, min(max_messages, count_max))
        return max(_SCAN_BYTES_MIN // ENTRY_SIZE, max_messages)

    @staticmethod
    def _next_file(queue: ConsumeQueue, offset: int) -> int:
        per_file = queue.files.file_size // ENTRY_SIZE
        return offset - offset % per_file + per_file

    def _choose(
        self, entries: list[Entry], max_messages: int, tags: frozenset[int] | None
    ) -> tuple[int, list[Entry]]:
        """How many entries were examined, and which of them to return; the first match always fits."""
        limits, disk_end = self._limits, self._disk_end
        if (
            tags is None
            and len(entries) <= min(max_messages, limits.transfer_memory_count)
            and entries[0].physical_offset >= disk_end
            and sum([entry.size for entry in entries]) <= limits.transfer_memory_bytes
        ):
            return len(entries), entries  # the case of most pulls
        chosen: list[Entry] = []
        size = 0
        for examined, entry in enumerate(entries):
            if chosen:
                if entry.physical_offset < disk_end:
                    size_max, count_max = limits.transfer_disk_bytes, limits.transfer_disk_count
                else:
                    size_max, count_max = limits.transfer_memory_bytes, limits.transfer_memory_count
                if len(chosen) >= min(max_messages, count_max) or size + entry.size > size_max:
                    return examined, chosen
            if tags is None or _tag_hash(entry.tags_code) in tags:
                chosen.append(entry)
                size += entry.size
        return len(entries), chosen

    def _select(
        self,
        entries: list[Entry],
        max_messages: int,
        tags: frozenset[int] | None,
        selection: _Selection,
    ) -> int:
        """Like `_choose`, by entries and records, into `selection`; returns how many entries were examined."""
        limits, disk_end = self._limits, self._disk_end
        for examined, entry in enumerate(entries):
            if selection.records:
                if entry.physical_offset < disk_end:
                    size_max, count_max = limits.transfer_disk_bytes, limits.transfer_disk_count
                else:
                    size_max, count_max = limits.transfer_memory_bytes, limits.transfer_memory_count
                if (
                    len(selection.records) >= min(max_messages, count_max)
                    or selection.size + entry.size > size_max
                ):
                    return examined
            if selection.bytes_read > _EXAMINED_BYTES_MAX or selection.damaged is not None:
                return examined
            if tags is None or _tag_hash(entry.tags_code) in tags:
                selection.look_at(examined, entry)
        return len(entries)

    def _read_records(self, entries: list[Entry]) -> tuple[list[bytes], Entry | None]:
        """The existing records of `entries`, up to the first damaged one, and the entry of that one, if any.

        It reads neighbouring records at once.
        """
        records: list[bytes] = []
        read, lost = self._log.read, self._lost
        for run in _runs(entries):
            first, last = run[0], run[-1]
            start = first.physical_offset
            data = read(start, last.physical_offset + last.size - start)
            for entry in run:
                offset, size, _ = entry
                record = data[offset - start : offset - start + size]
                # A read ends at the end of its file: a record of the next file is not in `data`.
                if len(record) < size:
                    record = read(offset, size)
                if len(record) == size and offset not in lost:
                    if not is_sound(record, offset):
                        return records, entry
                    records.append(record)
        return records, None

    # --- by time ---------------------------------------------------------------------------------------------------

    def is_deleted(self, queue: ConsumeQueue, offset: int) -> bool:
        """Whether the record of entry `offset` lies before the log's first file."""
        entries = queue.read(offset, 1)
        return bool(entries) and entries[0].physical_offset < self._log.min_offset

    def store_time_ms(self, queue: ConsumeQueue, offset: int) -> int:
        """Store time of message `offset` in ms since 1970; -1 if there is no such message."""
        entries = queue.read(offset, 1)
        if not entries:
            return -1
        header = self._log.read(
            entries[0].physical_offset, min(entries[0].size, RECORD_HEADER_SIZE)
        )
        return stored_at_ms(header) if len(header) == RECORD_HEADER_SIZE else -1


class _Selection:
    """Collects the records that a filter wants, and counts the bytes read to find them."""

    __slots__ = (
        "_log",
        "_lost",
        "_units",
        "_wanted",
        "bytes_read",
        "damaged",
        "met_removed",
        "records",
        "size",
    )

    def __init__(
        self,
        log: CommitLog,
        wanted: RecordFilter,
        units: list[ExtensionUnit | None],
        lost: Set[int],
    ) -> None:
        self._log = log
        self._wanted = wanted
        self._units = units
        self._lost = lost
        self.records: list[bytes] = []
        self.size = 0
        self.bytes_read = 0
        self.met_removed = False
        self.damaged: Entry | None = None

    def look_at(self, number: int, entry: Entry) -> None:
        """Take the record of `entry`, the `number`th one read, if the filter wants it."""
        unit = self._units[number] if self._units else None
        if not self._wanted.may_match(unit, entry.physical_offset):
            return
        record = self._log.read(entry.physical_offset, entry.size)
        self.bytes_read += len(record)
        if len(record) < entry.size or entry.physical_offset in self._lost:
            self.met_removed = True
            return
        if not is_sound(record, entry.physical_offset):
            self.damaged = entry
            return
        try:
            properties = record_properties(record)
        except RecordError:
            self.met_removed = True
            return
        if self._wanted.matches(properties):
            self.records.append(record)
            self.size += entry.size


def _runs(entries: list[Entry]) -> Iterator[list[Entry]]:
    """Runs of entries whose records are close to each other in the log, to be read at once."""
    begin = end = 0
    for number, (offset, size, _) in enumerate(entries):
        if not 0 <= offset - end <= _GAP_SIZE_MAX and number:
            yield entries[begin:number]
            begin = number
        end = offset + size
    if entries:
        yield entries[begin:]


def _ignore(_physical_offset: int) -> None:
    """The default of `on_damage`: a store without a broker has no replica to ask."""


def _tag_hash(tags_code: int) -> int:
    """The low 32 bits as Java's int, as in a subscription's code set."""
    return ((tags_code + 0x8000_0000) & 0xFFFF_FFFF) - 0x8000_0000
