"""Processes of this host: separated by a proxy where a plan needs it, otherwise connected directly."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from staticfire.faults.proxy.core.servers import ServerKind
from staticfire.harness.environments.real.machine_provider import Rerouting
from staticfire.harness.environments.real.processes import ProcessProvider
from staticfire.harness.machines.options import MachineOptions

pytestmark = pytest.mark.real
NODES = ("ns-1", "broker-a-0", "broker-a-1", "producer-1")
ENVIRONMENT: Any = SimpleNamespace(on_start=None)  # controls only hear of starts


def test_without_partitions_nodes_reach_each_other_directly() -> None:
    async def run() -> None:
        provider = ProcessProvider(MachineOptions())
        await provider.up(NODES, servers=NODES[:3], needs=frozenset({"process"}))
        assert (
            provider.reach("producer-1", "127.0.0.9:9876", ServerKind.NAME_SERVER)
            == "127.0.0.9:9876"
        )
        assert provider.controls(ENVIRONMENT).network is None
        await provider.down()

    asyncio.run(run())


def test_partitions_are_made_by_a_proxy() -> None:
    async def run() -> None:
        provider = ProcessProvider(MachineOptions())
        assert isinstance(provider, Rerouting)
        machines = await provider.up(NODES, servers=NODES[:3], needs=frozenset({"network.drop"}))
        address = f"{machines['ns-1'].address}:9876"
        reported = {
            node: provider.reach(node, address, ServerKind.NAME_SERVER) for node in NODES[1:]
        }
        assert len({*reported.values(), address}) == 4  # each has a door of its own
        network = provider.controls(ENVIRONMENT).network
        assert network is not None
        try:
            await network.drop(source="ns-1", target="producer-1")
            assert await held_back(reported["producer-1"], 0.1)
            assert not await held_back(reported["broker-a-1"])
            await network.heal()
            assert not await held_back(reported["producer-1"])
        finally:
            await provider.down()

    async def held_back(address: str, for_s: float = 20.0) -> bool:
        """Whether the connection stays open: no server listens at the real address, so one that gets there is reset."""
        host, _, port = address.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            async with asyncio.timeout(for_s):
                await reader.read(1)
        except TimeoutError:
            return True
        except ConnectionResetError:
            pass
        finally:
            writer.close()
        return False

    asyncio.run(run())
