"""The one error of administration."""

from __future__ import annotations


class AdminError(Exception):
    """Something could not be done, in one sentence. `code` is the response code, None if there was no answer."""

    def __init__(self, text: str, code: int | None = None) -> None:
        super().__init__(text)
        self.code = code
