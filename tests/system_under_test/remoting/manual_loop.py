"""A loop whose time moves only when a test says so, a transport that remembers, and a log that remembers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from staticfire.system_under_test.protocol.command import RemotingCommand, decode_command
from staticfire.system_under_test.protocol.frames import FrameDecoder


class ManualLoop:
    """The part of an event loop that needs no sockets. `advance` is the only thing that runs callbacks."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.timers: list[asyncio.TimerHandle] = []
        self._soon: list[asyncio.Handle] = []

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """This loop, for those who ask for a whole one."""
        return cast(asyncio.AbstractEventLoop, self)

    @property
    def soon(self) -> int:
        """Callbacks that the next turn will run, timers apart."""
        return len(self._soon)

    def time(self) -> float:
        return self.now_s

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        raise context["exception"]

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self.loop)

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self.loop, context)
        self._soon.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now_s + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self.loop, context)
        self.timers.append(handle)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        if handle in self.timers:  # one that already ran may be cancelled, too
            self.timers.remove(handle)

    def turn(self) -> None:
        """Run what is due now."""
        while self._soon or any(timer.when() <= self.now_s for timer in self.timers):
            ready, self._soon = self._soon, []
            due = sorted((t for t in self.timers if t.when() <= self.now_s), key=lambda t: t.when())
            self.timers = [timer for timer in self.timers if timer not in due]
            for handle in [*ready, *due]:
                if not handle.cancelled():
                    handle._run()

    def advance(self, seconds: float) -> None:
        """Let the time pass, timer by timer."""
        end_s = self.now_s + seconds
        self.turn()
        while self.timers and (next_s := min(timer.when() for timer in self.timers)) <= end_s:
            self.now_s = next_s
            self.turn()
        self.now_s = end_s

    def freeze(self, seconds: float) -> None:
        """The process stands still: nothing runs, then everything that is late at once."""
        self.now_s += seconds
        self.turn()


class MemoryTransport(asyncio.Transport):
    """What a protocol writes. `unread` bytes stand for a peer that does not read."""

    def __init__(self, loop: ManualLoop, protocol: asyncio.Protocol) -> None:
        super().__init__({"peername": ("10.0.0.9", 40000)})
        self.writes: list[bytes] = []
        self.closing: str | None = None  # "closed" or "aborted"
        self.reads = True
        self.is_paused = False  # the node reads nothing
        self._high = 0
        self._is_full = False
        self._loop = loop
        self._protocol = protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = high or 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))
        if not self._is_full and self.get_write_buffer_size() > self._high:
            self._is_full = True
            self._protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        return 0 if self.reads else sum(map(len, self.writes))

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def read_all(self) -> None:
        """The peer reads again."""
        self.reads = True
        if self._is_full:
            self._is_full = False
            self._protocol.resume_writing()

    def close(self) -> None:
        self._end("closed")

    def abort(self) -> None:
        self._end("aborted")

    def _end(self, how: str) -> None:
        if self.closing is None or how == "aborted":
            self.closing = how
        if self.reads or how == "aborted":
            self._loop.call_soon(self._lose)

    def _lose(self) -> None:
        protocol, self._protocol = self._protocol, asyncio.Protocol()
        protocol.connection_lost(None)

    def commands(self) -> list[RemotingCommand]:
        """Everything written so far."""
        return [decode_command(frame) for frame in FrameDecoder().feed(b"".join(self.writes))]


class MemoryLog:
    """Events by level, in order."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, dict[str, object]]] = []

    def debug(self, event: str, /, **fields: object) -> None:
        self.events.append(("debug", event, fields))

    def info(self, event: str, /, **fields: object) -> None:
        self.events.append(("info", event, fields))

    def warning(self, event: str, /, **fields: object) -> None:
        self.events.append(("warning", event, fields))

    def error(self, event: str, /, **fields: object) -> None:
        self.events.append(("error", event, fields))

    def names(self, *levels: str) -> list[str]:
        return [event for level, event, _ in self.events if level in levels]
