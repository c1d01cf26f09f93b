"""The error of a refused request: a response code and a remark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from staticfire.system_under_test.protocol.codes import ResponseCode


class Refused(Exception):
    """A check failed; the text is the remark."""

    def __init__(self, code: ResponseCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class SendRefused(Refused):
    """The message is not stored."""


class PullRefused(Refused):
    """Nothing was read."""


@contextmanager
def refusing_without_topic(topic: str) -> Iterator[None]:
    """Raises SendRefused when what is inside cannot make the topic durable, say on a full disk."""
    try:
        yield
    except OSError as error:
        raise SendRefused(
            ResponseCode.SERVICE_NOT_AVAILABLE,
            f"topic[{topic}] cannot be made now: {error.strerror}",
        ) from error
