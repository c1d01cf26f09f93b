"""Bandwidth, delay and loss by tc; heal removes our qdisc alone."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from staticfire.faults.linux.executor import CommandFailed
from staticfire.faults.linux.machine import LinuxMachine
from staticfire.faults.linux.network.network import INTERFACE, Network
from staticfire.faults.linux.network.traffic import (
    HANDLE,
    TRY_NETEM,
    Counters,
    NodeTraffic,
    Shape,
    Traffic,
    TrafficError,
    commands,
    counters_of,
)
from tests.support.recording_executor import failing, recording_machine

# Sends so many bytes to the address in datagrams of 1000, then ends.
SEND = """
import socket, sys
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(int(sys.argv[2]) // 1000):
    sender.sendto(b"x" * 1000, (sys.argv[1], 9))
"""


def test_commands_for_every_shape() -> None:
    assert [" ".join(argv) for argv in commands("eth0", Shape(bits_per_s=1_000_000))] == [
        "tc qdisc add dev eth0 root handle 5f1e: tbf rate 1000000bit burst 5000 latency 400ms"
    ]
    assert [" ".join(argv) for argv in commands("eth0", Shape(delay_ms=20, jitter_ms=5))] == [
        "tc qdisc add dev eth0 root handle 5f1e: netem delay 20ms 5ms"
    ]
    both = Shape(bits_per_s=80_000_000, loss_percent=0.5)
    assert [" ".join(argv) for argv in commands("eth0", both)] == [
        "tc qdisc add dev eth0 root handle 5f1e: netem loss 0.5%",
        "tc qdisc add dev eth0 parent 5f1e:1 handle 5f1f: tbf rate 80000000bit burst 40000 latency 400ms",
    ]


@pytest.mark.parametrize("shape", [Shape(), Shape(delay_ms=-1), Shape(loss_percent=101)])
def test_shapes_that_are_none(shape: Shape) -> None:
    with pytest.raises(TrafficError, match="is no shape; allowed"):
        commands("eth0", shape)


def test_counters_of_ours_alone() -> None:
    listing = json.dumps(
        [
            {"kind": "netem", "handle": "5f1e:", "packets": 10, "drops": 2, "overlimits": 0},
            {"kind": "tbf", "handle": "5f1f:", "packets": 8, "drops": 1, "overlimits": 5},
            {"kind": "noqueue", "handle": "0:", "packets": 99, "drops": 99},
        ]
    )
    assert counters_of(listing) == Counters(packets=10, dropped=2, delayed=5)
    assert counters_of("[]") == Counters(packets=0, dropped=0, delayed=0)


def test_a_kernel_without_netem_is_reported_and_nothing_stays(tmp_path: Path) -> None:
    machine, executor = recording_machine(tmp_path)
    executor.answers = {"tc": failing("Error: Specified qdisc kind is unknown.", 2)}
    traffic = Traffic(machine, "eth0")
    with pytest.raises(TrafficError, match="the kernel of this machine has no netem"):
        asyncio.run(traffic.shape(Shape(delay_ms=10)))
    assert machine.inventory.made == []
    executor.answers = {"tc": failing("Cannot find device", 1)}
    with pytest.raises(CommandFailed, match="Cannot find device"):
        asyncio.run(traffic.shape(Shape(delay_ms=10)))
    machine.inventory.close()


@pytest.mark.real
@pytest.mark.needs_root("ip", "tc")
def test_bandwidth_of_a_real_interface(machine: LinuxMachine) -> None:
    async def scenario() -> None:
        network = Network(machine)
        try:
            await network.create()
            node = await network.add("node")
            inside = machine.behind(node.prefix)
            traffic = Traffic(inside, INTERFACE)
            await traffic.shape(Shape(bits_per_s=1_000_000))
            argv = [inside.python, "-", network.host_address, "2000000"]
            await inside.run(argv, input=SEND.encode())
            seen = await traffic.counters()
            assert seen.delayed > 0
            assert seen.dropped > 50  # 2 MB at once, and 0.4 s of 1 Mbit/s may wait
            await traffic.shape(Shape(bits_per_s=2_000_000))
            assert (await traffic.counters()).dropped == 0
            await traffic.heal()
            await traffic.heal()
            assert HANDLE not in await inside.run(["tc", "qdisc", "show", "dev", INTERFACE])
            await inside.run(["tc", "qdisc", "add", "dev", "eth0", "root", "handle", "7:", "pfifo"])
            with pytest.raises(CommandFailed):
                await traffic.shape(
                    Shape(bits_per_s=1_000_000)
                )  # the qdisc of another owner is not replaced
            assert "7:" in await inside.run(["tc", "qdisc", "show", "dev", INTERFACE])
        finally:
            await network.remove()

    asyncio.run(asyncio.wait_for(scenario(), 180))


def test_counters_go_on_when_something_else_goes_wrong_with_a_node(tmp_path: Path) -> None:
    machine, executor = recording_machine(tmp_path)
    executor.answers = {
        "ip": '[{"ifname": "eth7", "addr_info": [{"local": "198.18.0.2"}]}]',
        "tc -statistics": json.dumps(
            [{"handle": HANDLE, "packets": 9, "drops": 2, "overlimits": 5}]
        ),
    }

    async def scenario() -> None:
        traffic = NodeTraffic(machine, "198.18.0.2")
        assert await traffic.counters() == {"delayed": 0, "lost": 0, "limited": 0}
        await traffic.change(delay_ms=50.0)
        assert await traffic.counters() == {"delayed": 9, "lost": 0, "limited": 0}
        await traffic.change(loss_percent=5.0)
        assert await traffic.counters() == {"delayed": 18, "lost": 2, "limited": 0}
        await traffic.change(delay_ms=0.0, loss_percent=0.0)
        assert await traffic.counters() == {"delayed": 18, "lost": 2, "limited": 0}
        await traffic.heal()

    asyncio.run(scenario())
    assert machine.inventory.made == []
    machine.inventory.close()


def test_an_address_without_an_interface_is_reported(tmp_path: Path) -> None:
    machine, executor = recording_machine(tmp_path)
    executor.answers = {"ip": "[{}]"}
    with pytest.raises(TrafficError, match=r"no interface .* has the address 198\.18\.0\.2"):
        asyncio.run(NodeTraffic(machine, "198.18.0.2").change(bits_per_s=1000))
    machine.inventory.close()


@pytest.mark.real
@pytest.mark.needs_root("ip", "tc")
def test_netem_does_what_trying_it_says(machine: LinuxMachine) -> None:
    async def scenario() -> None:
        network = Network(machine)
        try:
            await network.create()
            inside = machine.behind((await network.add("node")).prefix)
            traffic = Traffic(inside, "eth0")
            if await machine.answers(TRY_NETEM):
                await traffic.shape(Shape(loss_percent=100))
                argv = [inside.python, "-", network.host_address, "10000"]
                await inside.run(argv, input=SEND.encode())
                assert (await traffic.counters()).dropped >= 10
                await traffic.heal()
            else:
                with pytest.raises(TrafficError, match="no netem"):
                    await traffic.shape(Shape(loss_percent=100))
        finally:
            await network.remove()

    asyncio.run(asyncio.wait_for(scenario(), 180))
