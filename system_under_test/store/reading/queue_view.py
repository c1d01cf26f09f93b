"""Inspects consume queues (RocketMQ, DefaultMessageStore.getConsumeQueue and others)."""

from __future__ import annotations

from staticfire.system_under_test.store.queues.consume_queue import Entry
from staticfire.system_under_test.store.queues.queue_table import QueueTable
from staticfire.system_under_test.store.reading.reading import QueueReader
from staticfire.system_under_test.store.reading.time_search import TimeSearch
from staticfire.system_under_test.store.record_filter import ExtensionUnit


class QueueView:
    """Read-only access to queues: makes no missing queue."""

    __slots__ = ("_queues", "_reader", "_search")

    def __init__(self, queues: QueueTable, reader: QueueReader, search: TimeSearch) -> None:
        self._queues = queues
        self._reader = reader
        self._search = search

    def exists(self, topic: str, queue_id: int) -> bool:
        return self._queues.get(topic, queue_id) is not None

    def list_keys(self) -> list[tuple[str, int]]:
        """(topic, queue id) of every queue, sorted."""
        return sorted((queue.topic, queue.queue_id) for queue in self._queues)

    def next_offset(self, topic: str, queue_id: int) -> int:
        """The queue offset of the next put; messages below it may not be visible yet."""
        queue = self._queues.get(topic, queue_id)
        return 0 if queue is None else queue.next_offset

    def entries(self, topic: str, queue_id: int, offset: int, count: int) -> list[Entry]:
        """Up to `count` visible entries of a queue from `offset`; [] if there are none."""
        queue = self._queues.get(topic, queue_id)
        return [] if queue is None else queue.read(offset, count)

    def extension_units(
        self, topic: str, queue_id: int, offset: int, count: int
    ) -> list[ExtensionUnit | None]:
        """The extension's units of `count` entries from `offset`; [] without an extension."""
        queue = self._queues.get(topic, queue_id)
        return [] if queue is None else queue.extension_units(offset, count)

    def search_by_time(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """The queue offset of the message stored closest to `timestamp_ms`; 0 if there is none."""
        queue = self._queues.get(topic, queue_id)
        return 0 if queue is None else self._search(self._reader, queue, timestamp_ms)

    def store_time_ms(self, topic: str, queue_id: int, offset: int) -> int:
        """Store time of message `offset` in ms since 1970; -1 if there is no such message."""
        queue = self._queues.get(topic, queue_id)
        return -1 if queue is None else self._reader.store_time_ms(queue, offset)

    def earliest_store_time_ms(self, topic: str, queue_id: int) -> int:
        """Store time of the first message of the queue in ms since 1970; -1 if there is none."""
        queue = self._queues.get(topic, queue_id)
        return -1 if queue is None else self._reader.store_time_ms(queue, queue.min_offset)
