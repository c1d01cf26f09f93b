"""Client and server over real loopback sockets; ports are chosen by the system."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import wraps
from typing import Any, ParamSpec

import pytest

from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand, decode_command
from staticfire.system_under_test.protocol.frames import FrameDecoder
from staticfire.system_under_test.remoting import (
    Connection,
    Handler,
    RemotingClient,
    RemotingClosed,
    RemotingConnectError,
    RemotingServer,
    RemotingTimeout,
)
from staticfire.system_under_test.runtime.env import Env
from tests.system_under_test.remoting.manual_loop import MemoryLog

P = ParamSpec("P")
SILENCE_S = 0.02  # how long a test waits for an answer that never comes


class Cluster:
    """One server, one client, and what the server saw."""

    def __init__(self, env: Env, handler: Handler, on_request: Handler | None = None) -> None:
        self.closed: list[int] = []
        self.server = RemotingServer(
            env, "127.0.0.1", 0, handler, on_close=lambda gone: self.closed.append(gone.key)
        )
        self.client = RemotingClient(env, on_request=on_request)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    async def invoke(
        self, code: int = 105, timeout_s: float = 60.0, **kwargs: bool
    ) -> RemotingCommand:
        command = RemotingCommand.request(code, {"topic": "T"}, b"hi")
        return await self.client.invoke(self.address, command, timeout_s, **kwargs)


@asynccontextmanager
async def cluster(
    env: Env, handler: Handler, on_request: Handler | None = None
) -> AsyncIterator[Cluster]:
    nodes = Cluster(env, handler, on_request)
    await nodes.server.start()
    try:
        yield nodes
    finally:
        await nodes.client.close()
        await nodes.server.stop()


def in_a_minute(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Makes a test of a coroutine function, which may take 60 s."""

    @wraps(test)
    def on_its_loop(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 60))

    return on_its_loop


def echo(connection: Connection, command: RemotingCommand) -> RemotingCommand:
    return RemotingCommand.response(command, ResponseCode.SUCCESS, body=command.body)


