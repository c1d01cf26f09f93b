"""Finds the first and last offset of a queue, and the starting offset of a group that has none.

RocketMQ: MQAdminImpl, RebalancePushImpl.
"""

from __future__ import annotations

from enum import StrEnum

from staticfire.system_under_test.client.errors import BrokerRefused
from staticfire.system_under_test.client.message_properties import RETRY_PREFIX
from staticfire.system_under_test.client.routing.client_instance import ClientInstance
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.header_fields import Header
from staticfire.system_under_test.protocol.headers import QueueHeader, SearchOffsetHeader

OFFSET_TIMEOUT_S = 5.0  # RocketMQ: timeout of query and update of consumer offsets
HALF_AN_HOUR_MS = 1_800_000  # RocketMQ: DefaultMQPushConsumer.consumeTimestamp, before the start


class ConsumeFrom(StrEnum):
    """Where a group starts on a queue for which it has no stored offset (RocketMQ: ConsumeFromWhere)."""

    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class QueueBounds:
    """Queries the bounds of queues at brokers.

    Args:
        timestamp_ms: the time for ConsumeFrom.TIMESTAMP, in ms since 1970; None: half an hour before now.

    All methods raise BrokerRefused, BrokerNotAvailable, RemotingError or ValueError: it cannot be known now.
    """

    def __init__(self, client: ClientInstance, *, timestamp_ms: int | None = None) -> None:
        self._client = client
        self._timestamp_ms = timestamp_ms
        if timestamp_ms is None:
            self._timestamp_ms = client.env.clock.wall_ms() - HALF_AN_HOUR_MS

    async def first_start(self, queue: MessageQueue, consume_from: ConsumeFrom) -> int:
        """Where a group without an offset starts (RocketMQ: RebalancePushImpl.computePullFromWhere)."""
        is_retry = queue.topic.startswith(RETRY_PREFIX)
        match consume_from:
            case ConsumeFrom.FIRST_OFFSET:
                return 0  # if the queue starts later, the answer to the first pull says so
            case ConsumeFrom.LAST_OFFSET:
                return 0 if is_retry else await self.max_offset(queue)
            case ConsumeFrom.TIMESTAMP:
                # RocketMQ starts a retry topic at its end, and skips retries from before the group had an offset.
                return 0 if is_retry else await self.offset_at(queue, self._timestamp_ms or 0)

    async def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the first message that the queue still has."""
        header = QueueHeader(topic=queue.topic, queue_id=queue.queue_id)
        return await self._ask(queue, RequestCode.GET_MIN_OFFSET, header)

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message of the queue will get."""
        header = QueueHeader(topic=queue.topic, queue_id=queue.queue_id)
        return await self._ask(queue, RequestCode.GET_MAX_OFFSET, header)

    async def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the message stored closest to this time (ms since 1970); 0 if the queue has none."""
        header = SearchOffsetHeader(
            topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms
        )
        return await self._ask(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)

    async def _ask(self, queue: MessageQueue, code: RequestCode, header: Header) -> int:
        command = RemotingCommand.request(code, header.to_ext())
        _, response = await self._client.ask_replica(queue.broker_name, command, OFFSET_TIMEOUT_S)
        return offset_of(response)


def offset_of(response: RemotingCommand) -> int:
    """The offset that a response carries. Raises BrokerRefused or ValueError."""
    if response.code != ResponseCode.SUCCESS:
        raise refused(response)
    return int(response.ext_fields.get("offset", ""))


def refused(response: RemotingCommand) -> BrokerRefused:
    return BrokerRefused(
        response.code, f"refused with code {response.code}: {response.remark or 'no reason'}"
    )
