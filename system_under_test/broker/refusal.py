"""Errors of refused requests: a response code and a remark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand


class Refused(Exception):
    """The broker refuses a request: its answer is this code, with the text as the remark."""

    def __init__(self, code: ResponseCode, text: str) -> None:
        super().__init__(text)
        self.code = code

    def answer(self, request: RemotingCommand) -> RemotingCommand:
        return RemotingCommand.response(request, self.code, str(self))


class SendRefused(Refused):
    """The broker refuses to store the message."""


class PullRefused(Refused):
    """The broker refuses the pull."""


@contextmanager
def refusing_without_topic(topic: str) -> Iterator[None]:
    """Turn an OSError of the block, which makes a topic durable, into SendRefused."""
    try:
        yield
    except OSError as error:
        raise SendRefused(
            ResponseCode.SERVICE_NOT_AVAILABLE,
            f"topic[{topic}] cannot be made now: {error.strerror}",
        ) from error
