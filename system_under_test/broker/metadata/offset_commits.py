"""Checks offsets that clients commit (RocketMQ, ConsumerManageProcessor.updateConsumerOffset; 4.9.8 accepts all)."""

from __future__ import annotations

from collections import deque

from staticfire.system_under_test.broker.metadata.offsets import ConsumerOffsets, full
from staticfire.system_under_test.broker.metadata.subscription_groups import (
    GROUP_LENGTH_MAX,
    SubscriptionGroups,
)
from staticfire.system_under_test.broker.metadata.topics import RETRY_PREFIX, Topics
from staticfire.system_under_test.broker.refusal import Refused
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.message import RECORD_SIZE_MIN

OFFSET_MAX = (1 << 63) // RECORD_SIZE_MIN  # no log has room for so many messages
# Queues of topics or groups that this broker does not have: just deleted, or not yet copied from the master.
UNKNOWN_MAX = 10_000
TOPIC_LENGTH_MAX = len(RETRY_PREFIX) + GROUP_LENGTH_MAX

Entry = tuple[str, str, int]  # group, topic, queue id


class CommitRefused(Refused):
    """The broker does not keep the offset."""


class OffsetCommits:
    """Keeps all commits for known topics and groups, and at most UNKNOWN_MAX for unknown ones.

    RocketMQ 5 refuses the latter, with the same codes; 4.9.8 keeps them forever.
    """

    def __init__(
        self, offsets: ConsumerOffsets, topics: Topics, groups: SubscriptionGroups
    ) -> None:
        self._offsets = offsets
        self._topics = topics
        self._groups = groups
        self._unknown: deque[Entry] = deque()  # committed for an unknown topic or group

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Keep an offset. Raises CommitRefused."""
        if offset > OFFSET_MAX:
            raise CommitRefused(
                ResponseCode.SYSTEM_ERROR,
                f"commitOffset is {offset}; no queue has an offset above {OFFSET_MAX}",
            )
        if not self._offsets.has_room(group, topic, queue_id):
            raise CommitRefused(ResponseCode.SYSTEM_ERROR, full())
        if self._offsets.query(group, topic, queue_id) is None:
            self._admit((group, topic, queue_id))
        self._offsets.commit(group, topic, queue_id, offset)

    def _admit(self, entry: Entry) -> None:
        """Raises CommitRefused for the first offset of an unknown queue, if there are too many."""
        refusal = self._unknown_part(entry)
        if refusal is None:
            return
        group, topic, _ = entry
        is_short = len(group) <= GROUP_LENGTH_MAX and len(topic) <= TOPIC_LENGTH_MAX
        if not is_short or not self._has_room():
            raise refusal
        self._unknown.append(entry)

    def _unknown_part(self, entry: Entry) -> CommitRefused | None:
        """The refusal that names an unknown topic or group of the entry; None if both are known."""
        group, topic, queue_id = entry
        if self._groups.get(group) is None:
            text = f"subscription group [{group:.255}] does not exist"
            return CommitRefused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, text)
        settings = self._topics.get(topic)
        if settings is None:
            return CommitRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic:.255}] not exist")
        queues = max(settings.read_queue_nums, settings.write_queue_nums)
        if not 0 <= queue_id < queues:
            text = f"queueId[{queue_id}] is illegal, topic {topic} has {queues} queues"
            return CommitRefused(ResponseCode.SYSTEM_ERROR, text)
        return None

    def _has_room(self) -> bool:
        """Whether there may be one more unknown entry. Drops the oldest if it is known by now or its offset is gone."""
        if len(self._unknown) < UNKNOWN_MAX:
            return True
        oldest = self._unknown.popleft()
        if self._offsets.query(*oldest) is None or self._unknown_part(oldest) is None:
            return True
        self._unknown.append(oldest)  # the next call checks another one
        return False
