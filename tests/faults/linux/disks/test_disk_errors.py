"""True write-back errors: a write that succeeds and an fsync that does not."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from staticfire.faults.linux.disks.disk_errors import DiskErrors, Failing
from staticfire.faults.linux.disks.loop_disk import MEBIBYTE, DiskError, FileSystem, LoopDisk
from staticfire.faults.linux.machine import LinuxMachine
from tests.support.new_disk import new_disk
from tests.support.recording_executor import recording_machine
from tests.support.starved_disk import StarvedDisk


def test_evidence() -> None:
    assert Failing(write=None, fsync="EIO").bitten
    assert not Failing(write="EROFS", fsync=None).bitten


def test_xfs_cannot_end_early(tmp_path: Path) -> None:
    machine, _ = recording_machine(tmp_path)
    disk = LoopDisk(machine, "/a/b", size_bytes=320 * MEBIBYTE, file_system="xfs")
    with pytest.raises(DiskError, match="EIO needs ext4, this is xfs"):
        asyncio.run(DiskErrors(disk).fail())
    machine.inventory.close()


def synced_errno(path: Path) -> int:
    """Of the fsync; the write must succeed, and the fsync after the failed one, too: the page was dropped."""
    opened = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        assert os.write(opened, b"x" * MEBIBYTE) == MEBIBYTE
        try:
            os.fsync(opened)
        except OSError as error:
            os.fsync(opened)
            return error.errno or 0
        return 0
    finally:
        os.close(opened)


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.needs_root("mkfs.ext4", "losetup", "dumpe2fs")
def test_a_real_disk_fails_with_eio(machine: LinuxMachine, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with new_disk(machine, tmp_path) as disk:
            old, new = Path(disk.data_folder) / "old", Path(disk.data_folder) / "new"
            assert synced_errno(old) == 0
            errors = DiskErrors(disk)
            assert await errors.fail() == Failing(write=None, fsync="EIO")
            assert synced_errno(old) == errno.EIO  # overwriting, too
            assert synced_errno(new) == errno.EIO
            assert old.read_bytes() == b"x" * MEBIBYTE  # the page cache
            assert await errors.heal()
            later = Path(disk.data_folder) / "later"
            assert synced_errno(later) == 0
            assert new.read_bytes() == b"x" * MEBIBYTE  # still the page cache
            await disk.unmount()
            await disk.mount()
            assert later.read_bytes() == b"x" * MEBIBYTE
            assert new.read_bytes() != b"x" * MEBIBYTE  # what the disk really has

    asyncio.run(asyncio.wait_for(scenario(), 180))


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.needs_root("mkfs.ext4", "mkfs.xfs", "losetup", "fstrim")
@pytest.mark.parametrize("file_system", ["ext4", "xfs"])
def test_a_real_disk_has_no_place(
    machine: LinuxMachine, tmp_path: Path, file_system: FileSystem
) -> None:
    async def scenario() -> None:
        async with new_disk(machine, tmp_path, file_system) as disk:
            old, new = Path(disk.data_folder) / "old", Path(disk.data_folder) / "new"
            assert synced_errno(old) == 0
            errors = StarvedDisk(disk)
            assert await errors.starve() == Failing(write=None, fsync="ENOSPC")
            assert synced_errno(old) == 0
            assert synced_errno(new) == errno.ENOSPC
            assert await errors.heal()
            assert synced_errno(new) == 0

    asyncio.run(asyncio.wait_for(scenario(), 180))


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.needs_root("mkfs.ext4", "mkfs.xfs", "losetup")
@pytest.mark.parametrize("file_system", ["ext4", "xfs"])
def test_a_file_system_that_gave_up_is_repaired(
    machine: LinuxMachine, tmp_path: Path, file_system: FileSystem
) -> None:
    async def scenario() -> None:
        async with new_disk(machine, tmp_path, file_system) as disk:
            errors = DiskErrors(disk)
            await disk.shut_down()
            assert not await errors.heal()
            await errors.repair()
            assert await errors.heal()
            assert synced_errno(Path(disk.data_folder) / "new") == 0

    asyncio.run(asyncio.wait_for(scenario(), 180))
