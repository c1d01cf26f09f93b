"""The proxy with real sockets on loopback: clients and a server that know nothing but frames."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from staticfire.faults.proxy import AddressError, LinkFaultError, PortError, Proxy, ProxyError
from staticfire.faults.proxy.core.flow import HELD_MAX
from staticfire.faults.proxy.core.status import LinkStatus
from staticfire.system_under_test.protocol.command import RemotingCommand

pytestmark = pytest.mark.real
HOST = "127.0.0.1"
WAIT_S = 60.0
FRAME = RemotingCommand.request(12345, {"text": "hello"}, b"body" * 10).encode()
TLS_HELLO = b"\x16\x03\x01\x02\x00"
RESET = (ConnectionResetError, BrokenPipeError)

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Server:
    """Echoes until the test silences it; remembers what it got."""

    def __init__(self) -> None:
        self.got = bytearray()
        self.connections: list[Streams] = []
        self.ended: list[BaseException | None] = []
        self.address = ""
        self.is_silent = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append((reader, writer))
        try:
            while data := await reader.read(1 << 16):
                self.got += data
                if not self.is_silent:
                    writer.write(data)
            self.ended.append(None)
        except OSError as error:
            self.ended.append(error)
        finally:
            writer.close()


class Client:
    """One connection."""

    def __init__(self, streams: Streams) -> None:
        self.reader, self.writer = streams

    async def ask(self, data: bytes = FRAME) -> bytes:
        """Send, and wait for as many bytes."""
        self.writer.write(data)
        async with asyncio.timeout(WAIT_S):
            return await self.reader.readexactly(len(data))

    async def hears_nothing(self, for_s: float = 0.05) -> bool:
        try:
            async with asyncio.timeout(for_s):
                await self.reader.read(1)
        except TimeoutError:
            return True
        return False

    async def is_reset(self) -> bool:
        try:
            async with asyncio.timeout(WAIT_S):
                return await self.reader.read(1) != b"" and False
        except RESET:
            return True


@asynccontextmanager
async def bench(
    **options: Any,
) -> AsyncIterator[tuple[Proxy, Server, Callable[[], Awaitable[Client]]]]:
    """A server behind a proxy, and a way to connect to it."""
    server, clients = Server(), list[Client]()
    listening = await asyncio.start_server(server.serve, HOST, 0)
    server.address = "{}:{}".format(*listening.sockets[0].getsockname())

    async def connect() -> Client:
        host, _, port = dialled.partition(":")
        clients.append(Client(await asyncio.open_connection(host, int(port))))
        return clients[-1]

    async with Proxy([server.address], **options) as proxy:
        dialled = proxy.address_for(server.address)
        yield proxy, server, connect
    for client in clients:
        client.writer.close()
    for _, writer in server.connections:
        writer.close()
    listening.close()
    while len(server.ended) < len(server.connections):
        await asyncio.sleep(0)


async def until(what: str, is_so: Callable[[], object]) -> None:
    """Raises TimeoutError."""
    async with asyncio.timeout(WAIT_S):
        while not is_so():
            await asyncio.sleep(0.001)
    assert is_so(), what


def only_link(proxy: Proxy) -> LinkStatus:
    [link] = proxy.links()
    return link


def real_time(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """The test on an event loop, with a bound."""

    def run() -> None:
        asyncio.run(asyncio.wait_for(test(), 3 * WAIT_S))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@real_time
async def test_frames_and_their_end_pass() -> None:
    async with bench() as (proxy, server, connect):
        client = await connect()
        assert await client.ask(FRAME * 3) == FRAME * 3
        client.writer.write_eof()
        assert await client.reader.read() == b""
        await until("both ends are closed", lambda: only_link(proxy).open == 0)
        assert server.ended == [None]
        link = only_link(proxy)
    assert (link.name, link.opened) == (f"{HOST}>{server.address}", 1)
    assert (link.up.passed, link.down.passed) == (3 * len(FRAME), 3 * len(FRAME))


@real_time
async def test_half_a_frame_and_nonsense_pass() -> None:
    async with bench() as (_, _server, connect):
        client = await connect()
        assert await client.ask(b"\x00\x00\x00\x01nonsense") == b"\x00\x00\x00\x01nonsense"
        other = await connect()
        other.writer.write(FRAME[:9])
        other.writer.write_eof()
        assert await other.reader.read() == FRAME[:9]


@real_time
async def test_a_delay_is_felt() -> None:
    async with bench() as (proxy, _, connect):
        fault = proxy.delay(40, 10, direction="up")
        client = await connect()
        began_s = asyncio.get_running_loop().time()
        await client.ask()
        assert asyncio.get_running_loop().time() - began_s >= 0.029
        assert fault.bytes == only_link(proxy).up.delayed == len(FRAME)
        assert only_link(proxy).down.delayed == 0


@real_time
async def test_a_limit_is_felt() -> None:
    async with bench() as (proxy, _, connect):
        fault = proxy.limit(100_000, direction="down")
        client = await connect()
        began_s = asyncio.get_running_loop().time()
        await client.ask(FRAME * 40)
        took_s = asyncio.get_running_loop().time() - began_s
        assert took_s >= len(FRAME) * 40 / 100_000 - 0.03
        assert fault.bitten


@real_time
async def test_connections_of_a_link_share_its_limit() -> None:
    async with bench() as (proxy, _, connect):
        proxy.limit(100_000, direction="up")
        began_s = asyncio.get_running_loop().time()
        clients = [await connect() for _ in range(4)]
        await asyncio.gather(*(client.ask(FRAME * 20) for client in clients))
        took_s = asyncio.get_running_loop().time() - began_s
        assert took_s >= len(FRAME) * 80 / 100_000 - 0.03


@real_time
async def test_dropped_bytes_never_come_and_their_connection_ends_with_the_fault() -> None:
    async with bench() as (proxy, server, connect):
        client = await connect()
        await client.ask()
        fault = proxy.drop(direction="up")
        client.writer.write(FRAME)
        late = await connect()
        late.writer.write(FRAME)
        await until("both are lost", lambda: fault.bytes == 2 * len(FRAME))
        assert await client.hears_nothing()
        assert server.got == FRAME
        assert (fault.connections, only_link(proxy).open) == (1, 2)
        proxy.heal(fault)
        assert await client.is_reset()
        assert await late.is_reset()
        assert only_link(proxy).torn == 2
        assert await (await connect()).ask() == FRAME


@real_time
async def test_connections_that_lost_nothing_outlive_a_drop() -> None:
    async with bench() as (proxy, _, connect):
        client = await connect()
        await client.ask()
        proxy.heal(proxy.drop())
        assert await client.ask() == FRAME
        assert only_link(proxy).torn == 0


@real_time
async def test_a_dropped_end_reaches_no_peer() -> None:
    async with bench() as (proxy, server, connect):
        client = await connect()
        await client.ask()
        proxy.drop(direction="down")
        server.connections[0][1].close()
        assert await client.hears_nothing()
        proxy.heal()
        assert await client.is_reset()


@real_time
async def test_a_freeze_accepts_answers_nothing_and_loses_nothing() -> None:
    async with bench() as (proxy, server, connect):
        client = await connect()
        await client.ask()
        fault = proxy.freeze()
        late = await connect()
        for one in (client, late):
            one.writer.write(FRAME)
        await until("both are held", lambda: only_link(proxy).held == 2 * len(FRAME))
        assert await client.hears_nothing()
        assert server.got == FRAME
        assert (fault.bytes, fault.connections) == (2 * len(FRAME), 1)
        proxy.heal()
        for one in (client, late):
            assert await one.reader.readexactly(len(FRAME)) == FRAME
        assert only_link(proxy).held == 0


@real_time
async def test_a_frozen_client_does_not_notice_that_there_is_no_server() -> None:
    async with bench() as (proxy, _, _connect):
        [deserted] = [proxy.address_for(f"{HOST}:1", client="c")]
        fault = proxy.freeze(client="c", direction="down")
        host, _, port = deserted.partition(":")
        client = Client(await asyncio.open_connection(host, int(port)))
        client.writer.write(FRAME)
        assert await client.hears_nothing()
        assert fault.connections == 1
        proxy.heal()
        assert await client.is_reset()
        client.writer.close()


@real_time
async def test_a_server_that_cannot_be_dialled() -> None:
    """A name that is none, and the port beside the last one."""
    async with bench() as (proxy, _, _connect):
        for address, shift in (("a..b:10911", 0), (f"{HOST}:65535", 1)):
            host, _, port = proxy.address_for(address).partition(":")
            client = Client(await asyncio.open_connection(host, int(port) + shift))
            assert await client.is_reset()
            client.writer.close()


@real_time
async def test_a_cut_resets_what_there_is_and_what_comes() -> None:
    async with bench() as (proxy, server, connect):
        client = await connect()
        await client.ask()
        fault = proxy.cut(server="brokers")
        assert await client.is_reset()
        assert await (await connect()).is_reset()
        await until("the server knows", lambda: server.ended)
        assert isinstance(server.ended[0], ConnectionResetError)
        assert fault.connections == only_link(proxy).cut == 2
        proxy.heal(fault)
        assert await (await connect()).ask() == FRAME
        assert len(server.connections) == 2  # who was refused never got there


@real_time
async def test_a_client_that_vanishes_is_reported_as_such() -> None:
    async with bench() as (_, server, connect):
        client = await connect()
        await client.ask()
        found: socket.socket = client.writer.get_extra_info("socket")
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.writer.transport.abort()
        await until("the server knows", lambda: server.ended)
        assert isinstance(server.ended[0], ConnectionResetError)


@real_time
async def test_an_end_that_comes_too_late_for_a_reset_connection() -> None:
    """The client has gone before the end of the stream reaches it, and the loop has not heard of it yet."""
    async with bench() as (proxy, server, connect):
        client = await connect()
        await client.ask()
        fault = proxy.freeze(direction="down")
        server.connections[0][1].close()
        await until("the end is held", lambda: fault.pieces)
        found: socket.socket = client.writer.get_extra_info("socket")
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.writer.transport.abort()
        await asyncio.sleep(0)  # the socket is closed, and its reset not read
        proxy.heal(fault)
        await until("both ends are closed", lambda: only_link(proxy).open == 0)


@real_time
async def test_faults_strike_who_they_are_meant_for() -> None:
    """One host, three clients: known by their frontends and by their ports."""
    async with bench() as (proxy, server, connect):
        client, other = await connect(), await connect()
        port = client.writer.get_extra_info("sockname")[1]
        host, _, door_port = proxy.address_for(server.address, client="third").partition(":")
        third = Client(await asyncio.open_connection(host, int(door_port)))
        for one in (client, other, third):
            await one.ask()
        cuts = [proxy.cut(client=f"{HOST}:{port}"), proxy.cut(client="third", server="broker*")]
        assert await client.is_reset()
        assert await other.ask() == await third.ask() == FRAME
        cuts.append(proxy.cut(client="third", server=server.address))
        assert await third.is_reset()
        assert await other.ask() == FRAME
        assert [cut.connections for cut in cuts] == [1, 0, 1]
        assert [(link.client, link.cut, link.faults) for link in proxy.links()] == [
            (HOST, 1, ()),
            ("third", 1, ()),
        ]
        third.writer.close()


@real_time
async def test_a_client_is_struck_as_soon_as_it_says_who_it_is() -> None:
    async with bench() as (proxy, _, connect):
        fault = proxy.drop(client="senders")
        client = await connect()
        await client.ask()
        request = RemotingCommand.request(310, {"a": "senders"}).encode()
        client.writer.write(request)
        await until("it is lost", lambda: fault.bytes == len(request))
        assert only_link(proxy).client == "senders"


@real_time
async def test_who_is_faster_than_the_other_side_has_to_wait() -> None:
    """What a frozen link holds is bounded, however much is sent."""
    async with bench() as (proxy, server, connect):
        proxy.freeze(direction="up")
        client = await connect()
        large = RemotingCommand.request(1, body=bytes(1 << 20)).encode()
        for _ in range(32):
            client.writer.write(large)
        await until("it is full", lambda: sum(link.held for link in proxy.links()) > HELD_MAX)
        await asyncio.sleep(0.05)
        assert only_link(proxy).held < HELD_MAX + 4 * len(large)
        server.is_silent = True
        proxy.heal()
        await until("all of it came", lambda: len(server.got) == 32 * len(large))


@real_time
async def test_tls_to_a_name_server_is_turned_away() -> None:
    events: list[str] = []
    async with bench(on_event=events.append) as (proxy, server, connect):
        host, _, port = proxy.name_server_address.partition(":")
        client = Client(await asyncio.open_connection(host, int(port)))
        client.writer.write(TLS_HELLO)
        assert await client.is_reset()
        assert server.got == b""
        client.writer.close()
        assert len(events) == 1
        assert "speaks TLS to name-server-1 and was turned away" in events[0]
        assert await (await connect()).ask(TLS_HELLO) == TLS_HELLO  # to a broker
        assert "it passes, but addresses inside are not rewritten" in events[1]


@real_time
async def test_tls_to_a_name_server_passes_if_wanted() -> None:
    async with bench(passes_tls=True) as (proxy, _, _connect):
        host, _, port = proxy.name_server_address.partition(":")
        client = Client(await asyncio.open_connection(host, int(port)))
        assert await client.ask(TLS_HELLO) == TLS_HELLO
        client.writer.close()


@real_time
async def test_an_ended_proxy_leaves_no_client_waiting() -> None:
    async with bench() as (proxy, server, connect):
        client = await connect()
        await client.ask()
        proxy.freeze()
        client.writer.write(FRAME)
        await proxy.stop()
        assert await client.is_reset()
        await until("the server knows", lambda: server.ended)
        with pytest.raises(ConnectionRefusedError):
            await connect()


@real_time
async def test_all_addresses_of_a_machine() -> None:
    """A client that connected by another address gets that one."""
    async with bench(listen="0.0.0.0") as (proxy, server, _connect):
        assert proxy.name_server_address.startswith("127.0.0.1:")
        port = int(proxy.name_server_address.rpartition(":")[2])
        client = Client(await asyncio.open_connection("127.0.0.9", port))
        body = b'{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911"},"brokerName":"a"}]}'
        server.is_silent = True
        client.writer.write(FRAME)
        await until("it came", lambda: server.got)
        server.connections[0][1].write(RemotingCommand(0, body=body, flag=1).encode())
        assert b'"127.0.0.9:' in await client.reader.read(1000)
        client.writer.close()


def test_two_proxies_want_one_port() -> None:
    async def run() -> None:
        async with Proxy(["h:1"]) as first:
            port = int(first.name_server_address.partition(":")[2])
            with pytest.raises(PortError, match=f"port {port} on {HOST} is in use"):
                await Proxy(["h:1"], port=port).start()

    asyncio.run(run())


def test_the_address_of_a_name_server_is_checked() -> None:
    with pytest.raises(ProxyError, match="name server address is 'h'; allowed: host:port"):
        Proxy(["h"])


def test_refusals() -> None:
    proxy = Proxy(["h:1"])
    with pytest.raises(LinkFaultError, match="kind of fault is 'burn'; allowed: delay, limit, "):
        proxy.inject("burn")
    with pytest.raises(LinkFaultError, match="direction is 'left'; allowed: up, down, both"):
        proxy.drop(direction="left")
    with pytest.raises(LinkFaultError, match="kind is 'x'; allowed: name-servers, brokers, ha"):
        proxy.address_for("h:1", kind="x")
    with pytest.raises(AddressError, match="address is 'h'"):
        proxy.address_for("h")
    assert proxy.faults == ()


def test_healing_what_is_healed_is_no_mistake() -> None:
    proxy = Proxy(["h:1"])
    first, second = proxy.drop(), proxy.delay(5)
    assert proxy.heal(first) == (first,)
    assert proxy.heal(first) == ()
    assert proxy.heal() == (second,)
