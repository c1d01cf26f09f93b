"""Overlapping disk faults, and clock faults on nodes without a prepared clock."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from staticfire.faults.errors import CapabilityMissing
from staticfire.faults.linux.disks.disk_speed import DiskSpeed
from staticfire.faults.linux.disks.loop_disk import LoopDisk
from staticfire.faults.linux.executor import CommandFailed
from staticfire.harness.environments.real import linux_controls
from staticfire.harness.environments.real.linux_controls import FakedClocks, LoopDisks
from tests.support.recording_executor import recording_machine

NODE = "broker-a-0"
NO_POWER = CommandFailed(["python3", "-"], 1, "OSError: [Errno 5] Input/output error")


class Powered:
    """In place of the environment: one node with a process."""

    def __init__(self) -> None:
        running = SimpleNamespace(pid=7)
        self.nodes = {NODE: SimpleNamespace(running=running, powered=True, lost=False)}
        self.on_start: Any = None

    async def pause(self, node: str) -> None:
        pass

    async def kill(self, node: str) -> None:
        self.nodes[node].running = None


class Silent:
    async def black_hole(self) -> None:
        pass


@pytest.mark.parametrize("is_cut", [True, False])
def test_a_power_cut_while_the_speed_is_measured(
    is_cut: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine, _ = recording_machine(tmp_path)
    disk = LoopDisk(machine, str(tmp_path))
    disks = LoopDisks(cast(Any, Powered()), {NODE: disk}, {NODE: cast(Any, Silent())}, {})

    async def cut_power(_: LoopDisk) -> object:
        await asyncio.sleep(0)  # the disk fails before the cut is over
        return object()

    async def measure(_: DiskSpeed, pids: Sequence[int], factor: float) -> None:
        if is_cut:
            cut = asyncio.create_task(disks.power_cut([NODE]))
            while disks._disks[NODE].cuts_begun == 0:
                await asyncio.sleep(0)
            assert not cut.done()
        raise NO_POWER

    async def slow() -> dict[str, int]:
        await disks.slow(NODE, 50.0)
        return await disks.counters(NODE)

    monkeypatch.setattr(linux_controls, "cut_power", cut_power)
    monkeypatch.setattr(DiskSpeed, "slow", measure)
    if is_cut:
        assert asyncio.run(slow())["slow_ns"] == 0
    else:
        with pytest.raises(CommandFailed, match="Input/output error"):
            asyncio.run(slow())
    machine.inventory.close()


def test_a_node_without_a_clock_of_its_own_cannot_be_stepped() -> None:
    with pytest.raises(CapabilityMissing, match="broker-a-0 has no clock of its own"):
        asyncio.run(FakedClocks({}).step("broker-a-0", -1000))
