"""Answers shared by many handlers."""

from __future__ import annotations

from staticfire.system_under_test.broker.refusal import Refused
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.json_body import JsonBody

SLAVE_REFUSAL = (
    "Can't modify topic or subscription group from slave broker, "
    "please execute it from master broker."
)


def answer_ok(request: RemotingCommand, body: JsonBody | None = None) -> RemotingCommand:
    encoded = b"" if body is None else body.encode()
    return RemotingCommand.response(request, ResponseCode.SUCCESS, body=encoded)


def answer_error(request: RemotingCommand, remark: str) -> RemotingCommand:
    """An answer with code 1."""
    return RemotingCommand.response(request, ResponseCode.SYSTEM_ERROR, remark)


def topic_unknown(topic: str) -> Refused:
    return Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
