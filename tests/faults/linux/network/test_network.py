"""Namespaces with addresses behind a switch of their own."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from staticfire.faults.linux.machine import LinuxMachine
from staticfire.faults.linux.network.network import (
    SUBNETS,
    Network,
    NetworkError,
    subnet_prefix,
    subnets_taken,
)
from tests.support.reachability import reaches
from tests.support.recording_executor import recording_machine


def address_list(*addresses: str) -> str:
    return json.dumps(
        [{"ifname": f"l{n}", "addr_info": [{"local": a}]} for n, a in enumerate(addresses)]
    )


def test_subnets() -> None:
    assert [subnet_prefix(n) for n in (0, 255, 256, 511)] == [
        "198.18.0",
        "198.18.255",
        "198.19.0",
        "198.19.255",
    ]
    assert subnets_taken(address_list("127.0.0.1", "198.18.7.1", "198.19.0.1", "198.20.0.1")) == {
        7,
        256,
    }
    assert subnets_taken("[{}]") == set()


def test_a_run_that_took_the_same_subnet_makes_us_draw_again(tmp_path: Path) -> None:
    machine, executor = recording_machine(tmp_path)
    draws: list[int] = []

    def draw(count: int) -> int:
        draws.append(count)
        if len(draws) == 1:
            ours = address_list("198.18.0.1").replace("l0", "sfabc123")
            executor.answers["ip -json -4 address show to 198.18.1.0/24"] = ours
        return len(draws) - 1

    both = json.loads(address_list("198.18.0.1", "198.18.0.1"))
    both[0]["ifname"] = "sfabc123"
    executor.answers["ip -json -4 address show to 198.18.0.0/24"] = json.dumps(both)
    executor.answers["ip -json -4 address show to 198.18.1.0/24"] = "[]"
    executor.answers["ip -json -4 address"] = "[]"

    async def create() -> str:
        network = Network(machine, draw)
        await network.create()
        return network.host_address

    assert asyncio.run(create()) == "198.18.1.1"
    assert draws == [SUBNETS, SUBNETS]
    assert "address delete 198.18.0.1/24 dev sfabc123\n" in executor.inputs
    machine.inventory.close()


@pytest.mark.parametrize("name", ["", "switch", "a b", "-n", "a/b", "x" * 65])
def test_names_that_a_namespace_cannot_have(tmp_path: Path, name: str) -> None:
    machine, executor = recording_machine(tmp_path)
    with pytest.raises(NetworkError, match="allowed"):
        asyncio.run(Network(machine).add(name))
    assert executor.commands == []
    machine.inventory.close()


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.needs_root("ip")
def test_nodes_reach_each_other_and_the_machine(machine: LinuxMachine) -> None:
    async def scenario() -> None:
        network = Network(machine)
        try:
            await network.create()
            nodes = [await network.add(name) for name in ("name-server-0", "broker-a-0")]
            inside = machine.behind(nodes[0].prefix)
            assert await reaches(inside, nodes[1].address)
            assert await reaches(inside, network.host_address)
            assert await reaches(machine, nodes[1].address)
            assert [node.address.rpartition(".")[2] for node in nodes] == ["2", "3"]
        finally:
            await network.remove()

    asyncio.run(asyncio.wait_for(scenario(), 180))
