"""Mutants of RMQ-RRP: replies that a broker pushes to their requesters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from staticfire.system_under_test.broker.clients.clients import Clients
from staticfire.system_under_test.broker.delivery import reply
from staticfire.system_under_test.broker.delivery.reply import (
    PUSH_TIME_PROPERTY,
    PUSH_TIMEOUT_S,
    REPLY_TO_PROPERTY,
    ReplyProcessor,
)
from staticfire.system_under_test.protocol.bodies import HeartbeatData
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import (
    Message,
    decode_properties,
    encode_properties,
)
from staticfire.system_under_test.remoting import Connection
from tests.conformance.mutants.mutant import Answer, answers, system

Finish = Callable[[str | None], None]
Pushed = asyncio.Future[RemotingCommand]


@system("RMQ-RRP-01")
def a_push_has_only_its_time(patch: pytest.MonkeyPatch) -> None:
    def encoded(given: dict[str, str]) -> bytes:
        return encode_properties({PUSH_TIME_PROPERTY: given[PUSH_TIME_PROPERTY]})

    patch.setattr(reply, "encode_properties", encoded)


@system("RMQ-RRP-01")
def the_replier_is_answered_at_once(patch: pytest.MonkeyPatch) -> None:
    def handle(self: ReplyProcessor, connection: Connection, request: RemotingCommand) -> None:
        header, message = self._send.read(connection, request)
        message.properties = decode_properties(header.properties or "")
        requester = self._clients.producer_connection(message.properties[REPLY_TO_PROPERTY])
        if requester is not None:
            requester.invoke_nowait(self._make_push(header, message), PUSH_TIMEOUT_S)
        self._finish(connection, request, message, None)

    patch.setattr(ReplyProcessor, "handle", handle)


@answers("RMQ-RRP-02", RequestCode.SEND_REPLY_MESSAGE)
def every_reply_has_arrived(_: RemotingCommand, answer: Answer) -> Answer:
    answer.code = ResponseCode.SUCCESS
    return answer


@system("RMQ-RRP-02")
def what_is_pushed_has_arrived(patch: pytest.MonkeyPatch) -> None:
    def pushed(self: ReplyProcessor, _id: str, size: int, finish: Finish, _: Pushed) -> None:
        self._asked.end(1, size)
        finish(None)

    patch.setattr(ReplyProcessor, "_pushed", pushed)


@system("RMQ-RRP-03")
def replies_go_to_the_first_connection(patch: pytest.MonkeyPatch) -> None:
    beat = Clients.heartbeat

    def kept(self: Clients, connection: Connection, heartbeat: HeartbeatData, **rest: Any) -> None:
        former = self._producer_connections.get(heartbeat.client_id)
        beat(self, connection, heartbeat, **rest)
        if former is not None:
            self._producer_connections[heartbeat.client_id] = former

    patch.setattr(Clients, "heartbeat", kept)


@system("RMQ-RRP-04")
def the_former_connection_takes_the_client_along(patch: pytest.MonkeyPatch) -> None:
    make = Clients.__init__

    def begin(self: Clients, **options: Any) -> None:
        make(self, **{**options, "keeps_shared_client_ids": False})

    patch.setattr(Clients, "__init__", begin)


@system("RMQ-RRP-05")
def only_what_arrives_is_stored(patch: pytest.MonkeyPatch) -> None:
    finish = ReplyProcessor._finish

    def finish_only(
        self: ReplyProcessor,
        connection: Connection,
        request: RemotingCommand,
        message: Message,
        failure: str | None,
    ) -> None:
        if failure is None:
            finish(self, connection, request, message, failure)
        else:
            ext = self._send.answers.ext("0", message.queue_id, 0)
            code = ResponseCode.SYSTEM_ERROR
            connection.send(RemotingCommand.response(request, code, failure, ext))

    patch.setattr(ReplyProcessor, "_finish", finish_only)
