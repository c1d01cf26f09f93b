"""Gives durable records their queue and index entries (RocketMQ, ReputMessageService).

Records wait here, in log order, from their append until a flush has made them durable. RocketMQ instead reads them back
from the log, up to the written end: a consumer can then commit an offset beyond what survives a power cut.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from staticfire.system_under_test.store.errors import StoreError
from staticfire.system_under_test.store.index.message_index import MessageIndex
from staticfire.system_under_test.store.queues.consume_queue import ENTRY, ConsumeQueue
from staticfire.system_under_test.store.results import Dispatched

WaitingRecord = tuple[ConsumeQueue | None, Dispatched]  # None: the record gets no queue entry


class _Batch:
    """Entries of one queue to be appended together."""

    __slots__ = ("entries", "next_offset", "queue")

    def __init__(self, queue: ConsumeQueue, first_offset: int) -> None:
        self.queue = queue
        if not queue.max_offset and not queue.files.files:
            numbers_given = queue.next_offset
            # on a replica whose log begins in the middle of the master's
            queue.begin_at(first_offset)
            queue.next_offset = max(numbers_given, first_offset)
        self.entries = bytearray()
        self.next_offset = queue.max_offset


class Dispatcher:
    """Holds records that are appended but not yet visible in their queues."""

    __slots__ = (
        "_dirty_queues",
        "_index",
        "_waiting",
        "dispatched_offset",
        "durable_offset",
        "last_timestamp_ms",
    )

    def __init__(self, index: MessageIndex) -> None:
        self._index = index
        self._waiting: deque[WaitingRecord] = deque()
        self.dispatched_offset = 0
        self.durable_offset = 0  # below it every queue entry survives a power cut
        self.last_timestamp_ms = 0  # store time of the last record dispatched
        # queues with entries to be flushed
        self._dirty_queues: dict[tuple[str, int], ConsumeQueue] = {}

    def begin_at(self, offset: int, last_timestamp_ms: int, queues: Iterable[ConsumeQueue]) -> None:
        """Start at `offset`: everything before it is dispatched; `queues` have entries of recovery to be flushed."""
        self.dispatched_offset = offset
        self.last_timestamp_ms = last_timestamp_ms
        for queue in queues:
            if queue.dirty_from is not None:
                self.touch(queue)
        self.durable_offset = 0 if self._dirty_queues else offset

    def touch(self, queue: ConsumeQueue) -> None:
        """The queue's files have changed: include it in the next flush."""
        self._dirty_queues[queue.topic, queue.queue_id] = queue

    def add(self, queue: ConsumeQueue | None, message: Dispatched) -> None:
        """Let an appended message wait for its flush; `queue` is None for a message without a queue entry."""
        if queue is not None and queue.next_offset <= message.queue_offset:
            queue.next_offset = message.queue_offset + 1
        self._index.reserved += len(message.hashes)
        self._waiting.append((queue, message))

    def end_of_next(self, count: int) -> int | None:
        """The end of the first `count` waiting records; None if at most `count` records are waiting."""
        waiting = self._waiting
        return waiting[count - 1][1].end_offset if len(waiting) > count else None

    def dispatch(self, durable_offset: int) -> list[Dispatched]:
        """Append the entries of all records that end at or before `durable_offset`; return those messages.

        Raises:
            NoSpace: nothing was appended; the records keep waiting.
            StoreError: a queue would get a hole.
            OSError: an entry could not be written.
        """
        due = self._due(durable_offset)
        if not due:
            return []
        batches, visible = self._collect(due)
        index = self._index
        keys = [
            (key_hash, message.physical_offset, message.store_timestamp_ms)
            for _, message in due
            for key_hash in message.hashes
        ]
        index.make_room(len(keys))
        for batch in batches:
            batch.queue.reserve_up_to(batch.next_offset)
        for batch in batches:
            batch.queue.append(batch.entries)
            self.touch(batch.queue)
        index.add(keys)
        index.reserved -= len(keys)
        self._drop_first(len(due))
        last = due[-1][1]
        self.dispatched_offset = last.end_offset
        self.last_timestamp_ms = last.store_timestamp_ms
        return visible

    def _due(self, durable_offset: int) -> list[WaitingRecord]:
        """The records that end at or before `durable_offset`; does not remove them."""
        waiting = self._waiting
        if waiting and waiting[-1][1].end_offset <= durable_offset:  # the usual case: all of them
            return list(waiting)
        due = []
        for record in waiting:
            if record[1].end_offset > durable_offset:
                break
            due.append(record)
        return due

    def _drop_first(self, count: int) -> None:
        waiting = self._waiting
        if count == len(waiting):
            waiting.clear()
            return
        for _ in range(count):
            waiting.popleft()

    def _collect(self, records: list[WaitingRecord]) -> tuple[list[_Batch], list[Dispatched]]:
        """The entries of `records` by queue, and their messages; skips entries that a queue already has."""
        batches: dict[ConsumeQueue, _Batch] = {}
        visible = []
        for queue, message in records:
            if queue is None:
                continue
            batch = batches.get(queue)
            if batch is None:
                batch = batches[queue] = _Batch(queue, message.queue_offset)
            if message.queue_offset < batch.next_offset:
                continue  # RocketMQ, ConsumeQueue: "maybe try to build consume queue repeatedly"
            if message.queue_offset > batch.next_offset:
                self._meet_hole(message, batch.next_offset)
            start = message.physical_offset
            extension = queue.extension
            code = message.tags_code if extension is None else extension.code_for(message)
            batch.entries += ENTRY.pack(start, message.end_offset - start, code)
            batch.next_offset += 1
            visible.append(message)
        return list(batches.values()), visible

    def _meet_hole(self, message: Dispatched, next_offset: int) -> None:
        """The queue of `message` lacks message `next_offset`. Raises StoreError."""
        raise StoreError(
            f"queue {message.topic}/{message.queue_id} has no message {next_offset};"
            f" the next record is number {message.queue_offset}"
        )

    def drop_from(self, offset: int, time_ms: int) -> None:
        """Forget the records that end beyond `offset`: the log is cut there, in or after a record of `time_ms`."""
        while self._waiting and self._waiting[-1][1].end_offset > offset:
            self._index.reserved -= len(self._waiting.pop()[1].hashes)
        self.durable_offset = min(self.durable_offset, offset)
        if self.dispatched_offset > offset:
            self.dispatched_offset = offset
            self.last_timestamp_ms = min(self.last_timestamp_ms, time_ms)

    def restore_next_offsets(self) -> None:
        """Set the queues' next offsets behind the records that still wait, after a cut has set them back."""
        for queue, message in self._waiting:
            if queue is not None:
                queue.next_offset = message.queue_offset + 1

    def begin_flush(self) -> list[ConsumeQueue]:
        """Queues to be flushed; later changes belong to the next flush."""
        queues = list(self._dirty_queues.values())
        self._dirty_queues = {}
        return queues
