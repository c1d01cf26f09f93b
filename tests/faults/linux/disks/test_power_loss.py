"""Power loss on real file systems: what was fsynced is there, what was not is gone and counted."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from staticfire.faults.linux.disks.loop_disk import FileSystem
from staticfire.faults.linux.disks.power_loss import PowerLoss, cut_power
from staticfire.faults.linux.machine import LinuxMachine
from tests.support.new_disk import new_disk

pytestmark = [
    pytest.mark.real,
    pytest.mark.needs_root("mkfs.ext4", "mkfs.xfs", "losetup"),
    pytest.mark.parametrize("file_system", ["ext4", "xfs"]),
]
BLOCK = 4096


@pytest.mark.slow
def test_exactly_what_was_synced_survives(
    machine: LinuxMachine, tmp_path: Path, file_system: FileSystem
) -> None:
    async def scenario() -> None:
        async with new_disk(machine, tmp_path, file_system) as disk:
            log = Path(disk.data_folder) / "log"
            opened = os.open(log, os.O_WRONLY | os.O_CREAT)
            os.write(opened, b"a" * 5 * BLOCK)
            os.fsync(opened)
            os.write(opened, b"b" * 3 * BLOCK)
            (Path(disk.data_folder) / "never synced").write_bytes(b"c" * 10)
            cut = await cut_power(disk)
            with pytest.raises(OSError, match="Input/output error"):
                os.write(opened, b"d")
            os.close(opened)
            assert await cut.come_back() == PowerLoss(
                lost_bytes=3 * BLOCK + 10,
                files_changed=("log", "never synced"),
                files_gone=("never synced",),
            )
            assert log.read_bytes() == b"a" * 5 * BLOCK

    asyncio.run(asyncio.wait_for(scenario(), 180))


@pytest.mark.slow
def test_a_cut_that_takes_nothing_says_so(
    machine: LinuxMachine, tmp_path: Path, file_system: FileSystem
) -> None:
    async def scenario() -> None:
        async with new_disk(machine, tmp_path, file_system) as disk:
            file = Path(disk.data_folder) / "file"
            file.write_bytes(b"a" * 100)
            os.sync()
            loss = await (await cut_power(disk)).come_back()
            assert loss.to_json() == {"lost_bytes": 0, "files_changed": [], "files_gone": []}
            assert file.read_bytes() == b"a" * 100

    asyncio.run(asyncio.wait_for(scenario(), 180))
