"""Hides the messages that a queue held before its topic was deleted, even if the topic is created again.

RocketMQ removes the queues of a deleted topic, and offsets begin at 0 again. Here offsets continue, so that an offset
identifies one message only, and messages below a queue's new beginning are hidden. The beginnings are durable in
config/hiddenMessages.json, and slaves copy them with the topics.
"""

from __future__ import annotations

from collections.abc import Mapping

from staticfire.system_under_test.store.metadata_file import MetadataFile
from staticfire.system_under_test.store.queues.consume_queue import ConsumeQueue
from staticfire.system_under_test.store.queues.queue_table import QueueTable

Beginnings = dict[str, dict[str, int]]  # topic -> queue id as text -> first visible queue offset


HIDDEN = "hiddenMessages"  # the field in the table of topics
DELETED_QUEUES_MAX = 100_000  # queues of deleted topics


def beginnings_of(table: object) -> Beginnings:
    """Read a table of beginnings. Raises ValueError if it is malformed."""
    if not isinstance(table, dict) or not all(isinstance(row, dict) for row in table.values()):
        raise ValueError("beginnings are no table of tables")
    return {
        topic: {str(int(queue)): int(offset) for queue, offset in row.items()}
        for topic, row in table.items()
    }


class HiddenMessages:
    """The new beginnings of the queues of topics that were deleted once."""

    def __init__(self, file: MetadataFile, queues: QueueTable) -> None:
        self._file = file
        self._queues = queues
        self._beginnings: Beginnings = {}

    def load(self) -> None:
        """Read the file, and apply it to the recovered queues. Raises StoreError, ValueError."""
        document = self._file.load() or {}
        self._beginnings = beginnings_of(document.get("beginnings", {}))
        self.apply()

    def add_to(self, document: dict[str, object]) -> None:
        """Add the beginnings to the table of topics that slaves copy; slaves of RocketMQ ignore them."""
        if self._beginnings:
            document[HIDDEN] = self._beginnings

    def restore_from(self, document: Mapping[str, object]) -> None:
        """On a master with a new disk: also hide what a replica hides. Raises OSError, ValueError."""
        merged = {topic: dict(row) for topic, row in self._beginnings.items()}
        for topic, row in beginnings_of(document.get(HIDDEN, {})).items():
            own = merged.setdefault(topic, {})
            for queue, offset in row.items():
                own[queue] = max(offset, own.get(queue, 0))
        if merged != self._beginnings:
            self._save(merged)
        self.apply()

    def adopt_from(self, document: Mapping[str, object]) -> None:
        """On a slave: hide what the master hides, within the slave's queues. Raises OSError, ValueError."""
        if HIDDEN not in document:
            return
        beginnings = beginnings_of(document[HIDDEN])
        if beginnings != self._beginnings:
            self._save(beginnings)
        self.apply()

    def note(self, topic: str) -> None:
        """Before a topic is deleted: durably note the ends of its queues, including messages without an entry yet.

        Raises:
            ValueError: there are too many queues of deleted topics.
            OSError: they cannot be made durable; nothing has changed.
        """
        ends = {str(queue.queue_id): queue.next_offset for queue in self._of(topic)}
        if ends:
            noted = {**self._beginnings, topic: {**self._beginnings.get(topic, {}), **ends}}
            count = sum(map(len, noted.values()))
            if count > DELETED_QUEUES_MAX:
                raise ValueError(
                    f"deleted topics would have {count} queues; allowed: up to {DELETED_QUEUES_MAX}"
                )
            self._save(noted)

    def apply(self) -> None:
        """Hide the messages below the noted beginnings."""
        for topic, row in self._beginnings.items():
            for queue in self._of(topic):
                queue.hide_below(row.get(str(queue.queue_id), 0))

    def settle(self) -> None:
        """Lower beginnings beyond the ends of the queues: they would hide future messages.

        The log is complete now. A queue may still lack entries of messages that were fetched from a replica. Raises
        OSError.
        """
        settled: Beginnings = {}
        for topic, row in self._beginnings.items():
            ends = {str(queue.queue_id): queue.next_offset for queue in self._of(topic)}
            settled[topic] = {queue: min(at, ends.get(queue, 0)) for queue, at in row.items()}
        if settled != self._beginnings:
            self._save(settled)
        self.apply()

    def living_queues(self) -> list[tuple[str, int]]:
        """(topic, queue id) of all queues, sorted, except those without messages since their topic was deleted."""
        return sorted(
            (queue.topic, queue.queue_id)
            for queue in self._queues
            if queue.next_offset
            > self._beginnings.get(queue.topic, {}).get(str(queue.queue_id), -1)
        )

    def _of(self, topic: str) -> list[ConsumeQueue]:
        return [queue for queue in self._queues if queue.topic == topic]

    def _save(self, beginnings: Beginnings) -> None:
        self._file.save({"beginnings": beginnings})
        self._beginnings = beginnings
