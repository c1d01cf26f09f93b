"""One connection to the target, on which a case sends and receives single frames.

It does not use our own client, because a case must also send frames that no client sends, and read all answers. It
shares only the encoding of frames, which is tested against recorded traffic of real clients.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from itertools import count

from staticfire.harness.conformance.wire_log import WireLog
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import JSON, RemotingCommand, decode_command
from staticfire.system_under_test.protocol.frames import FrameDecoder, RemoteProtocolError
from staticfire.system_under_test.remoting.address import parse_address

ANSWER_S = 10.0  # for an answer without a wait at the server
BUSY_S, BUSY_PAUSE_S = 15.0, 0.2  # total time and interval of retries at a busy broker
FRAME_SIZE_MAX = 256 << 20  # of a target's frames


class NoAnswer(Exception):
    """The target did not answer a request in time, or ended the connection instead."""


class Refused(Exception):
    """The target answered a valid request with a code other than 0."""


class CannotConnect(Exception):
    """The target does not accept a connection."""


class Wire(asyncio.Protocol):
    """A connection to one server.

    Each answer goes to the task that sent the request; the server's requests wait for `next_request`.
    """

    def __init__(self, address: str, log: WireLog) -> None:
        self.address = address
        self.garbage: str | None = None  # bytes from the server that are no frame
        self.stray: list[RemotingCommand] = []  # answers without a request
        self._log = log
        self._frames = FrameDecoder(FRAME_SIZE_MAX)
        self._opaques = count(1)
        self._waiting: dict[int, asyncio.Future[RemotingCommand]] = {}
        self._requests: deque[RemotingCommand] = deque()
        self._arrived = asyncio.Event()
        self._ended = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None

    @property
    def local_address(self) -> tuple[str, int]:
        """Return the address of our end."""
        assert self._transport is not None
        host, port = self._transport.get_extra_info("sockname")[:2]
        return str(host), int(port)

    # --- for cases ----------------------------------------------------------------------------------

    async def ask(
        self,
        code: int,
        ext: Mapping[str, object] | None = None,
        body: bytes = b"",
        *,
        answer_s: float = ANSWER_S,
        serialize_type: int = JSON,
        version: int = 409,
    ) -> RemotingCommand:
        """Send a request and return its answer. Values of `ext` become text. Raises NoAnswer.

        A busy broker refuses requests that have waited for 200 ms (RMQ-LIM-07), so the request is repeated after
        SYSTEM_BUSY (2), for at most BUSY_S.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + BUSY_S
        while True:
            asked_s = loop.time()
            command = request(code, ext, body, serialize_type=serialize_type, version=version)
            answer = await self.ask_command(command, answer_s=answer_s)
            if answer.code != ResponseCode.SYSTEM_BUSY or asked_s > until_s:
                return answer
            await asyncio.sleep(BUSY_PAUSE_S)

    async def obtain(
        self,
        code: int,
        ext: Mapping[str, object] | None = None,
        body: bytes = b"",
        *,
        serialize_type: int = JSON,
    ) -> RemotingCommand:
        """Send a request that must succeed and return its answer. Raises NoAnswer, Refused."""
        answer = await self.ask(code, ext, body, serialize_type=serialize_type)
        if answer.code != ResponseCode.SUCCESS:
            raise Refused(
                f"{self.address} answered request {code} with {answer.code} {answer.remark!r:.200}; expected 0"
            )
        return answer

    async def ask_command(
        self, command: RemotingCommand, *, answer_s: float = ANSWER_S
    ) -> RemotingCommand:
        """Send a complete request and return its answer. Raises NoAnswer."""
        return await self.answer(self.send(command), command.code, answer_s=answer_s)

    def send(self, command: RemotingCommand) -> asyncio.Future[RemotingCommand]:
        """Send a request under a new number; the future gets its answer."""
        command.opaque = next(self._opaques)
        future = self.expect(command.opaque)
        self._log.sent(self.address, command)
        self.send_bytes(command.encode())
        return future

    def expect(self, opaque: int) -> asyncio.Future[RemotingCommand]:
        """Return a future for the answer with this number, for requests sent as bytes."""
        future = asyncio.get_running_loop().create_future()
        self._waiting[opaque] = future
        if self._ended.done():
            future.set_exception(NoAnswer(f"{self.address} closed the connection"))
        return future

    async def answer(
        self, future: asyncio.Future[RemotingCommand], code: int, *, answer_s: float = ANSWER_S
    ) -> RemotingCommand:
        try:
            async with asyncio.timeout(answer_s):
                return await future
        except TimeoutError:
            raise NoAnswer(
                f"{self.address} did not answer request {code} in {answer_s:g} s"
            ) from None

    def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def respond(
        self,
        request: RemotingCommand,
        code: int,
        body: bytes = b"",
    ) -> None:
        """Answer a request of the server."""
        response = RemotingCommand.response(request, code, None, {}, body)
        self._log.sent(self.address, response)
        self.send_bytes(response.encode())

    async def next_request(self, code: int, *, wait_s: float) -> RemotingCommand | None:
        """Return the server's next request with this code, or None if none comes in time. Others are dropped."""
        try:
            async with asyncio.timeout(wait_s):
                while True:
                    while self._requests:
                        found = self._requests.popleft()
                        if found.code == code:
                            return found
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            return None

    async def is_closed(self, *, wait_s: float = ANSWER_S) -> bool:
        """Whether the server ends the connection within this time."""
        done, _ = await asyncio.wait([self._ended], timeout=wait_s)
        return bool(done)

    def pause(self) -> None:
        """Stop reading, so that the server's data stays in its own buffers."""
        assert self._transport is not None
        self._transport.pause_reading()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # --- asyncio ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                self._received(decode_command(frame))
        except RemoteProtocolError as error:
            self.garbage = str(error)
            self._log.note(self.address, f"not a frame: {error}")
            self.close()

    def _received(self, command: RemotingCommand) -> None:
        self._log.received(self.address, command)
        if not command.is_response:
            self._requests.append(command)
            self._arrived.set()
            return
        future = self._waiting.pop(command.opaque, None)
        if future is None:
            self.stray.append(command)
        elif not future.done():
            future.set_result(command)

    def connection_lost(self, exc: Exception | None) -> None:
        self._log.note(self.address, "the connection ended")
        for future in self._waiting.values():
            if not future.done():
                reason = f": it sent no frame ({self.garbage})" if self.garbage else ""
                future.set_exception(NoAnswer(f"{self.address} closed the connection{reason}"))
                future.exception()  # retrieved here, since a case may ignore it
        self._waiting.clear()
        if not self._ended.done():
            self._ended.set_result(None)


async def connect(address: str, log: WireLog, *, within_s: float = 5.0) -> Wire:
    """Open a connection to `host:port`. Raises CannotConnect."""
    try:
        host, port = parse_address(address)
    except ValueError as error:  # a name server may return any text
        raise CannotConnect(str(error)) from None
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(within_s):
            _, wire = await loop.create_connection(lambda: Wire(address, log), host, port)
    except (OSError, TimeoutError, UnicodeError) as error:  # an invalid host name: UnicodeError
        reason = str(error) or f"no answer in {within_s:g} s"
        raise CannotConnect(f"cannot connect to {address}: {reason}") from None
    return wire


def request(
    code: int,
    ext: Mapping[str, object] | None = None,
    body: bytes = b"",
    *,
    serialize_type: int = JSON,
    version: int = 409,
    oneway: bool = False,
) -> RemotingCommand:
    """Make a request; values of `ext` become text as Java writes them."""
    command = RemotingCommand.request(code, _texts(ext or {}), body, oneway=oneway)
    command.serialize_type = serialize_type
    command.version = version
    return command


def _texts(ext: Mapping[str, object]) -> dict[str, str]:
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in ext.items()
    }
