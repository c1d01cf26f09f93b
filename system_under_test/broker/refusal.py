"""Why a request was refused: a response code and a remark."""

from __future__ import annotations

from system_under_test.protocol.codes import ResponseCode


class SendRefused(Exception):
    """A check failed: the message is not stored."""

    def __init__(self, code: ResponseCode, text: str) -> None:
        super().__init__(text)
        self.code = code
