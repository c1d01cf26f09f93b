"""A name server in the simulated world: brokers that die, and a name server that was frozen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from staticfire.harness.simulation.hosts.world import World
from staticfire.system_under_test.name_server.config import NameServerConfig
from staticfire.system_under_test.name_server.name_server import main
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting import RemotingClient, RemotingError
from staticfire.system_under_test.runtime.env import Env

ADDRESS = "10.0.0.1:9876"
HEADER = {
    "brokerName": "a",
    "brokerAddr": "10.0.0.2:10911",
    "clusterName": "c",
    "brokerId": "0",
    "haServerAddr": "10.0.0.2:10912",
}
BODY = {
    "topicConfigSerializeWrapper": {
        "topicConfigTable": {"T": {"topicName": "T"}},
        "dataVersion": {"timestamp": 1, "counter": 1},
    }
}


async def name_server(env: Env) -> None:
    await main(env, NameServerConfig(listen_host="10.0.0.1"))


async def broker(env: Env) -> None:
    """Registers every 30 s; a name server that does not answer in 6 s loses the connection."""
    client = RemotingClient(env)
    while True:
        command = RemotingCommand.request(
            RequestCode.REGISTER_BROKER, dict(HEADER), json_dialect.dumps(BODY)
        )
        try:
            await client.invoke(ADDRESS, command, 6.0, close_on_timeout=True)
        except RemotingError as error:
            env.log.warning("not registered", error=str(error))
        await asyncio.sleep(30.0)


class Registry:
    """A name server, a broker, and a client that watches the route."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.name_server = self.world.add_host("name-server", "10.0.0.1")
        self.broker = self.world.add_host("broker", "10.0.0.2")
        self.client = self.world.add_host("client", "10.0.0.3")
        self.remoting: RemotingClient

    async def codes(self, seconds: float) -> list[int]:
        """Ask for the route every 100 ms for a while."""
        codes = []
        for _ in range(int(seconds * 10)):
            codes.append(await self.code())
            await asyncio.sleep(0.1)
        return codes

    async def code(self) -> int:
        command = RemotingCommand.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
        return (await self.remoting.invoke(ADDRESS, command, 3.0)).code

    def run(self, scenario: Callable[[Registry], Coroutine[Any, Any, None]]) -> None:
        async def client(env: Env) -> None:
            self.remoting = RemotingClient(env)
            await asyncio.sleep(40.0)
            assert await self.code() == 0
            await scenario(self)

        async def harness() -> None:
            self.name_server.start("name-server", name_server)
            self.broker.start("broker", broker)
            status = await self.client.start("client", client).exit
            if status.error is not None:
                raise status.error

        self.world.run(harness)


async def frozen_for_182_seconds(registry: Registry) -> None:
    registry.name_server.pause()
    await asyncio.sleep(182.0)
    registry.name_server.resume()
    assert set(await registry.codes(60.0)) == {0}


async def frozen_while_the_broker_dies(registry: Registry) -> None:
    registry.name_server.pause()
    await asyncio.sleep(100.0)
    assert registry.broker.process is not None
    registry.broker.process.kill()
    await asyncio.sleep(82.0)
    registry.name_server.resume()
    codes = await registry.codes(60.0)
    # Not removed before every broker had time to register again, but soon after.
    assert (set(codes[:390]), set(codes[-50:])) == ({0}, {17})


async def killed_broker(registry: Registry) -> None:
    assert registry.broker.process is not None
    registry.broker.process.kill()
    await asyncio.sleep(0.1)
    assert await registry.code() == 17


async def broker_without_power(registry: Registry) -> None:
    registry.broker.power_cut()
    codes = await registry.codes(135.0)
    gone_s = codes.index(17) / 10
    assert 85.0 <= gone_s <= 132.0  # 120 s after its last registration, and a scan every 10 s


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    "scenario",
    [frozen_for_182_seconds, frozen_while_the_broker_dies, killed_broker, broker_without_power],
)
def test_simulated(scenario: Callable[[Registry], Coroutine[Any, Any, None]], seed: int) -> None:
    Registry(seed).run(scenario)
