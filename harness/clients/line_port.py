"""The client's end of the line protocol: requests from standard input, outcomes and emitted ops to standard output.

`emit` returns once the line is written completely, so a listener that then reports success has been recorded.
"""

from __future__ import annotations

import asyncio
import os
import select
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

from staticfire.checkers.op_kinds.fields import TEXT, WHOLE
from staticfire.checkers.op_kinds.harness import CLOCK
from staticfire.harness.clients.lines import (
    LINE_BYTES_MAX,
    LineError,
    LineSplitter,
    check_fields,
    decode_line,
    encode_line,
)
from staticfire.harness.clients.port import Outcome, PortClosed, Reply, Request

if TYPE_CHECKING:
    from staticfire.checkers.model.history import OpType

READ_BYTES = 1 << 16

Check = Callable[
    [Request], None
]  # raises LineError for a request that this client cannot carry out


class LinePort:
    """The client's side of a port over lines; see `port.ClientSide`.

    Args:
        write: writes all of its argument before it returns; raises OSError if there is no reader.
        check: checks each request before the client gets it.
        now_ns: a monotonic clock that stamps each line.
    """

    def __init__(
        self,
        write: Callable[[bytes], None],
        check: Check,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._write = write
        self._check = check
        self._now_ns = now_ns
        self._splitter = LineSplitter()
        self._requests: asyncio.Queue[tuple[Request, Reply] | Exception] = asyncio.Queue()
        self._closed = False

    def emit(self, type: OpType, f: str, value: Mapping[str, object], error: str | None) -> None:
        """Write an op's line. Raises OSError if there is no reader."""
        self._say({"emit": f, "type": type, "value": value, "error": error})

    async def next(self) -> tuple[Request, Reply]:
        """Wait for a request. Raises PortClosed after the last, LineError at a bad line, OSError without a reader."""
        found = await self._requests.get()
        if isinstance(found, Exception):
            self._requests.put_nowait(found)  # for the next call
            raise found
        return found

    def feed(self, data: bytes) -> None:
        """Add bytes that were read from the peer."""
        if self._closed:
            return
        try:
            for line in self._splitter.feed(data):
                request, reply = self._request(line)
                if request["f"] == CLOCK:
                    reply(Outcome("ok", {}))
                else:
                    self._check(request)
                    self._requests.put_nowait((request, reply))
        except OSError:  # there is no reader, so `_say` has closed the port
            return
        except LineError as error:
            self._close(error)

    def end(self) -> None:
        """Note the end of the input. Half a line is ignored, since its writer died before the line was complete."""
        if not self._closed:
            self._close(PortClosed("standard input has ended"))

    def _close(self, reason: Exception) -> None:
        self._closed = True
        self._requests.put_nowait(reason)

    def _request(self, line: bytes) -> tuple[Request, Reply]:
        request = decode_line(line)
        check_fields("a request", request, {"id": WHOLE, "f": TEXT})
        number = request.pop("id")
        return request, partial(self._reply, number)

    def _reply(self, number: int, outcome: Outcome) -> None:
        fields = {"type": outcome.type, "value": outcome.value, "error": outcome.error}
        self._say({"id": number, **fields})

    def _say(self, fields: Mapping[str, object]) -> None:
        try:
            self._write(encode_line({**fields, "at_ns": self._now_ns()}))
        except OSError as error:
            self._close(error)
            raise


class Output:
    """Writes lines of any thread to a descriptor, one after the other. Raises OSError."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def __call__(self, line: bytes) -> None:
        with self._lock:
            write_all(self._descriptor, line)


def write_all(descriptor: int, data: bytes) -> None:
    """Write everything, however long the reader takes. Raises OSError."""
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:  # the parent has made the descriptor non-blocking
            poll = select.poll()
            poll.register(descriptor, select.POLLOUT)
            poll.poll()


def read_first_line(descriptor: int) -> tuple[bytes, bytes]:
    """Wait for a line; return it and the bytes read after it. Raises LineError if the input ends first."""
    data = b""
    while b"\n" not in data:
        piece = os.read(descriptor, READ_BYTES)
        data += piece
        if not piece or len(data) > LINE_BYTES_MAX:
            raise LineError("the first line of standard input must be the configuration")
    line, _, rest = data.partition(b"\n")
    return line, rest


class Fed(Protocol):
    """A consumer of bytes as they come."""

    def feed(self, data: bytes) -> None: ...

    def end(self) -> None: ...


def feed_from(descriptor: int, port: Fed) -> None:
    """Feed the port with bytes of the descriptor until its end."""
    loop = asyncio.get_running_loop()

    def readable() -> None:
        try:
            data = os.read(descriptor, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            port.feed(data)
        else:
            loop.remove_reader(descriptor)
            port.end()

    try:
        loop.add_reader(descriptor, readable)
    except PermissionError:  # a file, which can always be read
        while data := os.read(descriptor, READ_BYTES):
            port.feed(data)
        port.end()
