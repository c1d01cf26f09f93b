"""Simulated TLS: sessions between nodes of a world, over the system's own server side and client."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import replace

import pytest

from staticfire.harness.simulation.hosts.world import World
from staticfire.harness.simulation.network.tls import SimTls, SimTlsContext, SimTlsObject
from staticfire.harness.simulation.network.tls_session import HANDSHAKE_TIMEOUT_S
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting import (
    Connection,
    RemotingClient,
    RemotingError,
    RemotingServer,
)
from staticfire.system_under_test.runtime.env import Env, TlsMode

BODY = bytes(range(256)) * 2000  # half a megabyte: many records
ADDRESS = "10.0.0.1:9876"


def echo(_connection: Connection, request: RemotingCommand) -> RemotingCommand:
    return RemotingCommand.response(request, ResponseCode.SUCCESS, body=request.body)


class Pair:
    """A server and a client on two hosts; what the client gets for one request, or why it got nothing."""

    def __init__(self, mode: TlsMode | None, *, client_speaks: bool) -> None:
        self.world = World(1)
        self.mode = mode
        self.client_speaks = client_speaks
        self.answers: list[bytes | str] = []
        self.server = self.world.add_host("server", "10.0.0.1")
        self.client = self.world.add_host("client", "10.0.0.2")
        self.logged: list[str] = []

    def tls(self, mode: TlsMode, *, speaks: bool) -> SimTls:
        return SimTls(mode, self.world.scheduler.charge, speaks=speaks)

    async def serve(self, env: Env) -> None:
        if self.mode is not None:
            env = replace(env, tls=self.tls(self.mode, speaks=False))
        server = RemotingServer(env, "10.0.0.1", 9876, echo)
        await server.start()
        await asyncio.Event().wait()

    async def ask(self, env: Env) -> None:
        if self.client_speaks:
            env = replace(env, tls=self.tls(TlsMode.DISABLED, speaks=True))
        client = RemotingClient(env)
        await asyncio.sleep(0.1)
        try:
            request = RemotingCommand.request(1, {}, BODY)
            self.answers.append((await client.invoke(ADDRESS, request, 5.0)).body)
        except RemotingError as error:
            self.answers.append(str(error))
        await client.close()

    def run(self) -> bytes | str:
        async def main() -> None:
            process = self.server.start("server", self.serve)
            asking = self.client.start("client", self.ask)
            await asking.exit
            self.logged = [line.event for line in process.log.lines]

        self.world.run(main)
        [answer] = self.answers
        return answer


@pytest.mark.parametrize("mode", [TlsMode.PERMISSIVE, TlsMode.ENFORCING])
def test_a_client_that_speaks_tls_is_served(mode: TlsMode) -> None:
    pair = Pair(mode, client_speaks=True)
    assert pair.run() == BODY
    assert pair.logged.count("TLS session") == 1


def test_plain_text_is_taken_or_not() -> None:
    assert Pair(TlsMode.PERMISSIVE, client_speaks=False).run() == BODY
    refused = Pair(TlsMode.ENFORCING, client_speaks=False)
    assert isinstance(refused.run(), str)
    assert "peer does not speak TLS" in refused.logged


def test_a_server_without_tls_ends_the_handshake() -> None:
    answer = Pair(None, client_speaks=True).run()
    assert isinstance(answer, str)
    assert answer.startswith(f"cannot connect to {ADDRESS}: ")


def test_a_handshake_takes_turns_and_time() -> None:
    times = []
    for speaks in (False, True):
        pair = Pair(TlsMode.PERMISSIVE, client_speaks=speaks)
        pair.run()
        times.append(pair.world.now_ns)
    assert times[1] - times[0] > 1_000_000


def test_two_runs_are_the_same() -> None:
    pairs = [Pair(TlsMode.ENFORCING, client_speaks=True) for _ in range(2)]
    for pair in pairs:
        pair.run()
    first, second = (pair.world.trace.digest() for pair in pairs)
    assert first == second


def test_a_server_that_says_nothing_is_given_up() -> None:
    world = World(1)
    server, client = (world.add_host(name, f"10.0.0.{n}") for n, name in enumerate("sc", 1))
    errors: list[str] = []

    async def accept(_env: Env) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_server(asyncio.Protocol, "10.0.0.1", 1)
        await asyncio.Event().wait()

    async def connect(_env: Env) -> None:
        tls = SimTls(TlsMode.DISABLED, world.scheduler.charge, speaks=True)
        loop = asyncio.get_running_loop()
        await asyncio.sleep(0.1)
        try:
            await loop.create_connection(asyncio.Protocol, "10.0.0.1", 1, ssl=tls.client_context())
        except ConnectionAbortedError as error:
            errors.append(str(error))

    async def main() -> None:
        server.start("s", accept)
        await client.start("c", connect).exit

    world.run(main)
    assert errors == ["TLS handshake took too long"]
    assert world.now_ns > HANDSHAKE_TIMEOUT_S * 1e9


# A server that begins TLS on a connection that it has accepted


class Reader(asyncio.Protocol):
    """Keeps what arrives, and waits with the first byte until TLS has begun."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.got = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        self.got += data


