"""Checks and appends bytes of another replica's log (RocketMQ, CommitLog.appendData checks nothing).

A transfer may end inside a record, but only whole records go to the files: header, topic and properties have no
checksum, so a record written in two parts could lose a few bytes between them in a power cut and still look sound.

It accepts a record of which only the body fails its checksum: the sender's disk has changed it, and the records behind
it must not wait for it. Readers detect the damage here as they do there.
"""

from __future__ import annotations

from collections.abc import Callable

from staticfire.system_under_test.store.appending.appending import Appender
from staticfire.system_under_test.store.appending.dispatcher import Dispatcher
from staticfire.system_under_test.store.errors import RecordInvalid
from staticfire.system_under_test.store.index_keys import KeyHasher, record_hashes
from staticfire.system_under_test.store.log.commit_log import CommitLog
from staticfire.system_under_test.store.queues.consume_queue import ConsumeQueue
from staticfire.system_under_test.store.queues.queue_table import QueueTable, is_topic_name
from staticfire.system_under_test.store.record_scan import RecordScanner, ScanEnd, ScannedRecord
from staticfire.system_under_test.store.results import Dispatched


class RawAppender:
    """Appends whole records and blanks, and holds back the bytes of one that has not arrived in full."""

    __slots__ = (
        "_appender",
        "_commit_log",
        "_dispatcher",
        "_hasher",
        "_partial",
        "_queues",
        "_scanner",
        "on_damage",
    )

    def __init__(
        self,
        *,
        commit_log: CommitLog,
        queues: QueueTable,
        dispatcher: Dispatcher,
        appender: Appender,
        scanner: RecordScanner,
        hasher: KeyHasher,
    ) -> None:
        self._commit_log = commit_log
        self._queues = queues
        self._dispatcher = dispatcher
        self._appender = appender
        self._scanner = scanner
        self._hasher = hasher
        self._partial = b""
        self.on_damage: Callable[[int], None] = lambda _: None

    def append(self, offset: int, data: bytes) -> None:
        """Append the records that `data`, which belongs at `offset`, completes.

        Raises:
            RecordInvalid, NoSpace: nothing was appended.
            OSError: a file operation failed; what was appended is unknown.
        """
        self._check_offset(offset)
        joined = self._partial + data
        records: list[ScannedRecord] = []
        damaged: list[ScannedRecord] = []
        consumed = self._check_records(joined, records, damaged)
        self._commit_log.append_raw(joined[:consumed])
        self._partial = joined[consumed:]
        for record in records:
            self._add(record)
        for record in damaged:
            self.on_damage(record.physical_offset)

    def drop_partial(self) -> None:
        """Forget the bytes held back: the log will not continue with them."""
        self._partial = b""

    def _check_offset(self, offset: int) -> None:
        """Raises RecordInvalid unless `offset` continues the held-back bytes or the log, or can start an empty log."""
        log = self._commit_log
        if offset == log.end_offset + len(self._partial):
            return
        self.drop_partial()
        if offset == log.end_offset:
            return
        if log.end_offset or offset % log.file_size:
            raise RecordInvalid(
                f"bytes for {offset} do not follow the log, which ends at {log.end_offset}"
            )
        log.begin_at(offset)
        self._dispatcher.begin_at(offset, 0, self._queues)

    def _check_records(
        self, data: bytes, records: list[ScannedRecord], damaged: list[ScannedRecord]
    ) -> int:
        """The size of the whole records and blanks in `data` that belong at the log's end. Raises RecordInvalid."""
        end = self._commit_log.end_offset
        consumed, reason = self._scanner.scan(data, end, records.append)
        while reason is ScanEnd.BAD:
            record = self._scanner.with_bad_body(data[consumed:], end + consumed)
            if record is None:
                raise RecordInvalid(f"the bytes for {end + consumed} are no record of that offset")
            records.append(record)
            damaged.append(record)
            consumed += record.size
            more, reason = self._scanner.scan(data[consumed:], end + consumed, records.append)
            consumed += more
        for record in records:
            if not is_topic_name(record.topic.decode("utf-8", "replace")):
                raise RecordInvalid(f"the record for {record.physical_offset} has no valid topic")
        return consumed

    def _add(self, record: ScannedRecord) -> None:
        topic = record.topic.decode()
        queue: ConsumeQueue | None = None
        if record.has_entry:
            queue = self._queues.get_or_create(topic, record.queue_id)
        self._commit_log.mark(record.physical_offset)
        # If this replica becomes the master, its store times continue from the newest one that it knows.
        self._appender.last_timestamp_ms = max(
            self._appender.last_timestamp_ms, record.store_timestamp_ms
        )
        message = Dispatched(
            topic,
            record.queue_id,
            record.queue_offset,
            record.tags_code,
            record.store_timestamp_ms,
            record.physical_offset,
            record.physical_offset + record.size,
            record_hashes(self._hasher, record),
        )
        self._dispatcher.add(queue, message)
