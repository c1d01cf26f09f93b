"""Collects a node's output of one loop turn, over all its connections."""

from __future__ import annotations

import asyncio
from typing import Protocol

from staticfire.system_under_test.remoting.turn_share import TurnShare


class Writer(Protocol):
    """A connection that has collected bytes."""

    def flush(self) -> None:
        """Write them."""
        ...


class TurnOutput:
    """Connections with something to write. They are flushed in the next turn of the loop, with one callback for all.

    As a context manager it flushes at the end of the block instead, so that work which answers many requests saves them
    a turn; the block must not await. `share` counts the time that requests have used of the turn.
    """

    __slots__ = ("_in_block", "_writers", "share")

    def __init__(self, share: TurnShare | None = None) -> None:
        self._writers: list[Writer] = []
        self._in_block = False
        self.share = TurnShare() if share is None else share

    def add(self, writer: Writer, loop: asyncio.AbstractEventLoop) -> None:
        """Let `writer` be flushed soon by `loop`."""
        if not self._writers and not self._in_block:
            loop.call_soon(self._flush)
        self._writers.append(writer)

    def __enter__(self) -> None:
        self._in_block = True

    def __exit__(self, *_: object) -> None:
        self._in_block = False
        self._flush()

    def _flush(self) -> None:
        writers, self._writers = self._writers, []
        for writer in writers:
            writer.flush()
