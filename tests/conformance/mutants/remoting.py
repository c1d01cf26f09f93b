"""Mutants of RMQ-REM."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.system_under_test.protocol import command as commands
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.frames import FrameDecoder, RemoteProtocolError
from staticfire.system_under_test.remoting import connection
from staticfire.system_under_test.remoting.connection import Connection
from tests.conformance.mutants.mutant import Answer, answers, requests, system


@answers("RMQ-REM-01", RequestCode.PULL_MESSAGE)
def last_byte_of_bodies_missing(_: RemotingCommand, answer: Answer) -> Answer:
    answer.body = answer.body.replace(b"the length", b"the_length")
    return answer


@system("RMQ-REM-02")
def unknown_header_fields_refused(patch: pytest.MonkeyPatch) -> None:
    decode = commands._decode_json

    def strict(header: bytes, body: bytes) -> RemotingCommand:
        if b"OfTomorrow" in header:
            raise RemoteProtocolError("unknown field")
        return decode(header, body)

    patch.setattr(commands, "_decode_json", strict)


@system("RMQ-REM-03")
def answers_always_json(patch: pytest.MonkeyPatch) -> None:
    response = RemotingCommand.response

    def json_response(*args: Any, **fields: Any) -> RemotingCommand:
        made = response(*args, **fields)
        made.serialize_type = commands.JSON
        return made

    patch.setattr(RemotingCommand, "response", staticmethod(json_response))


@system("RMQ-REM-04")
def one_request_at_a_time(patch: pytest.MonkeyPatch) -> None:
    """A pull that may wait is answered at once."""
    decode = commands._decode_json

    def hasty(header: bytes, body: bytes) -> RemotingCommand:
        made = decode(header, body)
        if made.code == RequestCode.PULL_MESSAGE:
            made.ext_fields["sysFlag"] = "4"
        return made

    patch.setattr(commands, "_decode_json", hasty)


@system("RMQ-REM-04")
def smallest_opaque_refused(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commands, "_INT_MIN", commands._INT_MIN + 1)


@requests("RMQ-REM-05", RequestCode.SEND_MESSAGE)
def one_way_requests_answered(request: RemotingCommand) -> RemotingCommand:
    request.flag = 0
    return request


@answers("RMQ-REM-06", 9999)
def unknown_codes_are_errors(_: RemotingCommand, answer: Answer) -> Answer:
    answer.code = ResponseCode.SYSTEM_ERROR
    return answer


@system("RMQ-REM-07")
def only_one_frame_a_segment(patch: pytest.MonkeyPatch) -> None:
    received = Connection.data_received

    def first_frame_only(self: Connection, data: bytes) -> None:
        size = 4 + int.from_bytes(data[:4], "big") if len(data) > 4 else len(data)
        received(self, data[:size])

    patch.setattr(Connection, "data_received", first_frame_only)


@system("RMQ-REM-08")
def no_limit_of_frames(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(connection, "FrameDecoder", lambda: FrameDecoder(1 << 30))


@system("RMQ-REM-09")
def idle_connections_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Connection, "_check_idle_at", lambda self, when_s: None)


@answers("RMQ-REM-10", RequestCode.GET_MAX_OFFSET)
def missing_fields_are_zero(_: RemotingCommand, answer: Answer) -> Answer:
    answer.code = ResponseCode.SUCCESS
    return answer


@answers("RMQ-REM-11", RequestCode.SEND_MESSAGE)
def what_waited_is_forgotten(
    request: RemotingCommand, answer: RemotingCommand
) -> RemotingCommand | None:
    return None if request.body == b"single" else answer
