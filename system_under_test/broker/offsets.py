"""Consumer offsets of clustering groups (RocketMQ, ConsumerOffsetManager). Durable in config/consumerOffset.json."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping

from system_under_test.store.metadata_file import MetadataFile

TOPIC_GROUP_SEPARATOR = "@"  # neither a topic nor a group may contain it

OffsetTable = dict[str, dict[int, int]]  # "topic@group" -> queue id -> queue offset


class ConsumerOffsets:
    """Position of each group in each queue. Offsets may move backwards: a reset does that."""

    def __init__(self) -> None:
        self._table: OffsetTable = {}
        self.changed = False  # since they were last written down

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        queues = self._table.setdefault(f"{topic}{TOPIC_GROUP_SEPARATOR}{group}", {})
        if queues.get(queue_id) != offset:
            queues[queue_id] = offset
            self.changed = True

    def query(self, group: str, topic: str, queue_id: int) -> int | None:
        """The committed offset, or None if the group never committed one for this queue."""
        return self._table.get(f"{topic}{TOPIC_GROUP_SEPARATOR}{group}", {}).get(queue_id)

    def queues(self, group: str, topic: str) -> dict[int, int]:
        """The group's offsets in a topic, by queue id."""
        return dict(self._table.get(f"{topic}{TOPIC_GROUP_SEPARATOR}{group}", {}))

    def topics_of(self, group: str) -> list[str]:
        """Topics that the group has offsets for, sorted (RocketMQ, whichTopicByConsumer)."""
        return sorted(topic for topic, owner in self._keys() if owner == group)

    def groups_of(self, topic: str) -> list[str]:
        """Groups that have offsets for the topic, sorted (RocketMQ, whichGroupByTopic)."""
        return sorted(group for known, group in self._keys() if known == topic)

    def count(self) -> int:
        """How many pairs of a topic and a group have offsets."""
        return len(self._table)

    def _keys(self) -> Iterator[tuple[str, str]]:
        """Topic and group of every queue map."""
        for key in self._table:
            topic, _, group = key.partition(TOPIC_GROUP_SEPARATOR)
            yield topic, group

    def clone(self, source_group: str, target_group: str, topic: str) -> None:
        """Give a group the offsets of another one in a topic; nothing happens if that has none."""
        queues = self.queues(source_group, topic)
        if queues:
            self._table[f"{topic}{TOPIC_GROUP_SEPARATOR}{target_group}"] = queues
            self.changed = True

    def forget_group(self, group: str) -> None:
        """Drop the offsets of a deleted group in all topics."""
        for topic in self.topics_of(group):
            del self._table[f"{topic}{TOPIC_GROUP_SEPARATOR}{group}"]
            self.changed = True

    def least_committed(self, topic: str, queue_id: int) -> int | None:
        """Up to where every group of the topic has consumed the queue; None if the topic has no group."""
        prefix = topic + TOPIC_GROUP_SEPARATOR
        found = [
            queues.get(queue_id, 0) for key, queues in self._table.items() if key.startswith(prefix)
        ]
        return min(found, default=None)

    def clamp(self, queue_end: Callable[[str, int], int]) -> list[str]:
        """Pull back every offset beyond the end of its queue; return what was changed, for the log.

        A power cut may take a tail that was consumed and committed. The next messages get those queue offsets
        again, and a committed offset beyond them would skip them (bug R03 of RocketMQ).
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
        self.changed = self.changed or bool(doomed)

    def merge(self, table: OffsetTable) -> None:
        """Take over the master's offsets, queue maps as a whole (RocketMQ, SlaveSynchronize: putAll)."""
        for key, queues in table.items():
            if self._table.get(key) != queues:
                self._table[key] = dict(queues)
                self.changed = True

    def snapshot(self) -> dict[str, object]:
        """The JSON document of consumerOffset.json and of code 43. Later changes do not show in it."""
        table = {
            key: {str(queue_id): offset for queue_id, offset in queues.items()}
            for key, queues in self._table.items()
        }
        return {"offsetTable": table}


class RacingOffsets(ConsumerOffsets):
    """As in RocketMQ, two first commits of a group at a time may both make its map (ebf00f2b5e, bug R16).

    There it takes two threads; here the map is put into the table at the next turn of the loop. One queue's offset is
    lost until the group commits it again.
    """

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        key = f"{topic}{TOPIC_GROUP_SEPARATOR}{group}"
        if key in self._table:
            super().commit(group, topic, queue_id, offset)
            return
        asyncio.get_running_loop().call_soon(self._put, key, {queue_id: offset})

    def _put(self, key: str, queues: dict[int, int]) -> None:
        self._table[key] = queues
        self.changed = True


def keep_beyond(_offsets: ConsumerOffsets, _queue_end: Callable[[str, int], int]) -> list[str]:
    """RocketMQ leaves offsets beyond the end of their queue as they are: what comes next there is skipped."""
    return []


class OffsetsFile:
    """Keeps consumer offsets in a file, written beside the loop."""

    def __init__(self, offsets: ConsumerOffsets, file: MetadataFile) -> None:
        self._offsets = offsets
        self._file = file

    def load(self) -> None:
        """Take over what the file holds, if there is one. Raises ValueError for a document of another shape."""
        document = self._file.load()
        if document is not None:
            self._offsets.merge(offset_table_from_json(document))
            self._offsets.changed = False

    async def save(self) -> None:
        """Write the offsets down if they have changed. Raises OSError; then they still count as changed."""
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
    """Read `{"offsetTable": {"topic@group": {queueId: offset}}}`.

    Raises:
        ValueError: the document has another shape.
    """
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
