"""The error of administrative requests."""

from __future__ import annotations


class AdminError(Exception):
    """A request failed; the text is one sentence. `code` is the response code, None if there was no answer."""

    def __init__(self, text: str, code: int | None = None) -> None:
        super().__init__(text)
        self.code = code
