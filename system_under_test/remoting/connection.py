"""One TCP connection between two nodes, seen from either end (RocketMQ: NettyRemotingAbstract, NettyDecoder).

Bytes go through the frame decoder; requests go to the handler, in order; responses go to the callers that wait for
them. Either end may send requests. Nothing here starts a task. Once requests have used up the node's share of a turn
of the loop (`turn_share`), the remaining ones wait for later turns.

What a peer can cost is bounded: the input buffer holds at most one frame, the output at most OUTPUT_SIZE_MAX (all
connections of a server together: see `held_memory`), silence lasts at most IDLE_TIMEOUT_S. Bytes that break the
protocol end the connection with one log line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import (
    ONEWAY_FLAG,
    RESPONSE_FLAG,
    RemotingCommand,
    decode_command,
)
from staticfire.system_under_test.protocol.frames import FrameDecoder, RemoteProtocolError
from staticfire.system_under_test.remoting.address import format_address
from staticfire.system_under_test.remoting.errors import (
    RemotingClosed,
    RemotingError,
    RemotingTimeout,
)
from staticfire.system_under_test.remoting.held_memory import HeldMemory
from staticfire.system_under_test.remoting.pending_requests import PendingRequest, PendingRequests
from staticfire.system_under_test.remoting.turn_output import TurnOutput
from staticfire.system_under_test.remoting.turn_share import TurnShare
from staticfire.system_under_test.runtime.env import Log

IDLE_TIMEOUT_S = 120.0  # RocketMQ: serverChannelMaxIdleTimeSeconds, clientChannelMaxIdleTimeSeconds
OUTPUT_SIZE_MAX = 40 * 1024 * 1024  # bytes a peer may leave unread
OUTPUT_COUNTED_SIZE = 1024 * 1024  # above this, what a peer leaves unread counts as held memory
WRITE_BATCH_SIZE = 1024 * 1024  # bytes collected before they are written without waiting for more
# Bytes read in one turn of the loop: few, so that we answer the first small requests while the peer writes the last.
READ_SIZE = 32 * 1024
LARGE_READ_SIZE = 256 * 1024  # inside a frame that is larger than READ_SIZE
CLOSE_TIMEOUT_S = 5.0  # a closing connection gets this long to deliver what it holds
REMARK_LENGTH_MAX = 1024  # characters of an error text that go back to the peer
OPAQUE_MAX = 0x7FFFFFFF
PAUSE_S = 1.0  # a timer that is this late means that this process was paused

# A handler answers at once, or returns None and answers later through `connection.send`, or never.
Handler = Callable[["Connection", RemotingCommand], RemotingCommand | None]
OnClose = Callable[["Connection"], None]
Sign = Callable[[RemotingCommand], None]  # adds a signature to a request


class Connection(asyncio.Protocol):
    """One connection. `key` is unique among all connections that its server or client ever has."""

    __slots__ = (
        "_active_at_s",
        "_decoder",
        "_handler",
        "_later",
        "_later_size",
        "_log",
        "_memory",
        "_on_close",
        "_opaque",
        "_output",
        "_output_size",
        "_pending",
        "_read_size",
        "_reading",
        "_share",
        "_sign",
        "_timer",
        "_transport",
        "_turn_output",
        "_unread",
        "closed",
        "key",
        "loop",
        "remote_host",
        "remote_port",
    )

    def __init__(
        self,
        *,
        key: int,
        loop: asyncio.AbstractEventLoop,
        log: Log,
        handler: Handler | None,
        on_close: OnClose | None = None,
        memory: HeldMemory | None = None,
        turn_output: TurnOutput | None = None,
        sign: Sign | None = None,
    ) -> None:
        self.key = key
        self.closed = False
        self.remote_host = ""
        self.remote_port = 0
        self.loop = loop
        self._log = log
        self._handler = handler
        self._on_close = on_close
        self._sign = sign
        self._memory = HeldMemory() if memory is None else memory
        self._turn_output = TurnOutput() if turn_output is None else turn_output
        self._share = self._turn_output.share
        self._unread = False  # the transport holds more than OUTPUT_COUNTED_SIZE
        self._decoder = FrameDecoder()
        self._later: list[bytes] = []  # frames for later turns; nothing is read meanwhile
        self._later_size = 0
        self._pending = PendingRequests(loop, self._timed_out)
        self._opaque = 0
        self._output: list[bytes] = []
        self._output_size = 0
        self._reading = False  # inside data_received, which flushes at its end
        self._read_size = 0  # 0: the transport does not let us choose
        self._active_at_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None

    @property
    def share(self) -> TurnShare:
        """How much of this loop turn the node's requests have used."""
        return self._share

    @property
    def address(self) -> str:
        """The peer as `host:port`."""
        return format_address(self.remote_host, self.remote_port)

    def use_transport(self, transport: asyncio.Transport) -> None:
        """Write to another transport from now on: one that encrypts."""
        self._transport = transport
        self._read_size = 0

    # Sending

    def send(self, command: RemotingCommand) -> None:
        """Write a command, together with all others of this turn of the loop. Does nothing once closed."""
        if not self.closed:
            self.send_frame(command.encode())

    def send_frame(self, frame: bytes) -> None:
        """Like `send`, for a command that is encoded already."""
        if self.closed:
            return
        if not self._output and not self._reading:
            self._turn_output.add(self, self.loop)
        self._output.append(frame)
        self._output_size += len(frame)
        if self._output_size > WRITE_BATCH_SIZE:
            self.flush()

    def invoke_nowait(
        self, command: RemotingCommand, timeout_s: float, *, close_on_timeout: bool = False
    ) -> asyncio.Future[RemotingCommand]:
        """Send a request; the future gets its response, or RemotingTimeout or RemotingClosed."""
        request = PendingRequest(
            code=command.code,
            timeout_s=timeout_s,
            deadline_s=self.loop.time() + timeout_s,
            future=self.loop.create_future(),
            closes=close_on_timeout,
        )
        self.send_request(command, request)
        return request.future

    def send_request(self, command: RemotingCommand, request: PendingRequest) -> None:
        """Like invoke_nowait, for a request that already waits."""
        if self.closed:
            request.fail(RemotingClosed(f"the connection to {self.address} is closed"))
            return
        command.opaque = self._next_opaque()
        if self._sign is not None:
            self._sign(command)
        self._pending.add(command.opaque, request)
        try:
            self.send(command)
        except Exception as error:  # the command cannot be encoded: only its caller gets the error
            self._pending.discard(command.opaque)
            request.fail(error)

    def invoke_oneway(self, command: RemotingCommand) -> None:
        """Send a one-way request."""
        command.opaque = self._next_opaque()
        command.flag |= ONEWAY_FLAG
        if self._sign is not None:
            self._sign(command)
        self.send(command)

    def has_answered_after(self, opaque: int) -> bool:
        """Whether the peer has answered a request that was sent after this one: then it has read this one, too."""
        # Opaques wrap around to 0; across the wrap the order is unknown, and the answer is False.
        return 0 < self._pending.answered - opaque < OPAQUE_MAX // 2

    # Ending

    def close(self) -> None:
        """Deliver what was sent, then end the connection. Outstanding requests fail at once."""
        if self.closed:
            return
        self.flush()
        if self.closed:  # the flush has ended it: the peer does not read
            return
        self._end("was closed")
        if self._transport is not None:
            self._transport.close()
            self._timer = self.loop.call_later(CLOSE_TIMEOUT_S, self._transport.abort)

    def abort(self) -> None:
        """End the connection and drop what is not yet delivered."""
        self._end("was aborted")
        if self._transport is not None:
            self._transport.abort()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if peer is not None:  # None: the peer was gone before we looked
            self.remote_host, self.remote_port = peer[0], peer[1]
        self._transport.set_write_buffer_limits(high=OUTPUT_COUNTED_SIZE)
        if hasattr(transport, "max_size"):  # those of asyncio's selector loop
            self._read_up_to(READ_SIZE)
        self._active_at_s = self.loop.time()
        self._check_idle_at(self._active_at_s + IDLE_TIMEOUT_S)

    def data_received(self, data: bytes) -> None:
        self._active_at_s = self.loop.time()
        self._reading = True
        try:
            frames = self._decoder.feed(data)
            if self._read_size:
                self._choose_read_size(bool(frames))
            if self._later or (frames and self._share.is_over):
                self._put_off(frames)
            else:
                self._take(frames)
            self._count_memory(is_new=bool(frames) and not self._unread)
        except RemoteProtocolError as error:
            self._refuse(error)
        finally:
            self._reading = False
            if self._output:
                self.flush()

    def pause_writing(self) -> None:
        self._unread = True
        self._count_memory()

    def resume_writing(self) -> None:
        self._unread = False
        self._count_memory()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end("was lost" if exc is None else f"was lost: {exc}")
        if self._timer is not None:
            self._timer.cancel()
        if self._on_close is not None:
            self._on_close(self)

    # Inside

    def _choose_read_size(self, has_frames: bool) -> None:
        """Read a large frame in few turns of the loop, and many small frames in more."""
        size = READ_SIZE if has_frames else LARGE_READ_SIZE
        if size != self._read_size:
            self._read_up_to(size)

    def _read_up_to(self, size: int) -> None:
        self._read_size = size
        cast(Any, self._transport).max_size = size

    def _take(self, frames: list[bytes]) -> None:
        """Accept frames in order until the share of this turn is used up. Raises RemoteProtocolError."""
        time = self.loop.time
        began_s = time()
        until_s = began_s + self._share.slice_s
        try:
            for number, frame in enumerate(frames, 1):
                self._accept(decode_command(frame))
                if self.closed:
                    return
                if time() > until_s and number < len(frames):
                    self._put_off(frames[number:])
                    return
        finally:
            self._share.spend(time() - began_s, self.loop)

    def _put_off(self, frames: list[bytes]) -> None:
        """Leave frames to a later turn."""
        if not self._later:
            assert self._transport is not None
            self._transport.pause_reading()
            self._share.wait(self._go_on, self.loop)
        self._later += frames
        self._later_size += sum(map(len, frames))

    def _go_on(self) -> None:
        """Accept the frames that were put off to this turn."""
        if self.closed:
            return
        self._reading = True
        frames, self._later, self._later_size = self._later, [], 0
        try:
            self._take(frames)
        except RemoteProtocolError as error:
            self._refuse(error)
        finally:
            self._reading = False
            if self._output:
                self.flush()
        if not self._later and not self.closed:
            assert self._transport is not None
            self._transport.resume_reading()
        self._count_memory(is_new=not self._unread)

    def _refuse(self, error: RemoteProtocolError) -> None:
        self._log.warning("peer broke the protocol", peer=self.address, error=str(error))
        self.abort()

    def _accept(self, command: RemotingCommand) -> None:
        if command.flag & RESPONSE_FLAG:
            self._pending.answer(command)
        else:
            self.serve(command, self._handler or refuse_request)

    def serve(self, request: RemotingCommand, handler: Handler) -> None:
        """Let `handler` answer one request. An exception becomes an error answer to this request only."""
        try:
            response = handler(self, request)
            if response is not None:
                self._answer(request, response)
        except Exception as error:
            # A ValueError is the peer's mistake and only goes back to the peer; anything else is ours, and is logged.
            if not isinstance(error, ValueError):
                self._log.error("request failed", code=request.code, error=describe(error))
            self._answer(request, failed(request, error))

    def _answer(self, request: RemotingCommand, response: RemotingCommand) -> None:
        if not request.flag & ONEWAY_FLAG:
            self.send(response)

    def _next_opaque(self) -> int:
        self._opaque = (self._opaque + 1) & OPAQUE_MAX
        return self._opaque

    def flush(self) -> None:
        """Write what was sent in this turn of the loop."""
        if self.closed or not self._output:
            return
        data = self._output[0] if len(self._output) == 1 else b"".join(self._output)
        self._output.clear()
        self._output_size = 0
        self._active_at_s = self.loop.time()
        assert self._transport is not None
        try:
            self._transport.write(data)
        except OSError as error:  # of TLS: must not stop the flush of this turn's other connections
            self._log.warning("cannot write", peer=self.address, error=str(error))
            self.abort()
        if self._unread:
            self._count_memory()

    def _count_memory(self, *, is_new: bool = False) -> None:
        """Report how much is held for this peer; end it if it leaves too much unread."""
        if self.closed:
            return
        held_size = self._decoder.held_size + self._later_size
        if self._unread:
            assert self._transport is not None
            unread_size = self._transport.get_write_buffer_size()
            if unread_size > OUTPUT_SIZE_MAX:
                self._log.warning("peer does not read", peer=self.address, unread_bytes=unread_size)
                self.abort()
                return
            held_size += unread_size
        self._memory.hold(self, held_size, is_new=is_new)

    def refuse_memory(self, held_size: int) -> None:
        """See `held_memory.Holder`."""
        self._log.warning("peer holds too much memory", peer=self.address, held_bytes=held_size)
        self.abort()

    def _end(self, how: str) -> None:
        if self.closed:
            return
        self.closed = True
        self._memory.release(self)
        # frees the buffer; this object lives until the garbage collector runs
        self._decoder = FrameDecoder()
        self._later.clear()
        self._output.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._pending.fail_all(RemotingClosed, f"the connection to {self.address} {how}")

    def _timed_out(self, request: PendingRequest) -> RemotingError:
        if request.closes:
            self.close()
        return RemotingTimeout(
            f"request {request.code} to {self.address} had no answer in {request.timeout_s:g} s"
        )

    def _check_idle_at(self, when_s: float) -> None:
        self._timer = self.loop.call_at(when_s, self._check_idle, when_s)

    def _check_idle(self, due_s: float) -> None:
        now_s = self.loop.time()
        idle_until_s = self._active_at_s + IDLE_TIMEOUT_S
        if now_s - due_s > PAUSE_S:
            # This process was paused, not the peer: what it sent meanwhile may not have been read yet.
            self._check_idle_at(now_s + IDLE_TIMEOUT_S)
        elif idle_until_s > now_s:
            self._check_idle_at(idle_until_s)
        else:
            self._log.info("connection was idle", peer=self.address, timeout_s=IDLE_TIMEOUT_S)
            self.close()


def not_supported(request: RemotingCommand) -> RemotingCommand:
    """A response with code 3 and RocketMQ's text (NettyRemotingAbstract.processRequestCommand)."""
    return RemotingCommand.response(
        request,
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
        f" request type {request.code} not supported",
    )


def refuse_request(_: Connection, request: RemotingCommand) -> RemotingCommand:
    """The handler of a node that serves no requests."""
    return not_supported(request)


def failed(request: RemotingCommand, error: Exception) -> RemotingCommand:
    """A response with code 1 and the text of the error."""
    return RemotingCommand.response(
        request, ResponseCode.SYSTEM_ERROR, describe(error)[:REMARK_LENGTH_MAX]
    )


def describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
