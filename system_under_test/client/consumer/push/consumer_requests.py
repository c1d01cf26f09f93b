"""Answers brokers' requests for administrators: codes 220, 221, 307, 309 (RocketMQ: ClientRemotingProcessor)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

from staticfire.system_under_test.client.listening import Listener, has_succeeded
from staticfire.system_under_test.client.message_properties import RETRY_TOPIC
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.bodies_clients import (
    ConsumeDirectlyResult,
    ConsumerRunningInfo,
)
from staticfire.system_under_test.protocol.bodies_queues import (
    ConsumerStatus,
    ResetOffsetBody,
    ResetOffsetBodyForC,
)
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.compression import inflate_body
from staticfire.system_under_test.protocol.headers_admin import (
    ConsumeMessageDirectlyHeader,
    ConsumerRunningInfoHeader,
    ConsumerStatusHeader,
    ResetOffsetHeader,
)
from staticfire.system_under_test.protocol.json_body import JsonBody
from staticfire.system_under_test.protocol.json_dialect import BodyError
from staticfire.system_under_test.protocol.message import Message, decode_record
from staticfire.system_under_test.remoting import Connection
from staticfire.system_under_test.remoting.connection import not_supported
from staticfire.system_under_test.runtime.env import Log


class AdministeredConsumer(Protocol):
    """The interface of a consumer for requests of administrators."""

    group: str

    def offsets(self, topic: str) -> dict[MessageQueue, int]:
        """The consumed offset in each of its present queues of the topic."""
        ...

    def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Go on at these offsets in those of the queues that the consumer has now."""
        ...

    def running_info(self) -> ConsumerRunningInfo: ...


class ConsumerRequests:
    """Answers for one consumer. Each message consumed directly gets its own task."""

    def __init__(
        self,
        consumer: AdministeredConsumer,
        listener: Listener,
        log: Log,
        *,
        is_ordered: bool,
    ) -> None:
        self._is_ordered = is_ordered
        self._consumer = consumer
        self._listener = listener
        self._log = log
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._next_task = 0

    def handle(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        """Answer one request, or None if the answer comes later or not at all. Raises ValueError."""
        match request.code:
            case RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
                self._reset(request)
                return None
            case RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT:
                return self._status(request)
            case RequestCode.GET_CONSUMER_RUNNING_INFO:
                return self._running_info(request)
            case RequestCode.CONSUME_MESSAGE_DIRECTLY:
                return self._consume_directly(connection, request)
            case _:
                return not_supported(request)

    def stop(self) -> None:
        """Cancel and refuse direct consumption of messages."""
        for task in self._tasks.values():
            task.cancel()

    def _reset(self, request: RemotingCommand) -> None:
        """Reset offsets. The request is one-way, so errors go to the log."""
        header = ResetOffsetHeader.from_ext(request.ext_fields)
        if header.group == self._consumer.group:
            targets = read_targets(request.body)
            self._log.info("offsets are reset", topic=header.topic, queues=len(targets))
            self._consumer.reset_offsets(targets)

    def _status(self, request: RemotingCommand) -> RemotingCommand:
        header = ConsumerStatusHeader.from_ext(request.ext_fields)
        known = header.group == self._consumer.group
        offsets = self._consumer.offsets(header.topic) if known else {}
        return answer(request, ConsumerStatus(message_queue_table=offsets))

    def _running_info(self, request: RemotingCommand) -> RemotingCommand:
        header = ConsumerRunningInfoHeader.from_ext(request.ext_fields)
        if header.consumer_group != self._consumer.group:
            return refuse_group(request, header.consumer_group)
        return answer(request, self._consumer.running_info())

    def _consume_directly(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand | None:
        header = ConsumeMessageDirectlyHeader.from_ext(request.ext_fields)
        if header.consumer_group != self._consumer.group:
            return refuse_group(request, header.consumer_group)
        message = inflate_body(decode_record(request.body))
        message.topic = message.properties.get(RETRY_TOPIC, message.topic)
        queue = MessageQueue(message.topic, header.broker_name or "", message.queue_id)
        number = self._next_task = self._next_task + 1
        work = self._consume(number, connection, request, message, queue)
        self._tasks[number] = asyncio.get_running_loop().create_task(work)
        return None

    async def _consume(
        self,
        number: int,
        connection: Connection,
        request: RemotingCommand,
        message: Message,
        queue: MessageQueue,
    ) -> None:
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        remark = None
        try:
            succeeded = has_succeeded(await self._listener([message], queue))
            result = "CR_SUCCESS" if succeeded else "CR_LATER"
        except Exception as error:
            result, remark = "CR_THROW_EXCEPTION", repr(error)
        finally:
            del self._tasks[number]
        spent_ms = int((loop.time() - started_s) * 1000)
        body = ConsumeDirectlyResult(
            consume_result=result,
            order=self._is_ordered,
            remark=remark,
            spent_time_mills=spent_ms,
        )
        connection.send(answer(request, body))


def read_targets(body: bytes) -> dict[MessageQueue, int]:
    """The offsets in the body of code 220, in the form for Java or for C++ clients. Raises BodyError."""
    document = json_dialect.loads(body)
    if not isinstance(document, dict):
        raise BodyError(f"{document!r:.80} is not an object")
    if isinstance(document.get("offsetTable"), list):
        targets = ResetOffsetBodyForC.from_json(document).offset_table
        return {MessageQueue(t.topic, t.broker_name, t.queue_id): t.offset for t in targets}
    return ResetOffsetBody.from_json(document).offset_table


def answer(request: RemotingCommand, body: JsonBody) -> RemotingCommand:
    return RemotingCommand.response(request, ResponseCode.SUCCESS, body=body.encode())


def refuse_group(request: RemotingCommand, group: str) -> RemotingCommand:
    return RemotingCommand.response(
        request,
        ResponseCode.SYSTEM_ERROR,
        f"The Consumer Group <{group}> not exist in this consumer",
    )
