"""Relays between a client and the target's servers, through which a case reads and changes the traffic.

Addresses in answers are rewritten to those of the relays. The client's requests pass unchanged.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING

from staticfire.faults.proxy.rocketmq.identity import ClientIdentity
from staticfire.faults.proxy.rocketmq.rewriting import BrokerRewriter, NameServerRewriter, Rewriter
from staticfire.harness.conformance.wire_log import WireLog
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand, decode_command
from staticfire.system_under_test.protocol.frames import (
    LENGTH_SIZE,
    FrameDecoder,
    RemoteProtocolError,
)
from staticfire.system_under_test.protocol.message import encode_host
from staticfire.system_under_test.remoting.address import format_address, parse_address

if TYPE_CHECKING:
    from asyncio import AbstractServer

FRAME_SIZE_MAX = 256 << 20
PORT_SIZE = 4  # of a store host
QUIET = (RequestCode.PULL_MESSAGE, RequestCode.HEART_BEAT)  # they would fill the log

Instead = Callable[[RemotingCommand], RemotingCommand | None]
Alter = Callable[[RemotingCommand, RemotingCommand], None]


class ClientProxy:
    """The relays of one client; `open` makes them."""

    def __init__(self, client: str, host: str, log: WireLog) -> None:
        self.client = client
        self.log = log
        self.instead: list[Instead] = []  # answers requests in place of the target
        self.alter: list[Alter] = []  # changes answers of the target: request, answer
        self.requests: Counter[tuple[str, int]] = Counter()  # by the target's address and code
        self.is_shut = False  # no traffic passes
        self.name_servers: tuple[str, ...] = ()
        self.view = _View()
        self._host = host
        self._servers: list[AbstractServer] = []
        self._ends: dict[_ClientEnd, None] = {}

    async def open(self, name_servers: Sequence[str], brokers: Sequence[str]) -> None:
        """Listen for the client in place of these servers."""
        for address in brokers:
            await self._listen(address, lambda view: BrokerRewriter(view, _anonymous()))
        for address in name_servers:
            await self._listen(address, lambda view: NameServerRewriter(view, _anonymous()))
        self.name_servers = tuple(self.view.addresses[address] for address in name_servers)

    async def slow_relay(self, address: str, delay_s: float) -> str:
        """Listen once more in place of a broker, and delay its answers by `delay_s`; return the address."""
        return await self._relay(
            lambda: _ClientEnd(self, address, BrokerRewriter(self.view, _anonymous()), delay_s)
        )

    async def _listen(self, address: str, make: Callable[[_View], Rewriter]) -> None:
        self.view.addresses[address] = await self._relay(
            lambda: _ClientEnd(self, address, make(self.view))
        )

    async def _relay(self, make: Callable[[], _ClientEnd]) -> str:
        server = await asyncio.get_running_loop().create_server(make, self._host, 0)
        self._servers.append(server)
        return format_address(self._host, int(server.sockets[0].getsockname()[1]))

    def shut(self) -> None:
        """Start a partition: close the target's connections, keep the client's open and silent."""
        self.is_shut = True
        for end in self._ends:
            end.lose_target()

    def close(self) -> None:
        """End all connections."""
        for server in self._servers:
            server.close()
        for end in tuple(self._ends):
            end.close()

    def opened(self, end: _ClientEnd) -> None:
        self._ends[end] = None

    def closed(self, end: _ClientEnd) -> None:
        self._ends.pop(end, None)


class _View:
    """Maps addresses of the target to those of its relays. Implements `faults/proxy/rocketmq/translator.py`."""

    def __init__(self) -> None:
        self.addresses: dict[str, str] = {}

    def broker(self, address: str, name: str = "") -> str:
        return self.addresses.get(address, address)

    def ha(self, address: str, name: str = "") -> str:
        return address

    registered_broker = broker
    registered_ha = ha

    def store_host(self, host: bytes) -> bytes | None:
        port = int.from_bytes(host[-PORT_SIZE:], "big")
        address = format_address(str(ip_address(host[:-PORT_SIZE])), port)
        found = self.addresses.get(address)
        if found is None:
            return None
        encoded, _ = encode_host(parse_address(found))
        return encoded if len(encoded) == len(host) else None


class _ClientEnd(asyncio.Protocol):
    """A connection of the client, with the matching connection to the server."""

    def __init__(
        self, proxy: ClientProxy, address: str, rewriter: Rewriter, delay_s: float = 0.0
    ) -> None:
        self._proxy = proxy
        self._address = address
        self._delay_s = delay_s
        self._rewriter = rewriter
        self._frames = FrameDecoder(FRAME_SIZE_MAX)
        self._asked: dict[int, RemotingCommand] = {}
        self._early: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._target: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None

    # --- the client's side --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._proxy.opened(self)
        if not self._proxy.is_shut:
            self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        host, port = parse_address(self._address)
        try:
            transport, _ = await asyncio.get_running_loop().create_connection(
                lambda: _TargetEnd(self), host, port
            )
        except OSError:
            self.close()
            return
        self._target = transport
        if self._proxy.is_shut or self._transport is None:
            self.lose_target()
        for frame in self._early:
            self._to_target(frame)
        self._early.clear()

    def data_received(self, data: bytes) -> None:
        if self._proxy.is_shut:
            return
        try:
            for frame in self._frames.feed(data):
                self._from_client(frame)
        except RemoteProtocolError as error:
            self._proxy.log.note(self._address, f"{self._proxy.client} sent no frame: {error}")
            self.close()

    def _from_client(self, frame: bytes) -> None:
        command = decode_command(frame)
        if command.code not in QUIET or command.is_response:
            self._proxy.log.received(f"{self._proxy.client} to {self._address}", command)
        if not command.is_response:
            self._proxy.requests[self._address, command.code] += 1
            for answer in self._proxy.instead:
                found = answer(command)
                if found is not None:
                    self._to_client(found)
                    return
            if not command.is_oneway:
                self._asked[command.opaque] = command
        self._to_target(len(frame).to_bytes(LENGTH_SIZE, "big") + frame)

    def _to_target(self, frame: bytes) -> None:
        if self._target is None:
            self._early.append(frame)
        elif not self._target.is_closing():
            self._target.write(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._proxy.closed(self)
        self.lose_target()

    # --- the target's side --------------------------------------------------------------------------

    def from_target(self, frame: bytes) -> None:
        rewritten = self._rewriter.down(len(frame).to_bytes(LENGTH_SIZE, "big") + frame)
        command = decode_command(rewritten[LENGTH_SIZE:])
        request = self._asked.pop(command.opaque, None) if command.is_response else None
        if request is not None:
            for alter in self._proxy.alter:
                alter(request, command)
        pass_on = partial(
            self._to_client, command, is_quiet=request is not None and request.code in QUIET
        )
        if self._delay_s:
            asyncio.get_running_loop().call_later(self._delay_s, pass_on)
        else:
            pass_on()

    def _to_client(self, command: RemotingCommand, *, is_quiet: bool = False) -> None:
        if self._proxy.is_shut or self._transport is None or self._transport.is_closing():
            return
        if not is_quiet or (command.code == ResponseCode.SUCCESS and command.body):
            self._proxy.log.sent(f"{self._proxy.client} from {self._address}", command)
        self._transport.write(command.encode())

    def target_lost(self) -> None:
        self._target = None
        if not self._proxy.is_shut:
            self.close()

    def lose_target(self) -> None:
        if self._connecting is not None and not self._connecting.done():
            self._connecting.cancel()
        if self._target is not None:
            self._target.abort()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class _TargetEnd(asyncio.Protocol):
    """A connection to a server of the target."""

    def __init__(self, client_end: _ClientEnd) -> None:
        self._client_end = client_end
        self._frames = FrameDecoder(FRAME_SIZE_MAX)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                self._client_end.from_target(frame)
        except RemoteProtocolError:
            self._client_end.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._client_end.target_lost()


def _anonymous() -> ClientIdentity:
    return ClientIdentity(lambda: None)


def refusal(request: RemotingCommand, code: int, remark: str) -> RemotingCommand:
    """Make an answer that refuses a request in place of the target."""
    return RemotingCommand.response(request, code, remark, {}, b"")
