"""One test, both worlds: `play(scenario)` runs it in the simulation, or on this machine."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from staticfire.faults.linux.disks.disk_speed import DiskSpeedError, cgroup_version
from staticfire.faults.linux.disks.loop_disk import FileSystem, LoopDisk
from staticfire.faults.linux.executor import LocalExecutor
from staticfire.faults.linux.inventory import Inventory, clean, read_journal
from staticfire.faults.linux.machine import LinuxMachine
from staticfire.faults.linux.network.network import Network
from tests.parity.real_world import make_disk, make_network, play_real
from tests.parity.simulated_world import play_simulated
from tests.parity.world import Play, Scenario
from tests.support.leftovers import find_leftovers

SEEDS = 5
DISK_SEEDS = 60  # enough for every outcome that a test asks for
SCENARIO_TIMEOUT_S = 180.0


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LinuxMachine]:
    """This machine, with an inventory; at the end of the module nothing that was made may be left."""
    folder = tmp_path_factory.mktemp("parity")
    inventory = Inventory.begin(folder / "state")
    yield LinuxMachine(executor=LocalExecutor(), inventory=inventory, python=sys.executable)
    inventory.close()
    if inventory.path.exists():
        asyncio.run(clean(read_journal(inventory.path), lambda _: LocalExecutor()))
    assert find_leftovers(inventory.identity) == []


@pytest.fixture(scope="module")
def network(machine: LinuxMachine) -> Iterator[Network]:
    """Two network namespaces for all tests of a module."""
    network = asyncio.run(make_network(machine))
    yield network
    asyncio.run(network.remove())


@pytest.fixture(scope="module")
def disks(
    machine: LinuxMachine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[FileSystem], LoopDisk]]:
    """One disk of each file system for all tests of a module."""
    made: dict[FileSystem, LoopDisk] = {}

    def disk(file_system: FileSystem) -> LoopDisk:
        if file_system not in made:
            folder = tmp_path_factory.mktemp(file_system)
            made[file_system] = asyncio.run(make_disk(machine, folder, file_system))
        return made[file_system]

    yield disk
    for left in made.values():
        asyncio.run(left.remove())


def real(name: str, *commands: str) -> Any:
    marks = [pytest.mark.real, pytest.mark.needs_root("ip", "nft", "ss", *commands)]
    return pytest.param(name, marks=marks)


EXT4 = real("ext4", "mkfs.ext4", "losetup", "dumpe2fs")
XFS = real("xfs", "mkfs.xfs", "losetup")


@pytest.fixture(params=["simulation", real("real")])
def play(request: pytest.FixtureRequest) -> Play:
    """`play(scenario)`: what it returned, of several seeds or of this machine."""
    return _play(request, SEEDS)


@pytest.fixture(params=["simulation", EXT4, XFS])
def play_with_disk(request: pytest.FixtureRequest) -> Play:
    """The same with a disk for the server."""
    return _play(request, DISK_SEEDS)


@pytest.fixture(params=["simulation", EXT4])
def play_with_failing_disk(request: pytest.FixtureRequest) -> Play:
    """With a disk that fails on request, which XFS does not support (`faults/linux/disks/disk_errors.py`)."""
    return _play(request, DISK_SEEDS)


@pytest.fixture(params=["simulation", EXT4])
def play_with_slow_disk(request: pytest.FixtureRequest) -> Play:
    """With a disk that can be made slow, which takes a cgroup that throttles writes."""
    if request.param != "simulation":
        try:
            asyncio.run(cgroup_version(request.getfixturevalue("machine")))
        except DiskSpeedError as error:
            pytest.skip(f"needs a cgroup: {error}")
    return _play(request, DISK_SEEDS)


def _play(request: pytest.FixtureRequest, seeds: int) -> Play:
    world: str = request.param

    def run(scenario: Scenario) -> list[Any]:
        if world == "simulation":
            return play_simulated(scenario, seeds)
        machine = request.getfixturevalue("machine")
        network = request.getfixturevalue("network")
        disk = None if world == "real" else request.getfixturevalue("disks")(world)
        playing = play_real(machine, network, disk, scenario)
        return [asyncio.run(asyncio.wait_for(playing, SCENARIO_TIMEOUT_S))]

    return run
