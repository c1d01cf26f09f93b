"""Gives durable records their queue and index entries (RocketMQ, ReputMessageService).

Records wait here, in log order, from their append until a flush has vouched for them. RocketMQ reads them back from the
log instead, and goes up to the written end: a consumer could then commit an offset that a power cut takes back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from system_under_test.store.consume_queue import ENTRY, ConsumeQueue
from system_under_test.store.errors import StoreError
from system_under_test.store.message_index import MessageIndex
from system_under_test.store.results import Dispatched

__all__ = ["Dispatcher", "WaitingRecord"]


class WaitingRecord(NamedTuple):
    """A record that is appended and not yet visible."""

    end_offset: int
    queue: ConsumeQueue | None  # None: a record without an entry
    entry: bytes
    message: Dispatched
    offset: int
    hashes: tuple[int, ...]  # of its keys


class _Batch:
    """Entries of one queue to be appended together."""

    __slots__ = ("entries", "next_offset", "queue")

    def __init__(self, queue: ConsumeQueue, first_offset: int) -> None:
        self.queue = queue
        if not queue.max_offset and not queue.files.files:
            queue.begin_at(first_offset)  # a replica that begins in the middle of the log
        self.entries = bytearray()
        self.next_offset = queue.max_offset


class Dispatcher:
    """Holds what is appended and not yet visible."""

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
        self._dirty_queues: dict[tuple[str, int], ConsumeQueue] = {}  # with entries to be flushed

    def begin_at(self, offset: int, last_timestamp_ms: int, queues: Iterable[ConsumeQueue]) -> None:
        """Everything before `offset` is dispatched; what recovery has written to the queues is to be flushed."""
        self.dispatched_offset = offset
        self.last_timestamp_ms = last_timestamp_ms
        for queue in queues:
            if queue.dirty_from is not None:
                self.touch(queue)
        self.durable_offset = 0 if self._dirty_queues else offset

    def touch(self, queue: ConsumeQueue) -> None:
        """The queue's files have changed: it belongs to the next flush."""
        self._dirty_queues[queue.topic, queue.queue_id] = queue

    def add(
        self,
        queue: ConsumeQueue | None,
        physical_offset: int,
        size: int,
        message: Dispatched,
        hashes: tuple[int, ...],
    ) -> None:
        """Let a record that was appended wait for its flush; `hashes` are those of its keys."""
        entry = b""
        if queue is not None:
            entry = ENTRY.pack(physical_offset, size, message.tags_code)
            queue.next_offset = max(queue.next_offset, message.queue_offset + 1)
        self._index.reserved += len(hashes)
        self._waiting.append(
            WaitingRecord(physical_offset + size, queue, entry, message, physical_offset, hashes)
        )

    def dispatch(self, durable_offset: int) -> list[Dispatched]:
        """Append the entries of all records that end at or before `durable_offset`; return those messages.

        Raises:
            NoSpace: nothing was appended; the records go on waiting.
            StoreError: a queue would get a hole.
            OSError: an entry could not be written.
        """
        waiting = self._waiting
        count = 0
        for record in waiting:
            if record.end_offset > durable_offset:
                break
            count += 1
        if not count:
            return []
        batches: dict[tuple[str, int], _Batch] = {}
        visible = [
            record.message for record in islice(waiting, count) if self._collect(record, batches)
        ]
        index = self._index
        index.make_room(sum([len(record.hashes) for record in islice(waiting, count)]))
        for batch in batches.values():
            batch.queue.reserve_up_to(batch.next_offset)
        for batch in batches.values():
            batch.queue.append(batch.entries)
            self.touch(batch.queue)
        for _ in range(count):
            record = waiting.popleft()
            if record.hashes:
                index.add(record.offset, record.message.store_timestamp_ms, record.hashes)
                index.reserved -= len(record.hashes)
        self.dispatched_offset = record.end_offset
        self.last_timestamp_ms = record.message.store_timestamp_ms
        return visible

    def _collect(self, record: WaitingRecord, batches: dict[tuple[str, int], _Batch]) -> bool:
        """Add the entry to the batch of its queue; False if it is none or the queue has it already."""
        queue = record.queue
        if queue is None:
            return False
        key = (queue.topic, queue.queue_id)
        batch = batches.get(key)
        if batch is None:
            batch = batches[key] = _Batch(queue, record.message.queue_offset)
        missing = record.message.queue_offset - batch.next_offset
        if missing < 0:  # RocketMQ, ConsumeQueue: "maybe try to build consume queue repeatedly"
            return False
        if missing > 0:
            self._meet_hole(record, batch.next_offset)
        batch.entries += record.entry
        batch.next_offset += 1
        return True

    def _meet_hole(self, record: WaitingRecord, next_offset: int) -> None:
        """The queue of `record` lacks message `next_offset`. Raises StoreError."""
        message = record.message
        raise StoreError(
            f"queue {message.topic}/{message.queue_id} has no message {next_offset};"
            f" the next record is number {message.queue_offset}"
        )

    def drop_from(self, offset: int, time_ms: int) -> None:
        """Forget the records that end beyond `offset`: the log is cut there, in or after a record of `time_ms`."""
        while self._waiting and self._waiting[-1].end_offset > offset:
            self._index.reserved -= len(self._waiting.pop().hashes)
        self.durable_offset = min(self.durable_offset, offset)
        if self.dispatched_offset > offset:
            self.dispatched_offset = offset
            self.last_timestamp_ms = min(self.last_timestamp_ms, time_ms)

    def restore_next_offsets(self) -> None:
        """Count what still waits into the queues' next offsets, after a cut has set them back."""
        for record in self._waiting:
            if record.queue is not None:
                record.queue.next_offset = record.message.queue_offset + 1

    def begin_flush(self) -> list[ConsumeQueue]:
        """Queues to be flushed; what gets dirty from now on belongs to the next flush."""
        queues = list(self._dirty_queues.values())
        self._dirty_queues = {}
        return queues