def never(connection: Connection, command: RemotingCommand) -> None:
    return None


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until sockets have done their part."""
    while not condition():
        await asyncio.sleep(0)


@in_a_minute
async def test_concurrent_callers_share_one_connection(env: Env) -> None:
    async with cluster(env, echo) as nodes:
        answers = await asyncio.gather(*(nodes.invoke() for _ in range(50)))
        assert {answer.body for answer in answers} == {b"hi"}
        assert len({answer.opaque for answer in answers}) == 50
        assert len(nodes.server.connections) == 1


@in_a_minute
async def test_the_server_may_ask_on_the_same_connection(env: Env) -> None:
    heard: list[int] = []

    def ask_back(connection: Connection, command: RemotingCommand) -> None:
        future = connection.invoke_nowait(RemotingCommand.request(221), 60.0)
        future.add_done_callback(
            lambda answer: connection.send(
                RemotingCommand.response(command, ResponseCode.SUCCESS, body=answer.result().body)
            )
        )

    def on_request(connection: Connection, command: RemotingCommand) -> RemotingCommand:
        heard.append(command.code)
        return RemotingCommand.response(command, ResponseCode.SUCCESS, body=b"from the client")

    async with cluster(env, ask_back, on_request) as nodes:
        assert ((await nodes.invoke()).body, heard) == (b"from the client", [221])


@in_a_minute
async def test_a_client_without_handler_answers_code_3(env: Env) -> None:
    codes: list[int] = []

    def ask_back(connection: Connection, command: RemotingCommand) -> RemotingCommand:
        future = connection.invoke_nowait(RemotingCommand.request(221), 60.0)
        future.add_done_callback(lambda answer: codes.append(answer.result().code))
        return echo(connection, command)

    async with cluster(env, ask_back) as nodes:
        await nodes.invoke()
        await until(lambda: bool(codes))
        assert codes == [ResponseCode.REQUEST_CODE_NOT_SUPPORTED]


@in_a_minute
async def test_oneway(env: Env) -> None:
    heard: list[bool] = []

    def note(connection: Connection, command: RemotingCommand) -> RemotingCommand:
        heard.append(command.is_oneway)
        return echo(connection, command)

    async with cluster(env, note) as nodes:
        await nodes.client.invoke_oneway(nodes.address, RemotingCommand.request(34))
        await nodes.invoke()
        assert heard == [True, False]


@pytest.mark.parametrize("closes", [False, True])
@in_a_minute
async def test_a_timeout(env: Env, closes: bool) -> None:
    async with cluster(env, never) as nodes:
        await nodes.client.connect(nodes.address)  # which is not to count
        with pytest.raises(RemotingTimeout):
            await nodes.invoke(timeout_s=SILENCE_S, close_on_timeout=closes)
        assert (nodes.client.connection(nodes.address) is None) == closes
        if closes:
            await until(lambda: nodes.closed == [1])


@in_a_minute
async def test_a_timeout_of_a_call_without_wait_keeps_the_connection(env: Env) -> None:
    async with cluster(env, never) as nodes:
        await nodes.client.connect(nodes.address)
        command = RemotingCommand.request(105)
        with pytest.raises(RemotingTimeout):
            await nodes.client.invoke_nowait(nodes.address, command, SILENCE_S)
        assert nodes.client.connection(nodes.address) is not None


@in_a_minute
async def test_the_end_of_a_connection_in_a_full_turn_is_reported_later(env: Env) -> None:
    def end(connection: Connection, command: RemotingCommand) -> None:
        connection.abort()
        nodes.server.share.spend(1.0, connection.loop)  # more than a turn has

    async with cluster(env, end) as nodes:
        with pytest.raises(RemotingClosed):
            await nodes.invoke()
        await until(lambda: nodes.closed == [1])


@in_a_minute
async def test_the_next_call_after_a_close_connects_again(env: Env) -> None:
    async with cluster(env, echo) as nodes:
        await nodes.invoke()
        nodes.client.close_connection(nodes.address)
        await nodes.invoke()
        await until(lambda: nodes.closed == [1])
        assert [connection.key for connection in nodes.server.connections] == [2]


@in_a_minute
async def test_a_connection_that_is_ending_is_not_used_again(env: Env) -> None:
    async with cluster(env, echo) as nodes:
        (await nodes.client.connect(nodes.address)).close()
        assert (await nodes.invoke()).body == b"hi"


@in_a_minute
async def test_a_connect_that_succeeds_too_late_leaves_no_connection(
    env: Env, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(env, echo) as nodes:
        loop = asyncio.get_running_loop()
        create_connection = loop.create_connection
        made = loop.create_future()

        async def slow(*arguments: Any) -> None:
            await create_connection(*arguments)
            made.set_result(None)
            await loop.create_future()

        monkeypatch.setattr(loop, "create_connection", slow)
        call = nodes.client.invoke_nowait(nodes.address, RemotingCommand.request(105), 60.0)
        await made
        await nodes.client.close()
        with pytest.raises(RemotingClosed):
            await call
        await until(lambda: nodes.closed == [1])


@in_a_minute
async def test_a_stopping_server_fails_outstanding_requests_at_once(env: Env) -> None:
    async with cluster(env, never) as nodes:
        connection = await nodes.client.connect(nodes.address)
        call = connection.invoke_nowait(RemotingCommand.request(105), 60.0)
        await until(lambda: len(nodes.server.connections) == 1)
        await nodes.server.stop()
        with pytest.raises(RemotingClosed):
            await call
        assert nodes.closed == [1]


@in_a_minute
async def test_a_closing_client_fails_outstanding_requests_at_once(env: Env) -> None:
    async with cluster(env, never) as nodes:
        connected = asyncio.ensure_future(nodes.invoke(timeout_s=60.0))
        await until(lambda: len(nodes.server.connections) == 1)
        connecting = nodes.client.invoke_nowait("127.0.0.2:1", RemotingCommand.request(105), 60.0)
        await nodes.client.close()
        for call in (connected, connecting):
            with pytest.raises(RemotingClosed):
                await call
        with pytest.raises(RemotingClosed):
            await nodes.invoke()


def unused_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@pytest.mark.parametrize("address", ["127.0.0.1:{port}", "nowhere", "127.0.0.1:99999", ":80", ""])
@in_a_minute
async def test_what_cannot_be_reached_was_never_sent(env: Env, address: str) -> None:
    client = RemotingClient(env)
    target = address.format(port=unused_port())
    with pytest.raises(RemotingConnectError, match=f"cannot connect to {target}"):
        await client.invoke(target, RemotingCommand.request(105), 5.0)
    with pytest.raises(RemotingConnectError):
        await client.invoke_oneway(target, RemotingCommand.request(105))
    await client.close()


@pytest.mark.parametrize(("connect_s", "timeout_s"), [(SILENCE_S, 5.0), (5.0, SILENCE_S)])
@in_a_minute
async def test_a_connect_without_answer(
    env: Env, monkeypatch: pytest.MonkeyPatch, connect_s: float, timeout_s: float
) -> None:
    async def unanswered(*_: object) -> None:
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", unanswered)
    client = RemotingClient(env, connect_timeout_s=connect_s)
    with pytest.raises(RemotingConnectError):
        await client.invoke("127.0.0.1:1", RemotingCommand.request(105), timeout_s)
    await client.close()


@in_a_minute
async def test_requests_that_expire_while_connecting_are_not_sent(
    env: Env, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[int] = []

    def note(connection: Connection, command: RemotingCommand) -> RemotingCommand:
        heard.append(command.code)
        return echo(connection, command)

    loop = asyncio.get_running_loop()
    gate = loop.create_future()
    create_connection = loop.create_connection

    async def slow(*arguments: Any) -> object:
        await gate
        return await create_connection(*arguments)

    monkeypatch.setattr(loop, "create_connection", slow)
    async with cluster(env, note) as nodes:
        patient = asyncio.ensure_future(nodes.invoke(code=106))
        with pytest.raises(RemotingConnectError):
            await nodes.invoke(code=105, timeout_s=SILENCE_S)
        gate.set_result(None)
        await patient
        assert heard == [106]


@pytest.mark.parametrize("serialize_type", [0, 1])
@in_a_minute
async def test_raw_bytes_in_pieces(env: Env, serialize_type: int) -> None:
    async with cluster(env, echo) as nodes:
        reader, writer = await asyncio.open_connection("127.0.0.1", nodes.server.port)
        command = RemotingCommand.request(105, {"topic": "T"}, b"x" * 100_000)
        command.opaque, command.serialize_type = 7, serialize_type
        data = command.encode() * 3
        for start in range(0, len(data), 30_011):
            writer.write(data[start : start + 30_011])
            await writer.drain()
        decoder, frames = FrameDecoder(), list[bytes]()
        while len(frames) < 3:
            frames += decoder.feed(await reader.read(65_536))
        answers = [decode_command(frame) for frame in frames]
        assert [(a.opaque, a.serialize_type, len(a.body)) for a in answers] == [
            (7, serialize_type, 100_000)
        ] * 3
        writer.close()
        await writer.wait_closed()


@in_a_minute
async def test_garbage_ends_that_connection_and_no_other(env: Env, log: MemoryLog) -> None:
    async with cluster(env, echo) as nodes:
        await nodes.invoke()
        reader, writer = await asyncio.open_connection("127.0.0.1", nodes.server.port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        with pytest.raises(ConnectionResetError):  # aborted with our bytes unread: a reset
            if await reader.read() == b"":
                raise ConnectionResetError
        writer.close()
        assert (await nodes.invoke()).body == b"hi"
        assert nodes.closed == [2]
        assert log.names("warning", "error") == ["peer broke the protocol"]


@in_a_minute
async def test_closing_by_key(env: Env) -> None:
    async with cluster(env, echo) as nodes:
        await nodes.invoke()
        nodes.server.close_connection(99)  # gone long ago
        nodes.server.close_connection(1)
        await until(lambda: nodes.closed == [1])


@in_a_minute
async def test_a_taken_port_is_an_error(env: Env) -> None:
    async with cluster(env, echo) as nodes:
        second = RemotingServer(env, "127.0.0.1", nodes.server.port, echo)
        with pytest.raises(OSError, match="in use"):
            await second.start()
        await second.stop()


def test_a_closed_client_leaves_no_connection_to_a_peer_that_does_not_read(
    env: Env, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("staticfire.system_under_test.remoting.client.GOODBYE_TIMEOUT_S", 0.01)

    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as deaf:  # the kernel accepts, no process reads
            host, port = deaf.getsockname()
            client = RemotingClient(env)
            command = RemotingCommand.request(105, {"topic": "T"}, b"x" * 12_000_000)
            asking = asyncio.ensure_future(client.invoke(f"{host}:{port}", command, 60.0))
            while not client._open_ones:
                await asyncio.sleep(0)
            await asyncio.sleep(0)
            await client.close()
            await asyncio.sleep(0)
            assert client._open_ones == {}
            with pytest.raises(RemotingClosed):
                await asking

    asyncio.run(main())


def test_a_client_that_is_closed_while_its_node_is_cancelled_goes_on_behind_it(
    env: Env, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("staticfire.system_under_test.remoting.client.GOODBYE_TIMEOUT_S", 0.01)
    client, ended = RemotingClient(env), []

    async def node(address: str) -> None:
        try:
            command = RemotingCommand.request(105, {"topic": "T"}, b"x" * 12_000_000)
            await client.invoke(address, command, 60.0)
        finally:
            await client.close()
            ended.append("its address is unregistered")

    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as deaf:  # the kernel accepts, nothing reads
            host, port = deaf.getsockname()
            task = asyncio.ensure_future(node(f"{host}:{port}"))
            while not client._open_ones:
                await asyncio.sleep(0)
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert ended == ["its address is unregistered"]

    asyncio.run(main())


@in_a_minute
async def test_connections_beyond_the_limit_are_turned_away(env: Env, log: MemoryLog) -> None:
    """Descriptors are left for files; who is connected is served, and there is room again when one goes."""
    async with cluster(replace(env, connections_max=3), echo) as nodes:
        assert (await nodes.invoke()).body == b"hi"
        address = ("127.0.0.1", nodes.server.port)
        held = [await asyncio.open_connection(*address) for _ in range(6)]
        ends = [await reader.read() for reader, _ in held[2:]]
        assert ends == [b""] * 4
        assert len(nodes.server.connections) == 3
        assert (await nodes.invoke()).body == b"hi"
        for _, writer in held:
            writer.close()
        await until(lambda: len(nodes.server.connections) == 1)
        _, another = await asyncio.open_connection(*address)
        await until(lambda: len(nodes.server.connections) == 2)
        another.close()
    assert log.names("warning") == ["too many connections: no more are taken"]
