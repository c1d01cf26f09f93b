"""RMQ-NS: the requests of a broker to its name servers."""

from __future__ import annotations

import asyncio
from collections import Counter
from ipaddress import ip_address

from staticfire.harness.conformance.asking import ask_until
from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import case, require
from staticfire.harness.conformance.cases.admin import option_of
from staticfire.harness.conformance.failures import NotTriable
from staticfire.harness.conformance.wire_log import WireLog
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand, decode_command
from staticfire.system_under_test.protocol.frames import FrameDecoder
from staticfire.system_under_test.remoting.address import format_address, parse_address

FRAME_SIZE_MAX = 16 << 20
PERIOD = "registerNameServerPeriod"
LEARN_S = 160.0  # RocketMQ reads namesrvAddr every 120 s
PERIODS = 2
MARGIN_S = 5.0


class FakeNameServer:
    """A name server that answers brokers, and counts their requests by code."""

    def __init__(self, log: WireLog) -> None:
        self.log = log
        self.requests: Counter[int] = Counter()
        self.peers: dict[_Peer, None] = {}
        self._knows_one = False  # whether a broker has registered
        self._server: asyncio.Server | None = None

    async def open(self, host: str) -> str:
        """Listen, and return the address."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Peer(self), host, 0)
        return format_address(host, int(self._server.sockets[0].getsockname()[1]))

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for peer in tuple(self.peers):
            peer.close()

    def answer(self, request: RemotingCommand) -> RemotingCommand:
        """Answer a request. Once a broker has registered, answer that the version of the topics is known."""
        self.requests[request.code] += 1
        self._knows_one = self._knows_one or request.code == RequestCode.REGISTER_BROKER
        is_asked = request.code == RequestCode.QUERY_DATA_VERSION
        fields = {"changed": "false" if self._knows_one else "true"} if is_asked else {}
        return RemotingCommand.response(request, ResponseCode.SUCCESS, None, fields, b"")


class _Peer(asyncio.Protocol):
    """A connection of a broker."""

    def __init__(self, server: FakeNameServer) -> None:
        self._server = server
        self._frames = FrameDecoder(FRAME_SIZE_MAX)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.peers[self] = None

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        for frame in self._frames.feed(data):
            request = decode_command(frame)
            self._server.log.received("a broker", request)
            self._transport.write(self._server.answer(request).encode())

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.peers.pop(self, None)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


@case("RMQ-NS-13", limit_s=400, is_slow=True, is_alone=True)
async def questions_of_brokers(bench: Bench) -> None:
    broker, fake = await bench.broker(), FakeNameServer(bench.log)
    host, _ = parse_address(broker.address)
    if _is_loopback(bench.target.listen_host) and not _is_loopback(host):
        raise NotTriable("its brokers cannot connect to the suite")
    bench.at_the_end(fake.close)
    address = await fake.open(bench.target.listen_host)
    name_servers, forces, period_ms = [
        await option_of(broker, name) for name in ("namesrvAddr", "forceRegister", PERIOD)
    ]
    require(period_ms, f"the options do not have {PERIOD}")
    period_s = int(period_ms or "") / 1000
    await bench.configure(broker, namesrvAddr=f"{name_servers};{address}", forceRegister="false")
    try:
        await _until_registered(fake, within_s=LEARN_S)
        fake.requests.clear()
        await asyncio.sleep(PERIODS * period_s + MARGIN_S)
        asked = fake.requests[RequestCode.QUERY_DATA_VERSION]
        require(
            PERIODS <= asked <= PERIODS + 1,
            f"a name server was asked {asked} times in {PERIODS} periods of {period_s:g} s whether topics changed",
        )
        again = fake.requests[RequestCode.REGISTER_BROKER]
        require(not again, f"a broker whose topics are known registered {again} times")
        await bench.configure(await bench.broker(), forceRegister="true")  # idle connections end
        fake.requests.clear()
        await _until_registered(fake, within_s=period_s + MARGIN_S)
    finally:
        broker = await bench.broker()
        await bench.configure(broker, namesrvAddr=name_servers, forceRegister=forces)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a host name
        return host == "localhost"


async def _until_registered(fake: FakeNameServer, *, within_s: float) -> None:
    """Require that a broker registers in this time."""

    async def registered() -> int:
        return fake.requests[RequestCode.REGISTER_BROKER]

    require(
        await ask_until(registered, bool, within_s=within_s),
        f"a broker did not register in {within_s:g} s",
    )
