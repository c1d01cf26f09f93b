"""Requests about offsets: codes 14, 15, 29 to 32 (RocketMQ, ConsumerManageProcessor and others)."""

from __future__ import annotations

from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.metadata.offset_commits import CommitRefused, OffsetCommits
from staticfire.system_under_test.broker.metadata.offsets import ConsumerOffsets
from staticfire.system_under_test.broker.pulling.overtaken_pulls import OvertakenPulls
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.headers import (
    QueryConsumerOffsetHeader,
    QueueHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
)
from staticfire.system_under_test.remoting import Connection
from staticfire.system_under_test.store.assembly.message_store import MessageStore


class QueueQueries:
    """Handles requests about the bounds of queues and the offsets of groups."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        offsets: ConsumerOffsets,
        commits: OffsetCommits,
        overtaken: OvertakenPulls,
    ) -> None:
        self._config = config
        self._store = store
        self._offsets = offsets
        self._commits = commits
        self._overtaken = overtaken

    def query_consumer_offset(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        """The committed offset of a group.

        A group without one starts at 0 if the queue's first message is still in memory (RocketMQ,
        ConsumerManageProcessor): a new group on a young topic misses nothing. Clients commit -1 for queues that they
        have not consumed from, which does not count as an offset either.
        """
        header = QueryConsumerOffsetHeader.from_ext(request.ext_fields)
        offset = self._offsets.query(header.consumer_group, header.topic, header.queue_id)
        if offset is not None and offset < 0:
            offset = None
        if offset is None and self._is_young(header.topic, header.queue_id):
            offset = 0
        if offset is None:
            return RemotingCommand.response(
                request,
                ResponseCode.QUERY_NOT_FOUND,
                "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first",
            )
        return answer_offset(request, offset)

    def _is_young(self, topic: str, queue_id: int) -> bool:
        if self._store.queue_bounds(topic, queue_id)[0] > 0:
            return False
        entries = self._store.queue_view.entries(topic, queue_id, 0, 1)
        if not entries:
            return True
        behind_bytes = self._store.end_offset - entries[0].physical_offset
        return behind_bytes <= self._config.memory_bytes

    def update_consumer_offset(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        header = UpdateConsumerOffsetHeader.from_ext(request.ext_fields)
        entry = (header.consumer_group, header.topic, header.queue_id)
        try:
            self._commits.commit(*entry, header.commit_offset)
        except CommitRefused as refusal:
            return refusal.answer(request)
        self._overtaken.committed(connection, request, entry)
        return RemotingCommand.response(request, ResponseCode.SUCCESS)

    def max_offset(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        header = QueueHeader.from_ext(request.ext_fields)
        return answer_offset(request, self._store.queue_bounds(header.topic, header.queue_id)[1])

    def min_offset(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        header = QueueHeader.from_ext(request.ext_fields)
        return answer_offset(request, self._store.queue_bounds(header.topic, header.queue_id)[0])

    def search_offset(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """The offset of the message stored nearest to a time."""
        header = SearchOffsetHeader.from_ext(request.ext_fields)
        return answer_offset(
            request,
            self._store.queue_view.search_by_time(header.topic, header.queue_id, header.timestamp),
        )

    def earliest_store_time(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        """The store time of a queue's first message, in ms; -1 if there is none."""
        header = QueueHeader.from_ext(request.ext_fields)
        time_ms = self._store.queue_view.earliest_store_time_ms(header.topic, header.queue_id)
        return RemotingCommand.response(
            request, ResponseCode.SUCCESS, None, {"timestamp": str(time_ms)}
        )


def answer_offset(request: RemotingCommand, offset: int) -> RemotingCommand:
    return RemotingCommand.response(request, ResponseCode.SUCCESS, None, {"offset": str(offset)})
