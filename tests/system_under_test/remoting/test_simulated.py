"""Client and server in the simulated world: the same code, with time and faults that a test decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from staticfire.harness.simulation.hosts.world import World
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting import (
    Connection,
    RemotingClient,
    RemotingClosed,
    RemotingConnectError,
    RemotingError,
    RemotingServer,
    RemotingTimeout,
)
from staticfire.system_under_test.runtime.env import Env

ADDRESS = "10.0.0.1:9876"
NEVER = 7  # a request code that the server leaves unanswered

Scenario = Callable[["Cluster", RemotingClient], Coroutine[Any, Any, None]]


def echo(connection: Connection, command: RemotingCommand) -> RemotingCommand | None:
    if command.code == NEVER:
        return None
    return RemotingCommand.response(command, ResponseCode.SUCCESS, body=command.body)


async def serve(env: Env) -> None:
    server = RemotingServer(env, "10.0.0.1", 9876, echo)
    await server.start()
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        await server.stop()


def request(code: int = 105) -> RemotingCommand:
    return RemotingCommand.request(code, {"topic": "T"}, b"hi")


class Cluster:
    """A server, and a client whose scenario decides the test."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.server = self.world.add_host("server", "10.0.0.1")
        self.client = self.world.add_host("client", "10.0.0.2")

    def run(self, scenario: Scenario) -> None:
        async def client(env: Env) -> None:
            await asyncio.sleep(1.0)  # the server is up by then
            remoting = RemotingClient(env)
            await scenario(self, remoting)
            await remoting.close()

        async def main() -> None:
            self.server.start("server", serve)
            status = await self.client.start("client", client).exit
            if status.error is not None:
                raise status.error

        self.world.run(main)

    @property
    def now_s(self) -> float:
        return self.world.now_ns / 1e9


async def fails(call: Coroutine[Any, Any, RemotingCommand]) -> RemotingError:
    with pytest.raises(RemotingError) as caught:
        await call
    return caught.value


async def many_calls(cluster: Cluster, client: RemotingClient) -> None:
    for serialize_type in (0, 1):
        command = request()
        command.serialize_type = serialize_type
        answer = await client.invoke(ADDRESS, command, 3.0)
        assert (answer.serialize_type, answer.body) == (serialize_type, b"hi")
    answers = await asyncio.gather(*(client.invoke(ADDRESS, request(), 3.0) for _ in range(100)))
    assert len({answer.opaque for answer in answers}) == 100


async def no_answer(cluster: Cluster, client: RemotingClient) -> None:
    began_s = cluster.now_s
    error = await fails(client.invoke(ADDRESS, request(NEVER), 1.0))
    assert isinstance(error, RemotingTimeout)
    assert 1.0 <= cluster.now_s - began_s < 1.06
    assert (await client.invoke(ADDRESS, request(), 1.0)).body == b"hi"


async def killed(cluster: Cluster, client: RemotingClient) -> None:
    await client.invoke(ADDRESS, request(), 3.0)
    call = client.invoke_nowait(ADDRESS, request(NEVER), 30.0)
    began_s = cluster.now_s
    assert cluster.server.process is not None
    cluster.server.process.kill()
    with pytest.raises(RemotingClosed):
        await call
    assert cluster.now_s - began_s < 0.1
    assert isinstance(await fails(client.invoke(ADDRESS, request(), 3.0)), RemotingConnectError)


async def terminated(cluster: Cluster, client: RemotingClient) -> None:
    call = client.invoke_nowait(ADDRESS, request(NEVER), 30.0)
    await client.invoke(ADDRESS, request(), 3.0)
    assert cluster.server.process is not None
    began_s = cluster.now_s
    cluster.server.process.terminate()
    with pytest.raises(RemotingClosed):
        await call
    assert (await cluster.server.process.exit).kind == "terminated"
    assert cluster.now_s - began_s < 0.1  # it waits for its connections, not for a timeout


async def unreachable(cluster: Cluster, client: RemotingClient) -> None:
    cluster.world.network.drop("client", "server")
    began_s = cluster.now_s
    error = await fails(client.invoke(ADDRESS, request(), 30.0))
    assert isinstance(error, RemotingConnectError)
    assert 3.0 <= cluster.now_s - began_s < 3.1
    cluster.world.network.heal()
    assert (await client.invoke(ADDRESS, request(), 3.0)).body == b"hi"


async def frozen(cluster: Cluster, client: RemotingClient) -> None:
    await client.invoke(ADDRESS, request(), 3.0)
    cluster.server.pause()
    error = await fails(client.invoke(ADDRESS, request(), 2.0, close_on_timeout=True))
    assert isinstance(error, RemotingTimeout)
    # A new connection is accepted by the kernel of the frozen server, and answered after it wakes up.
    call = client.invoke_nowait(ADDRESS, request(), 30.0)
    await asyncio.sleep(5.0)
    assert not call.done()
    cluster.server.resume()
    assert (await call).body == b"hi"


async def idle(cluster: Cluster, client: RemotingClient) -> None:
    await client.invoke(ADDRESS, request(), 3.0)
    await asyncio.sleep(119.0)
    first = client.connection(ADDRESS)
    await client.invoke(ADDRESS, request(), 3.0)
    await asyncio.sleep(119.0)
    assert client.connection(ADDRESS) is first
    await asyncio.sleep(2.0)
    assert client.connection(ADDRESS) is None


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    "scenario", [many_calls, no_answer, killed, terminated, unreachable, frozen, idle]
)
def test_simulated(scenario: Scenario, seed: int) -> None:
    Cluster(seed).run(scenario)