def talk(plain: bytes | None, *, waits_s: float = 0.0) -> tuple[bytes, str]:
    """Say hello by TLS to a server that calls start_tls, or send it plain bytes; return what it got, and its error."""
    world = World(1)
    tls = SimTls(TlsMode.DISABLED, world.scheduler.charge, speaks=True, replicates=True)
    server, client = (world.add_host(name, f"10.0.0.{n}") for n, name in enumerate("sc", 1))
    reader = Reader()
    errors: list[str] = []

    async def accept(_env: Env) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_server(lambda: reader, "10.0.0.1", 1)
        while reader.transport is None:
            await asyncio.sleep(0.01)
        context = tls.replica_server_context()
        assert context is not None
        try:
            await loop.start_tls(
                reader.transport, reader, context, server_side=True, ssl_handshake_timeout=2.0
            )
        except OSError as error:
            errors.append(str(error))
        await asyncio.Event().wait()

    async def connect(_env: Env) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(0.1)
        context = tls.replica_client_context() if plain is None else None
        transport, _ = await loop.create_connection(asyncio.Protocol, "10.0.0.1", 1, ssl=context)
        transport.write(b"hello" if plain is None else plain)
        await asyncio.sleep(1 + waits_s)

    async def main() -> None:
        server.start("s", accept)
        await client.start("c", connect).exit

    world.run(main)
    return reader.got, "".join(errors)


def test_a_server_begins_tls_on_a_connection() -> None:
    assert talk(None) == (b"hello", "")


def test_a_peer_that_speaks_no_tls_is_refused() -> None:
    got, error = talk(b"plain text of some length")
    assert got == b""
    assert "wrong version number" in error


def test_a_server_gives_a_handshake_up() -> None:
    assert talk(b"", waits_s=2.0) == (b"", "TLS handshake took too long")


# One end against the other, byte by byte


class Ends:
    """Two ends of a session, with what each has written for the other."""

    def __init__(self) -> None:
        self.cost_ns = 0
        context = SimTlsContext(self._charge)
        self.bios = [ssl.MemoryBIO() for _ in range(4)]
        to_server, to_client, from_server, from_client = self.bios
        self.server = context.wrap_bio(to_server, from_server, server_side=True)
        self.client = context.wrap_bio(to_client, from_client)

    def _charge(self, cost_ns: int) -> None:
        self.cost_ns += cost_ns

    def carry(self) -> bytes:
        """Hand each side what the other one wrote; what the server got."""
        to_server, to_client, from_server, from_client = self.bios
        to_client.write(from_server.read())
        data = from_client.read()
        to_server.write(data)
        return data

    def greet(self) -> None:
        with pytest.raises(ssl.SSLWantReadError):
            self.client.do_handshake()
        self.carry()
        with pytest.raises(ssl.SSLWantReadError):
            self.server.do_handshake()
        self.carry()
        self.client.do_handshake()
        self.carry()
        self.server.do_handshake()


def read_all(end: SimTlsObject) -> bytes:
    found = b""
    try:
        while data := end.read():
            found += data
    except ssl.SSLWantReadError:
        pass
    return found


def test_only_the_other_end_reads_what_is_written() -> None:
    ends = Ends()
    ends.greet()
    assert ends.client.write(b"secret" * 10_000) == 60_000
    carried = ends.carry()
    assert b"secret" not in carried
    assert len(carried) > 60_000
    assert read_all(ends.server) == b"secret" * 10_000
    assert ends.cost_ns > 1_000_000


def test_a_changed_record_is_refused() -> None:
    ends = Ends()
    ends.greet()
    ends.client.write(b"hello")
    data = bytearray(ends.bios[3].read())
    data[6] ^= 1
    ends.bios[0].write(bytes(data))
    with pytest.raises(ssl.SSLError, match="bad record mac"):
        ends.server.read()


def test_a_record_that_comes_twice_is_refused() -> None:
    ends = Ends()
    ends.greet()
    ends.client.write(b"hello")
    data = ends.bios[3].read()
    ends.bios[0].write(data + data)
    with pytest.raises(ssl.SSLError, match="bad record mac"):
        [ends.server.read() for _ in range(2)]


def test_plain_text_is_no_record() -> None:
    ends = Ends()
    ends.bios[0].write(b"\x00\x00\x00\x10 a frame")
    with pytest.raises(ssl.SSLError, match="wrong version number"):
        ends.server.do_handshake()


def test_both_say_goodbye() -> None:
    ends = Ends()
    ends.greet()
    with pytest.raises(ssl.SSLWantReadError):
        ends.client.unwrap()
    ends.carry()
    assert ends.server.read() == b""
    ends.server.unwrap()
    ends.carry()
    ends.client.unwrap()
