"""Reads and commits a group's offsets on brokers, and finds its start (RocketMQ: RemoteBrokerOffsetStore)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, Protocol

from staticfire.system_under_test.client.errors import ClientError
from staticfire.system_under_test.client.offsets.queue_bounds import (
    OFFSET_TIMEOUT_S,
    ConsumeFrom,
    QueueBounds,
    offset_of,
    refused,
)
from staticfire.system_under_test.client.routing.client_instance import ClientInstance
from staticfire.system_under_test.client.routing.routes import MASTER_ID
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.headers import (
    QueryConsumerOffsetHeader,
    UpdateConsumerOffsetHeader,
)
from staticfire.system_under_test.remoting import RemotingError

# Called with (queue, the group's offset or None if it has none, id of the broker that answered).
OnOffsetRead = Callable[[MessageQueue, int | None, int], None]


class CommitSent(NamedTuple):
    """The broker to which offsets of one broker name were sent."""

    broker_name: str
    broker_id: int
    # The broker that got the previous offsets of this name has answered a later request on the same connection.
    earlier_arrived: bool


OnCommitSent = Callable[[list[CommitSent]], None]


class OffsetUnknown(ClientError):
    """The group's offset could not be read. Callers must never take this for "at the beginning"."""


class Offsets(Protocol):
    """A store of a group's offsets."""

    async def start_offset(self, queue: MessageQueue, consume_from: ConsumeFrom) -> int:
        """The offset at which to start a queue. Raises OffsetUnknown."""
        ...

    def commit(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Commit offsets; returns those that were committed, as far as known now."""
        ...


class OffsetStore:
    """The offsets of one group, on brokers."""

    def __init__(
        self,
        client: ClientInstance,
        group: str,
        *,
        timestamp_ms: int | None = None,
        on_read: OnOffsetRead | None = None,
        on_sent: OnCommitSent | None = None,
    ) -> None:
        """
        Args:
            timestamp_ms: the time for ConsumeFrom.TIMESTAMP, in ms since 1970.
            on_read: called with each offset that a broker returns.
            on_sent: called when offsets were sent, with one entry for each broker name.
        """
        self._client = client
        self._group = group
        self._on_read = on_read
        self._on_sent = on_sent
        # check of the last commit, by broker name
        self._has_arrived: dict[str, Callable[[], bool]] = {}
        self.bounds = QueueBounds(client, timestamp_ms=timestamp_ms)

    async def start_offset(self, queue: MessageQueue, consume_from: ConsumeFrom) -> int:
        """Where to start: at the stored offset, or by `consume_from` if there is certainly none.

        Raises OffsetUnknown for any error (RocketMQ took an error for "no offset": issue #1825).
        """
        try:
            stored = await self.stored(queue)
            if stored is not None:
                return stored
            return await self._first_start(queue, consume_from)
        except (RemotingError, ClientError, ValueError) as error:
            raise OffsetUnknown(f"offset of {queue}: {error}") from error

    async def _first_start(self, queue: MessageQueue, consume_from: ConsumeFrom) -> int:
        """Where a new group starts.

        A slave copies offsets every 10 s and messages with some delay: its "no offset" may mean "not yet", and a start
        anywhere but at the beginning would then skip messages. So such a start requires the master's answer.
        """
        if consume_from is not ConsumeFrom.FIRST_OFFSET:
            replica = self._client.replica(queue.broker_name)
            if replica is None or replica[0] != MASTER_ID:
                raise OffsetUnknown(f"the master of {queue.broker_name} does not answer")
        return await self.bounds.first_start(queue, consume_from)

    async def stored(self, queue: MessageQueue) -> int | None:
        """The group's offset; None if the broker says that there is none.

        Raises BrokerRefused, BrokerNotAvailable, RemotingError: it cannot be known now.
        """
        header = QueryConsumerOffsetHeader(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id
        )
        command = RemotingCommand.request(RequestCode.QUERY_CONSUMER_OFFSET, header.to_ext())
        broker_id, response = await self._client.ask_replica(
            queue.broker_name, command, OFFSET_TIMEOUT_S
        )
        is_none = response.code == ResponseCode.QUERY_NOT_FOUND
        offset = None if is_none else offset_of(response)
        if self._on_read is not None:
            self._on_read(queue, offset, broker_id)
        return offset

    def commit(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Send offsets one way, to the master, or to a slave while the master is silent.

        Returns the offsets sent; leaves queues whose broker is not connected now to the next commit.
        """
        written: dict[MessageQueue, int] = {}
        sent: dict[str, tuple[int, Callable[[], bool]]] = {}
        for queue, offset in offsets.items():
            replica = self._client.replica(queue.broker_name)
            connection = None if replica is None else self._client.remoting.connection(replica[1])
            if replica is None or connection is None:
                continue
            command = self._commit_command(queue, offset)
            connection.invoke_oneway(command)
            written[queue] = offset
            has_arrived = partial(connection.has_answered_after, command.opaque)
            sent[queue.broker_name] = replica[0], has_arrived
        for broker_name, (broker_id, _) in sent.items():
            if broker_id != MASTER_ID:
                self._client.look_for_master(broker_name)  # for the next commit
        self._report(sent)
        return written

    async def commit_confirmed(self, queue: MessageQueue, offset: int) -> None:
        """Commit one offset and wait for the answer. Raises as `stored` does."""
        command = self._commit_command(queue, offset)
        broker_id, response = await self._client.ask_replica(
            queue.broker_name, command, OFFSET_TIMEOUT_S
        )
        if response.code != ResponseCode.SUCCESS:
            raise refused(response)
        self._report({queue.broker_name: (broker_id, lambda: True)})

    def _report(self, sent: Mapping[str, tuple[int, Callable[[], bool]]]) -> None:
        """Call `on_sent`. `sent`: by broker name, the broker id and a check whether the offsets have arrived."""
        if self._on_sent is None or not sent:
            return
        rows = []
        for broker_name, (broker_id, has_arrived) in sent.items():
            earlier = self._has_arrived.get(broker_name)
            rows.append(CommitSent(broker_name, broker_id, earlier is not None and earlier()))
            self._has_arrived[broker_name] = has_arrived
        self._on_sent(rows)

    def _commit_command(self, queue: MessageQueue, offset: int) -> RemotingCommand:
        header = UpdateConsumerOffsetHeader(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
        )
        return RemotingCommand.request(RequestCode.UPDATE_CONSUMER_OFFSET, header.to_ext())
