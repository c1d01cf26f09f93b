"""Consumer offsets of clustering groups (RocketMQ, ConsumerOffsetManager). Durable in config/consumerOffset.json."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping

from staticfire.system_under_test.store.metadata_file import MetadataFile

TOPIC_GROUP_SEPARATOR = "@"  # neither a topic nor a group may contain it
# Bytes of the table as slaves get it, in one frame of up to 16 MiB. RocketMQ has no limit.
SIZE_MAX = 6 << 20
OFFSET_SIZE = 32  # upper bound of the bytes that one queue's offset takes in the table

OffsetTable = dict[str, dict[int, int]]  # "topic@group" -> queue id -> queue offset


class ConsumerOffsets:
    """The committed offset of each group in each queue. A reset may move it backwards."""

    def __init__(self) -> None:
        self._table: OffsetTable = {}
        self._size = 0  # approximate bytes of the table
        self.changed = False  # since they were last saved

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        key = f"{topic}{TOPIC_GROUP_SEPARATOR}{group}"
        queues = self._table.setdefault(key, {})
        if queue_id not in queues:
            self._size += OFFSET_SIZE if queues else size_of(key, 1)
        if queues.get(queue_id) != offset:
            queues[queue_id] = offset
            self.changed = True

    def has_room(self, group: str, topic: str, queue_id: int) -> bool:
        """Whether an offset may be committed: the queue already has one, or one more fits into SIZE_MAX."""
        key = f"{topic}{TOPIC_GROUP_SEPARATOR}{group}"
        if queue_id in self._table.get(key, {}):
            return True
        return self._size + size_of(key, 1) <= SIZE_MAX

    def query(self, group: str, topic: str, queue_id: int) -> int | None:
        """The committed offset, or None if the group never committed one for this queue."""
        return self._table.get(f"{topic}{TOPIC_GROUP_SEPARATOR}{group}", {}).get(queue_id)

    def queues(self, group: str, topic: str) -> dict[int, int]:
        """The group's offsets in a topic, by queue id."""
        return dict(self._table.get(f"{topic}{TOPIC_GROUP_SEPARATOR}{group}", {}))

    def topics_of(self, group: str) -> list[str]:
        """Topics that the group has offsets for, sorted (RocketMQ, whichTopicByConsumer)."""
        return sorted(topic for topic, owner in self._keys() if owner == group)

    def topics_by_group(self) -> dict[str, list[str]]:
        """`topics_of` of all groups."""
        found: dict[str, list[str]] = {}
        for topic, group in sorted(self._keys()):
            found.setdefault(group, []).append(topic)
        return found

    def groups_of(self, topic: str) -> list[str]:
        """Groups that have offsets for the topic, sorted (RocketMQ, whichGroupByTopic)."""
        return sorted(group for known, group in self._keys() if known == topic)

    def count(self) -> int:
        """The number of pairs of topic and group that have offsets."""
        return len(self._table)

    def _keys(self) -> Iterator[tuple[str, str]]:
        """Topic and group of every queue map."""
        for key in self._table:
            topic, _, group = key.partition(TOPIC_GROUP_SEPARATOR)
            yield topic, group

    def clone(self, source_group: str, target_group: str, topic: str) -> None:
        """Copy the offsets of one group in a topic to another; does nothing if there are none.

        Raises ValueError if the table would be too large.
        """
        queues = self.queues(source_group, topic)
        if queues:
            key = f"{topic}{TOPIC_GROUP_SEPARATOR}{target_group}"
            if self._size + size_of(key, len(queues)) > SIZE_MAX:
                raise ValueError(full())
            self._table[key] = queues
            self._tables_changed()

    def forget_group(self, group: str) -> None:
        """Drop the offsets of a deleted group in all topics."""
        topics = self.topics_of(group)
        for topic in topics:
            del self._table[f"{topic}{TOPIC_GROUP_SEPARATOR}{group}"]
        if topics:
            self._tables_changed()

    def least_committed(self, topic: str, queue_id: int) -> int | None:
        """The lowest offset of the topic's groups in the queue, 0 for a group without one; None without groups."""
        prefix = topic + TOPIC_GROUP_SEPARATOR
        found = [
            queues.get(queue_id, 0) for key, queues in self._table.items() if key.startswith(prefix)
        ]
        return min(found, default=None)

    def clamp(self, queue_end: Callable[[str, int], int]) -> list[str]:
        """Lower every offset beyond the end of its queue to that end; return the changes, for the log.

        A power cut may erase a tail that was consumed and committed. The next messages get those queue offsets again,
        and a committed offset beyond them would skip them (bug R03 of RocketMQ).
        """
        clamped: list[str] = []
        for key, queues in self._table.items():
            topic = key.partition(TOPIC_GROUP_SEPARATOR)[0]
            for queue_id, offset in queues.items():
                end = queue_end(topic, queue_id)
                if offset > end:
                    queues[queue_id] = end
                    clamped.append(f"{key} queue {queue_id}: {offset} -> {end}")
        self.changed = self.changed or bool(clamped)
        return clamped

    def forget_topic(self, topic: str) -> None:
        """Drop the offsets of a deleted topic."""
        prefix = topic + TOPIC_GROUP_SEPARATOR
        doomed = [key for key in self._table if key.startswith(prefix)]
        for key in doomed:
            del self._table[key]
        if doomed:
            self._tables_changed()

    def merge(self, table: OffsetTable) -> None:
        """Merge the master's offsets, replacing whole queue maps (RocketMQ, SlaveSynchronize: putAll)."""
        changed = {
            key: dict(queues) for key, queues in table.items() if self._table.get(key) != queues
        }
        if changed:
            self._table |= changed
            self._tables_changed()
        if self._size > SIZE_MAX:  # the table also has entries that the master has dropped
            self._table = {key: self._table[key] for key in table}
            self._tables_changed()

    def _tables_changed(self) -> None:
        """Drop what is derived from the set of queue maps, which has changed."""
        self._size = sum(size_of(key, len(queues)) for key, queues in self._table.items())
        self.changed = True

    def snapshot(self) -> dict[str, object]:
        """A copy as the JSON document of consumerOffset.json and of code 43."""
        table = {
            key: {str(queue_id): offset for queue_id, offset in queues.items()}
            for key, queues in self._table.items()
        }
        return {"offsetTable": table}


