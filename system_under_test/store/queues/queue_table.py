"""All consume queues of a store, by topic and queue id (RocketMQ, DefaultMessageStore.consumeQueueTable)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from staticfire.system_under_test.runtime.env import Storage
from staticfire.system_under_test.store.errors import StoreError
from staticfire.system_under_test.store.queues.consume_queue import ConsumeQueue
from staticfire.system_under_test.store.queues.queue_extension import QueueExtension
from staticfire.system_under_test.store.results import Dispatched

# A topic names a folder, so only these characters may reach a path (RocketMQ, TopicValidator).
_TOPIC_NAME = re.compile(r"[%|a-zA-Z0-9_-]{1,127}")


def is_topic_name(topic: str) -> bool:
    return _TOPIC_NAME.fullmatch(topic) is not None


class Extensions:
    """Makes the extensions of queues; `bit_map_of` gives the bits of a message that is being dispatched."""

    __slots__ = ("_file_size", "_is_written", "_root", "_storage", "bit_map_of")

    def __init__(self, storage: Storage, root: str, file_size: int, *, is_written: bool) -> None:
        self._storage = storage
        self._root = root
        self._file_size = file_size
        self._is_written = is_written
        self.bit_map_of: Callable[[Dispatched], bytes] = lambda message: b""

    def make(self, topic: str, queue_id: int) -> QueueExtension | None:
        """The extension of a queue; None if extensions are off and the queue has no old one."""
        folder = f"{self._root}/{topic}/{queue_id}"
        if not (self._is_written or self._storage.exists(folder)):
            return None
        return QueueExtension(
            self._storage,
            self._root,
            topic,
            queue_id,
            self._file_size,
            bit_map_of=lambda message: self.bit_map_of(message),
            is_written=self._is_written,
        )


class QueueTable:
    """Finds, makes and loads consume queues. Iteration is in the order in which they were made or loaded."""

    __slots__ = ("_extensions", "_file_size", "_queues", "_storage", "_tags_code_at", "folder")

    def __init__(
        self,
        storage: Storage,
        root: str,
        file_size: int,
        *,
        extensions: Extensions | None = None,
        tags_code_at: Callable[[int], int] = lambda physical_offset: 0,
    ) -> None:
        """A table without queues; see `ConsumeQueue` for the arguments."""
        self._storage = storage
        self.folder = root
        self._file_size = file_size
        self._extensions = extensions
        self._tags_code_at = tags_code_at
        self._queues: dict[tuple[str, int], ConsumeQueue] = {}

    def load(self, *, clean: bool = False, whole: bool = False) -> None:
        """Find the queues on disk and check their files (see MappedFileQueue.load). Raises StoreError."""
        for topic in sorted(self._storage.listdir(self.folder)):
            for queue_id in sorted(self._storage.listdir(f"{self.folder}/{topic}")):
                if not (is_topic_name(topic) and queue_id.isdecimal()):
                    raise StoreError(
                        f"{self.folder}/{topic}/{queue_id} is not the folder of a consume queue"
                    )
                queue = self.get_or_create(topic, int(queue_id))
                queue.files.load(clean=clean, whole=whole)
                if queue.extension is not None:
                    queue.extension.files.load(clean=clean, whole=whole)

    def load_extensions(self) -> None:
        """Load the extensions of all queues; call once the queues are recovered. Raises OSError."""
        for queue in self:
            queue.load_extension()

    def forget_cache(self) -> None:
        """Read from the disk alone (see MappedFileQueue.forget_cache)."""
        for queue in self:
            queue.files.forget_cache()
            if queue.extension is not None:
                queue.extension.files.forget_cache()

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        return self._queues.get((topic, queue_id))

    def get_or_create(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue; a new one has no files until an entry is reserved. The topic must be a topic name."""
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            assert is_topic_name(topic), topic
            queue = ConsumeQueue(
                self._storage,
                self.folder,
                topic,
                queue_id,
                self._file_size,
                extension=self._extensions.make(topic, queue_id) if self._extensions else None,
                tags_code_at=self._tags_code_at,
            )
            self._queues[topic, queue_id] = queue
        return queue

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return iter(self._queues.values())

    def __len__(self) -> int:
        return len(self._queues)

    def close_retired(self) -> None:
        """Close removed files of all queues, idle ones too; call when no flush of queues is in flight."""
        for queue in self:
            queue.files.close_retired()
            if queue.extension is not None:
                queue.extension.files.close_retired()

    def close(self) -> None:
        for queue in self:
            queue.files.close()
            if queue.extension is not None:
                queue.extension.files.close()
