"""Why a request was refused: a response code and a remark."""

from __future__ import annotations

from system_under_test.protocol.codes import ResponseCode


class Refused(Exception):
    """A check failed; the text is the remark."""

    def __init__(self, code: ResponseCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class SendRefused(Refused):
    """The message is not stored."""


class PullRefused(Refused):
    """Nothing was read."""
