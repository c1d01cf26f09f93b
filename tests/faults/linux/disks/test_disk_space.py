"""A disk that is full: at once, slowly, all but a little; and the space that comes back."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from staticfire.faults.linux.disks import disk_space
from staticfire.faults.linux.disks.disk_space import DiskSpace, Filled
from staticfire.faults.linux.disks.loop_disk import MEBIBYTE, FileSystem, LoopDisk
from staticfire.faults.linux.machine import LinuxMachine
from tests.support.new_disk import new_disk
from tests.support.recording_executor import failing, recording_machine


def test_a_fill_that_did_not_bite() -> None:
    assert not Filled(free_bytes_before=9, free_bytes=0, error=None).bitten
    assert not Filled(free_bytes_before=9, free_bytes=0, error="EIO").bitten
    assert Filled(free_bytes_before=9, free_bytes=0, error="ENOSPC").to_json() == {
        "free_bytes_before": 9,
        "free_bytes": 0,
        "error": "ENOSPC",
        "bitten": True,
    }


def test_what_is_refused_is_tried_in_smaller_steps(tmp_path: Path) -> None:
    machine, executor = recording_machine(tmp_path)
    executor.answers = {
        "stat": "4096 16\n",
        "sh -c stat": "0\n",
        "fallocate": failing("fallocate failed: No space left on device"),
        machine.python: '{"write": "ENOSPC", "fsync": null, "fsync_ns": [1]}',
    }
    filled = asyncio.run(DiskSpace(LoopDisk(machine, "/a/b")).fill(free_bytes=32768))
    lengths = [argv[4] for argv in executor.commands if argv[0] == "fallocate"]
    assert lengths == ["32768", "16384", "8192", "4096"]
    assert filled.bitten
    machine.inventory.close()


def test_another_error_is_reported(tmp_path: Path) -> None:
    machine, executor = recording_machine(tmp_path)
    executor.answers = {
        "stat": "4096 16\n",
        "sh -c stat": "0\n",
        "fallocate": failing("fallocate failed: Read-only file system"),
    }
    with pytest.raises(Exception, match="Read-only file system"):
        asyncio.run(DiskSpace(LoopDisk(machine, "/a/b")).fill())
    machine.inventory.close()


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.needs_root("mkfs.ext4", "mkfs.xfs", "losetup")
@pytest.mark.parametrize("file_system", ["ext4", "xfs"])
def test_a_real_disk_is_full(
    machine: LinuxMachine, tmp_path: Path, file_system: FileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_space, "STEP_S", 0.01)

    async def scenario() -> None:
        async with new_disk(machine, tmp_path, file_system) as disk:
            space = DiskSpace(disk)
            free = await disk.free_bytes()
            assert (await space.fill()).bitten
            with pytest.raises(OSError, match="No space left") as caught:
                write_synced(Path(disk.data_folder) / "node's own", MEBIBYTE)
            assert caught.value.errno == errno.ENOSPC
            await space.free()
            await space.free()
            write_synced(Path(disk.data_folder) / "node's own", MEBIBYTE)

            filled = await space.fill(free_bytes=2 * MEBIBYTE)
            assert filled.bitten
            assert MEBIBYTE < filled.free_bytes <= 2 * MEBIBYTE
            write_synced(Path(disk.data_folder) / "small", MEBIBYTE)
            await space.free()

            slow = await space.fill_slowly(int(free / 0.05), free_bytes=MEBIBYTE)
            assert slow.bitten
            assert slow.free_bytes <= MEBIBYTE
            await space.free()

    asyncio.run(asyncio.wait_for(scenario(), 180))


def write_synced(path: Path, size_bytes: int) -> None:
    opened = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        rest = size_bytes
        while rest:
            rest -= os.write(opened, bytes(rest))
        os.fsync(opened)
    finally:
        os.close(opened)