class RacingOffsets(ConsumerOffsets):
    """As in RocketMQ, two concurrent first commits of a group may both create its map (ebf00f2b5e, bug R16).

    There it takes two threads. Here the first commit puts the map into the table only in the next turn of the loop. One
    queue's offset is lost until the group commits it again.
    """

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        key = f"{topic}{TOPIC_GROUP_SEPARATOR}{group}"
        if key in self._table:
            super().commit(group, topic, queue_id, offset)
            return
        asyncio.get_running_loop().call_soon(self._put, key, {queue_id: offset})

    def _put(self, key: str, queues: dict[int, int]) -> None:
        self._table[key] = queues
        self._tables_changed()


def size_of(key: str, count: int) -> int:
    """Approximate bytes that a topic and a group with `count` offsets take in the table."""
    return 8 + (len(key) if key.isascii() else 6 * len(key)) + OFFSET_SIZE * count


def full() -> str:
    """The text of the refusal of one more offset."""
    return f"the table of offsets would have more than {SIZE_MAX} bytes, which is the limit"


def keep_beyond(_offsets: ConsumerOffsets, _queue_end: Callable[[str, int], int]) -> list[str]:
    """As RocketMQ, leave offsets beyond the end of their queue: their groups skip the next messages there."""
    return []


class OffsetsFile:
    """Keeps consumer offsets in a file, which it writes in another thread."""

    def __init__(self, offsets: ConsumerOffsets, file: MetadataFile) -> None:
        self._offsets = offsets
        self._file = file

    def load(self) -> None:
        """Load the file, if it exists. Raises ValueError for a malformed document."""
        document = self._file.load()
        if document is not None:
            self._offsets.merge(offset_table_from_json(document))
            self._offsets.changed = False

    async def save(self) -> None:
        """Write the offsets if they have changed. Raises OSError; then they still count as changed."""
        if not self._offsets.changed:
            return
        self._offsets.changed = False
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(None, self._file.save, self._offsets.snapshot())
        except OSError:
            self._offsets.changed = True
            raise


def offset_table_from_json(document: Mapping[str, object]) -> OffsetTable:
    """Read `{"offsetTable": {"topic@group": {queueId: offset}}}`. Raises ValueError: the document is malformed."""
    table = document.get("offsetTable", {})
    if not isinstance(table, Mapping):
        raise ValueError(f"offsetTable is {type(table).__name__}, not an object")  # noqa: TRY004
    return {str(key): _queue_offsets(str(key), queues) for key, queues in table.items()}


def _queue_offsets(key: str, queues: object) -> dict[int, int]:
    if not isinstance(queues, Mapping):
        raise ValueError(f"offsets of {key!r} are not an object: {queues!r}")  # noqa: TRY004
    found: dict[int, int] = {}
    for queue_id, offset in queues.items():
        try:
            found[int(queue_id)] = int(offset)
        except (ValueError, TypeError, OverflowError):
            raise ValueError(
                f"offset of queue {queue_id!r} of {key!r} is {offset!r}; whole numbers are needed"
            ) from None
    return found
