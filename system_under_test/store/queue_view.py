"""What administrators look at in consume queues (RocketMQ, DefaultMessageStore.getConsumeQueue and others)."""

from __future__ import annotations

from system_under_test.store.queue_table import QueueTable
from system_under_test.store.reading import QueueReader

__all__ = ["QueueView"]


class QueueView:
    """Reads queues; changes nothing, and makes no queue that is not there."""

    __slots__ = ("_queues", "_reader")

    def __init__(self, queues: QueueTable, reader: QueueReader) -> None:
        self._queues = queues
        self._reader = reader

    def exists(self, topic: str, queue_id: int) -> bool:
        return self._queues.get(topic, queue_id) is not None

    def store_time_ms(self, topic: str, queue_id: int, offset: int) -> int:
        """When message `offset` was stored, in milliseconds; -1 if there is none."""
        queue = self._queues.get(topic, queue_id)
        return -1 if queue is None else self._reader.store_time_ms(queue, offset)
