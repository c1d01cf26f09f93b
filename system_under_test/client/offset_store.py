"""Consumer offsets on brokers (RocketMQ: RemoteBrokerOffsetStore)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from system_under_test.client.client_instance import ClientInstance
from system_under_test.client.errors import BrokerRefused, ClientError
from system_under_test.client.routes import MASTER_ID
from system_under_test.protocol.bodies import MessageQueue
from system_under_test.protocol.codes import RequestCode, ResponseCode
from system_under_test.protocol.command import RemotingCommand
from system_under_test.protocol.headers import (
    GetMaxOffsetHeader,
    GetMinOffsetHeader,
    Header,
    QueryConsumerOffsetHeader,
    UpdateConsumerOffsetHeader,
)
from system_under_test.remoting import RemotingError

OFFSET_TIMEOUT_S = 5.0  # RocketMQ: timeout of query and update of consumer offsets


class ConsumeFrom(StrEnum):
    """Where a group starts on a queue for which it has no stored offset (RocketMQ: ConsumeFromWhere)."""

    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"


class OffsetUnknown(ClientError):
    """It could not be found out where the group is. This must never be taken for "at the beginning"."""


class OffsetStore:
    """The offsets of one group."""

    def __init__(self, client: ClientInstance, group: str) -> None:
        self._client = client
        self._group = group

    async def start_offset(self, queue: MessageQueue, consume_from: ConsumeFrom) -> int:
        """Where to start: at the stored offset, or if there is certainly none, where `consume_from` says.

        Raises:
            OffsetUnknown: an error, whatever it was (RocketMQ took it for "none": issue #1825).
        """
        try:
            stored = await self.stored(queue)
            if stored is not None:
                return stored
            if consume_from is ConsumeFrom.FIRST_OFFSET:
                return 0  # if the queue starts later, the first pull is told so
            return await self._end_of(queue)
        except (RemotingError, ClientError, ValueError) as error:
            raise OffsetUnknown(f"offset of {queue}: {error}") from error

    async def stored(self, queue: MessageQueue) -> int | None:
        """The group's offset; None if the broker says that there is none.

        Raises:
            BrokerRefused, BrokerNotAvailable, RemotingError: it cannot be known now.
        """
        header = QueryConsumerOffsetHeader(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id
        )
        command = RemotingCommand.request(RequestCode.QUERY_CONSUMER_OFFSET, header.to_ext())
        _, response = await self._client.ask_replica(queue.broker_name, command, OFFSET_TIMEOUT_S)
        return None if response.code == ResponseCode.QUERY_NOT_FOUND else offset_of(response)

    async def _end_of(self, queue: MessageQueue) -> int:
        """Where a new group starts that wants only what is new.

        A slave copies offsets every 10 s and messages with some delay: its "no offset" may mean "not yet", and to
        start at its end would then skip messages. So this waits for the master.
        """
        replica = self._client.replica(queue.broker_name)
        if replica is None or replica[0] != MASTER_ID:
            raise OffsetUnknown(f"the master of {queue.broker_name} does not answer")
        return await self.max_offset(queue)

    async def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the first message that the queue still has. Raises: as `stored`."""
        header = GetMinOffsetHeader(topic=queue.topic, queue_id=queue.queue_id)
        return await self._bound(queue, RequestCode.GET_MIN_OFFSET, header)

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message of the queue will get. Raises: as `stored`."""
        header = GetMaxOffsetHeader(topic=queue.topic, queue_id=queue.queue_id)
        return await self._bound(queue, RequestCode.GET_MAX_OFFSET, header)

    async def _bound(self, queue: MessageQueue, code: RequestCode, header: Header) -> int:
        command = RemotingCommand.request(code, header.to_ext())
        _, response = await self._client.ask_replica(queue.broker_name, command, OFFSET_TIMEOUT_S)
        return offset_of(response)

    def commit(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Write offsets, one way: to the master, or to a slave while the master is silent.

        Returns what was written; queues whose broker is not connected now are left to the next commit.
        """
        return {
            queue: offset for queue, offset in offsets.items() if self._commit_one(queue, offset)
        }

    def _commit_one(self, queue: MessageQueue, offset: int) -> bool:
        replica = self._client.replica(queue.broker_name)
        connection = None if replica is None else self._client.remoting.connection(replica[1])
        if connection is None:
            return False
        connection.invoke_oneway(self._commit_command(queue, offset))
        return True

    async def commit_confirmed(self, queue: MessageQueue, offset: int) -> None:
        """Write one offset and wait for the answer. Raises: as `stored`."""
        command = self._commit_command(queue, offset)
        _, response = await self._client.ask_replica(queue.broker_name, command, OFFSET_TIMEOUT_S)
        if response.code != ResponseCode.SUCCESS:
            raise refused(response)

    def _commit_command(self, queue: MessageQueue, offset: int) -> RemotingCommand:
        header = UpdateConsumerOffsetHeader(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
        )
        return RemotingCommand.request(RequestCode.UPDATE_CONSUMER_OFFSET, header.to_ext())


def offset_of(response: RemotingCommand) -> int:
    """The offset that a response carries. Raises BrokerRefused or ValueError."""
    if response.code != ResponseCode.SUCCESS:
        raise refused(response)
    return int(response.ext_fields.get("offset", ""))


def refused(response: RemotingCommand) -> BrokerRefused:
    return BrokerRefused(
        response.code, f"refused with code {response.code}: {response.remark or 'no reason'}"
    )
