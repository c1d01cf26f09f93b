"""Decoded log of the frames of a case, for the report of a failed case."""

from __future__ import annotations

from collections.abc import Callable

from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand

LINES_MAX = 400  # of a case: the beginning of a flood is enough
BODY_SHOWN = 200  # bytes


class WireLog:
    """The lines of one case: time since its start, direction, peer, and the frame in words."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self.lines: list[str] = []
        self._now_s = now_s
        self._start_s = now_s()
        self._left_out = 0

    def sent(self, peer: str, command: RemotingCommand) -> None:
        self._add(f"-> {peer} {in_words(command)}")

    def received(self, peer: str, command: RemotingCommand) -> None:
        self._add(f"<- {peer} {in_words(command)}")

    def note(self, peer: str, text: str) -> None:
        self._add(f"-- {peer} {text}")

    def _add(self, text: str) -> None:
        if len(self.lines) < LINES_MAX:
            self.lines.append(f"{self._now_s() - self._start_s:9.3f} s {text}")
            return
        self._left_out += 1
        self.lines[LINES_MAX - 1] = f"... {self._left_out + 1} more lines"


def in_words(command: RemotingCommand) -> str:
    names: type[RequestCode] | type[ResponseCode] = (
        ResponseCode if command.is_response else RequestCode
    )
    try:
        code = f"{names(command.code).name}({command.code})"
    except ValueError:
        code = str(command.code)
    kind = "answer" if command.is_response else "one-way" if command.is_oneway else "request"
    parts = [kind, code, f"opaque={command.opaque}"]
    if command.ext_fields:
        parts.append(f"ext={command.ext_fields!r:.600}")
    if command.remark:
        parts.append(f"remark={command.remark!r:.300}")
    if command.body:
        parts.append(f"body={len(command.body)} bytes {command.body[:BODY_SHOWN]!r}")
    return " ".join(parts)
