"""Finds where the log ends and makes the consume queues agree with it (RocketMQ, CommitLog.recoverNormally/Abnormally).

Normal and abnormal recovery take the same steps: choose a file to begin with, walk the records from there, cut the log
at the first bytes that are not a record, rebuild every queue entry that points into the part walked. A record that was
durable and is damaged now does not end the log: see `damaged_records`. After a clean exit the walk begins at the
third-last file; otherwise at the newest file whose first record is durable by the checkpoint, queue entries included.
If queues turn out to be incomplete before that file, the walk begins again at the first file.

Every step can be repeated: after a power cut during recovery, the next recovery has the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from staticfire.system_under_test.protocol.message import MAGIC_MESSAGE
from staticfire.system_under_test.runtime.env import Log, Storage
from staticfire.system_under_test.store.checkpoint import Checkpoint
from staticfire.system_under_test.store.errors import StoreError
from staticfire.system_under_test.store.flush import SyncPlan
from staticfire.system_under_test.store.index.index_recovery import IndexRecovery
from staticfire.system_under_test.store.index.message_index import MessageIndex
from staticfire.system_under_test.store.index_keys import KeyHasher
from staticfire.system_under_test.store.log.commit_log import CommitLog
from staticfire.system_under_test.store.queues.consume_queue import (
    ENTRY,
    ENTRY_SIZE,
    FILLER_SIZE,
    ConsumeQueue,
)
from staticfire.system_under_test.store.queues.queue_table import QueueTable, is_topic_name
from staticfire.system_under_test.store.record_scan import (
    BLANK_HEADER,
    BLANK_HEADER_SIZE,
    RecordScanner,
    ScanEnd,
    ScannedRecord,
)
from staticfire.system_under_test.store.recovery.damaged_records import DamagedRange, DamagedRecords

_WINDOW_SIZE = 4 << 20
_COPY_SIZE = 1 << 20
_FILES_AFTER_CLEAN_EXIT = 3  # RocketMQ, CommitLog.recoverNormally


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryReport:
    """The findings of a recovery.

    `cut_bytes`: number of bytes cut behind the last good record, up to the last one other than zero; `bad_checksum`:
    they begin with a record whose body does not match its checksum; `damaged`: physical offsets of records that were
    durable and are invalid now.
    """

    clean: bool
    start_file: int  # first byte of the file where the walk began
    end_offset: int
    cut_bytes: int
    bad_checksum: bool
    messages_redispatched: int
    damaged: tuple[int, ...]


@dataclass(slots=True, kw_only=True)
class _QueueTail:
    """Entries of one queue found in the walk; the first has queue offset `start`."""

    start: int
    entries: bytearray

    @property
    def end(self) -> int:
        return self.start + len(self.entries) // ENTRY_SIZE


class _Walk:
    """Collects queue entries and key figures from the records of a walk that begins at one file."""

    def __init__(
        self,
        log: CommitLog,
        index: IndexRecovery,
        start: int,
        physic_ms: int,
        damaged_records: DamagedRecords | None,
    ) -> None:
        self._log = log
        self._index = index
        self._physic_ms = physic_ms
        self._damaged_records = damaged_records
        self.start = start
        self.end = start
        self.last_ms = 0
        # first record that may not be durable by the checkpoint
        self.doubtful_from: int | None = None
        self.messages = 0
        self.damaged: list[int] = []
        self._unplaced: list[DamagedRange] = []  # damaged messages whose queue is unknown
        self.tails: dict[tuple[bytes, int], _QueueTail] = {}

    def found(self, record: ScannedRecord) -> None:
        if record.store_timestamp_ms > self.last_ms:
            self.last_ms = record.store_timestamp_ms
        if self.doubtful_from is None and record.store_timestamp_ms >= self._physic_ms:
            self.doubtful_from = record.physical_offset
        self._log.mark(record.physical_offset)
        self._index.add(record)
        if record.has_entry:
            placed = self._placed(record)
            if placed is not None:
                self._add_entry(placed)

    def _placed(self, record: ScannedRecord) -> ScannedRecord | None:
        """The record with its true topic, queue and queue offset, which have no checksum; None if they are unknown."""
        tail = self.tails.get((record.topic, record.queue_id))
        if self._damaged_records is None or (tail is not None and record.queue_offset == tail.end):
            return record
        known = self._damaged_records.place_of(record)
        if known is None and is_topic_name(record.topic.decode("utf-8", "replace")):
            return record
        start = record.physical_offset
        self.damaged.append(start)
        if known is None:
            self._unplaced.append(DamagedRange(start, start + record.size, None))
        return known

    def pass_over(self, damaged: DamagedRange) -> None:
        """Go on behind damaged bytes; the message there keeps its queue offset."""
        self.damaged.append(damaged.start)
        if damaged.record is not None:
            self.found(damaged.record)
        else:
            self._log.note_start(damaged.start)
            self._unplaced.append(damaged)
        self.end = damaged.end

    def _add_entry(self, record: ScannedRecord) -> None:
        key = (record.topic, record.queue_id)
        tail = self.tails.get(key)
        if tail is None:
            tail = self.tails[key] = _QueueTail(start=record.queue_offset, entries=bytearray())
        missing = record.queue_offset - tail.end
        if missing > 0 and self._fill(tail, missing):
            missing = 0
        if missing > 0:
            raise StoreError(
                f"queue {record.topic.decode()}/{record.queue_id} has no message {tail.end}:"
                f" the record at {record.physical_offset} is number {record.queue_offset}"
            )
        if (
            missing < 0
        ):  # a repeated queue offset; the first record keeps it (RocketMQ, ConsumeQueue)
            return
        tail.entries += ENTRY.pack(record.physical_offset, record.size, record.tags_code)
        self.messages += 1

    def _fill(self, tail: _QueueTail, count: int) -> bool:
        """Append entries for `count` damaged messages found since the last entry; return whether there are so many."""
        last = ENTRY.unpack_from(tail.entries, len(tail.entries) - ENTRY_SIZE)[0]
        since = [damaged for damaged in self._unplaced if damaged.start > last]
        if len(since) < count:
            return False
        for damaged in since[-count:]:
            tail.entries += ENTRY.pack(damaged.start, damaged.end - damaged.start, 0)
            self._unplaced.remove(damaged)
            self.messages += 1
        return True


class Recovery:
    """Recovers one store whose files are loaded. Use once."""

    def __init__(
        self,
        *,
        storage: Storage,
        commit_log: CommitLog,
        queues: QueueTable,
        checkpoint: Checkpoint,
        scanner: RecordScanner,
        log: Log,
        index: MessageIndex,
        hasher: KeyHasher,
        index_recovery: type[IndexRecovery],
        keeps_damaged: bool,
    ) -> None:
        self._storage = storage
        self._commit_log = commit_log
        self._queues = queues
        self._checkpoint = checkpoint
        self._scanner = scanner
        self._log = log
        self._damaged_records = (
            DamagedRecords(
                commit_log=commit_log,
                queues=queues,
                checkpoint=checkpoint,
                scanner=scanner,
                record_at=self._record_at,
            )
            if keeps_damaged
            else None
        )
        self._index = index_recovery(
            index=index,
            hasher=hasher,
            checkpoint=checkpoint,
            record_at=self._record_at,
            scan=self._scan_part,
            log=log,
        )
        self.last_timestamp_ms = 0  # of the newest record

    def run(self, *, clean: bool) -> RecoveryReport:
        """Recover; afterwards everything up to the end of the log is durable. Raises StoreError, OSError."""
        start = self._normal_start() if clean else self._abnormal_start()
        first = self._commit_log.min_offset
        self._index.prepare(first, start, clean=clean)
        walk = self._walk(start)
        if walk.start > first and not self._is_complete_before(walk):
            self._log.warning("consume queues are incomplete, rebuilding all", start=walk.start)
            walk = self._walk(first)
        self.last_timestamp_ms = walk.last_ms
        files = self._commit_log.files
        cut_bytes = files.end_of_content(walk.end) - walk.end
        bad_checksum = cut_bytes > 0 and self._scanner.has_bad_body(
            files.read(walk.end, _WINDOW_SIZE), walk.end
        )
        is_intact = clean and cut_bytes == 0 and files.has_full_size()
        # Before the log is cut: what is appended later may be older than the checkpoint, and must not count as durable.
        self._checkpoint.lower_to(walk.last_ms)
        self._commit_log.begin_at(walk.end)
        self._index.finish(walk.end)
        if not is_intact:
            self._repair_log(walk)
        if not files.files and (orphans := sum(bool(queue.files.files) for queue in self._queues)):
            self._log.warning("the commit log is gone: what queues held is lost", queues=orphans)
        for queue in self._all_queues(walk):
            self._recover_queue(queue, walk, clean=clean)
        if walk.start == self._commit_log.min_offset > 0:
            self._fill_queues(walk)
        return RecoveryReport(
            clean=clean,
            start_file=walk.start,
            end_offset=walk.end,
            cut_bytes=cut_bytes,
            bad_checksum=bad_checksum,
            messages_redispatched=walk.messages,
            damaged=tuple(walk.damaged),
        )

    # --- where to begin --------------------------------------------------------------------------------------------

    def _normal_start(self) -> int:
        files = self._commit_log.files.files[-_FILES_AFTER_CLEAN_EXIT:]
        return files[0].base if files else 0

    def _abnormal_start(self) -> int:
        durable_until_ms = self._checkpoint.min_timestamp_ms
        for mapped_file in reversed(self._commit_log.files.files):
            first = self._record_at(mapped_file.base)
            if first is not None and 0 < first.store_timestamp_ms <= durable_until_ms:
                return mapped_file.base
        return self._commit_log.min_offset

    def _record_at(self, offset: int) -> ScannedRecord | None:
        """The sound record at `offset`, else None: a torn header may show any time and any queue offset."""
        header = self._commit_log.files.read(offset, BLANK_HEADER_SIZE)
        if len(header) < BLANK_HEADER_SIZE:
            return None
        size, magic = BLANK_HEADER.unpack(header)
        if magic != MAGIC_MESSAGE:
            return None
        found: list[ScannedRecord] = []
        record = self._commit_log.files.read(offset, size)
        self._scanner.scan(record, offset, found.append)
        return found[0] if found else None

    # --- the walk --------------------------------------------------------------------------------------------------

    def _walk(self, start: int) -> _Walk:
        walk = _Walk(
            self._commit_log,
            self._index,
            start,
            self._checkpoint.physic_ms,
            self._damaged_records,
        )
        files = self._commit_log.files
        window = _WINDOW_SIZE
        while True:
            data = files.read(walk.end, window)
            consumed, reason = self._scanner.scan(data, walk.end, walk.found)
            walk.end += consumed
            if reason is ScanEnd.BAD:
                damaged = self._damaged_at(walk.end, walk.last_ms)
                if damaged is None:
                    return walk
                walk.pass_over(damaged)
                continue
            if not data:
                return walk
            if consumed == 0:
                if len(data) < window:  # an incomplete record at the end of a file
                    return walk
                window *= 2  # a record larger than the window

    def _scan_part(self, start: int, end: int, found: Callable[[ScannedRecord], None]) -> None:
        """Call `found` for the records from `start`, where one begins, up to the file that begins at `end`."""
        file_size = self._commit_log.file_size
        window = _WINDOW_SIZE
        while start < end:
            data = self._commit_log.files.read(start, window)
            consumed, reason = self._scanner.scan(data, start, found)
            start += consumed
            damaged = self._damaged_at(start, 0) if reason is ScanEnd.BAD else None
            if damaged is not None:
                start = damaged.end
            elif reason is ScanEnd.BAD or (not consumed and len(data) < window):
                start += file_size - start % file_size  # damage; the next file begins with a record
            elif not consumed:
                window *= 2

    def _damaged_at(self, start: int, last_ms: int) -> DamagedRange | None:
        """The damaged range that begins at `start`; None if the log ends there, or the policy ends it at any damage."""
        damaged_records = self._damaged_records
        return None if damaged_records is None else damaged_records.at(start, last_ms)

    def _is_complete_before(self, walk: _Walk) -> bool:
        """Whether each queue met in the walk already has the entry before its first one in the walk."""
        for (topic, queue_id), tail in walk.tails.items():
            queue = self._queues.get(topic.decode(), queue_id)
            if tail.start and (
                queue is None or not self._is_entry(queue, tail.start - 1, walk.start)
            ):
                return False
        return any(queue.files.files for queue in self._queues)

    # --- the log ---------------------------------------------------------------------------------------------------

    def _repair_log(self, walk: _Walk) -> None:
        log = self._commit_log
        log.cut(walk.end)
        if not log.files.files:
            return
        # The dead process may have seen an fsync fail: then pages look clean but are not on the disk. `open` has asked
        # the kernel to drop its cache, which it need not do. So write again what is not proven durable, then sync
        # whatever the walk has read.
        if walk.doubtful_from is not None:
            self._write_again(walk.doubtful_from, walk.end)
        log.files.files[-1].is_new = True
        plan = SyncPlan(self._storage)
        plan.add(log.files.touched(walk.start, walk.end), log.files.entry_folders)
        plan.run()
        plan.finish()

    def _write_again(self, position: int, end: int) -> None:
        files = self._commit_log.files
        while position < end:
            data = files.read(position, min(_COPY_SIZE, end - position))
            files.write(position, data)
            position += len(data)

    # --- the queues ------------------------------------------------------------------------------------------------

    def _all_queues(self, walk: _Walk) -> list[ConsumeQueue]:
        for topic, queue_id in walk.tails:
            name = topic.decode("utf-8", "replace")
            if not is_topic_name(name):
                raise StoreError(
                    f"the log holds a message of topic {name!r}, which is not a topic name"
                )
            self._queues.get_or_create(name, queue_id)
        return list(self._queues)

    def _fill_queues(self, walk: _Walk) -> None:
        """Write fillers to empty positions before the entries of the queues: the records of these are deleted."""
        for (topic, queue_id), tail in walk.tails.items():
            self._queues.get_or_create(topic.decode(), queue_id).fill_before(tail.start)

    def _recover_queue(self, queue: ConsumeQueue, walk: _Walk, *, clean: bool) -> None:
        # before a write to the file, and before another file follows it
        queue.files.complete_last()
        tail = walk.tails.get((queue.topic.encode(), queue.queue_id))
        if tail is None:
            queue.begin_at(self._count_entries(queue, walk.start))
        else:
            queue.begin_at(tail.start)
            if clean and queue.holds(tail.entries):
                queue.begin_at(tail.end)  # as expected: nothing to write
            else:
                queue.append(tail.entries)
        if not queue.files.is_blank_from(queue.max_offset * ENTRY_SIZE):
            queue.cut(queue.max_offset)
        queue.correct_min(self._commit_log.min_offset)

    def _count_entries(self, queue: ConsumeQueue, limit: int) -> int:
        """The end of a queue of which the walk met no record.

        Its entries of records below `limit` are durable, so they form a prefix. What is behind them may be torn and
        look like an entry, so each entry probed must agree with its record.
        """
        low = queue.files.first_offset // ENTRY_SIZE
        high = queue.files.end_of_files // ENTRY_SIZE
        while low < high:
            middle = (low + high) // 2
            if self._is_entry(queue, middle, limit):
                low = middle + 1
            else:
                high = middle
        return low

    def _is_entry(self, queue: ConsumeQueue, offset: int, limit: int) -> bool:
        """Whether entry `offset` points to a record below `limit` that has this queue offset."""
        entry = queue.probe(offset)
        if entry is None or entry.physical_offset >= limit:
            return False
        if entry.physical_offset < self._commit_log.min_offset:
            # Its record has been deleted, but the queue goes on after it. A torn entry may point anywhere, even back.
            before = queue.probe(offset - 1) if offset else None
            return (
                before is None
                or before.physical_offset < entry.physical_offset
                or entry.size == FILLER_SIZE
            )
        record = self._record_at(entry.physical_offset)
        if record is None:
            damaged_records = self._damaged_records
            return damaged_records is not None and damaged_records.leads_there(queue, offset, entry)
        owner = (record.topic.decode(), record.queue_id, record.queue_offset)
        return owner == (queue.topic, queue.queue_id, offset) and record.size == entry.size
