"""A node's loop disk: made, mounted, in use, wiped, destroyed and removed."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from staticfire.faults.linux.disks import loop_disk
from staticfire.faults.linux.disks.loop_disk import DiskError, FileSystem, LoopDisk, front_bytes
from staticfire.faults.linux.executor import CommandFailed
from staticfire.faults.linux.machine import LinuxMachine
from tests.support.new_disk import SIZE, new_disk
from tests.support.recording_executor import failing, recording_machine


def test_too_small(tmp_path: Path) -> None:
    machine, _ = recording_machine(tmp_path)
    with pytest.raises(DiskError, match=r"1000 bytes is too small for xfs; allowed: 335544320"):
        LoopDisk(machine, "/a/b", size_bytes=1000, file_system="xfs")
    machine.inventory.close()


@pytest.mark.parametrize(("file_system", "mebibytes"), [("ext4", 256), ("xfs", 320)])
def test_without_a_size_a_disk_is_large_enough(
    tmp_path: Path, file_system: FileSystem, mebibytes: int
) -> None:
    machine, _ = recording_machine(tmp_path)
    assert LoopDisk(machine, "/a/b", file_system=file_system).size_bytes == mebibytes << 20
    machine.inventory.close()


def test_where_the_metadata_of_a_packed_ext4_end() -> None:
    listing = (
        "Group 0:\n  Block bitmap at 9\n  Free blocks: 8235-32767\n  Free blocks: 32801-65535\n"
    )
    assert front_bytes(listing) == 8235 * 4096
    with pytest.raises(DiskError, match="names no free block"):
        front_bytes("Group 0:\n")


def test_everything_is_written_down_before_it_is_made(tmp_path: Path) -> None:
    """Whatever command is the last, the inventory knows what it was about to make."""
    for stage, left in (
        ("mkdir", ["folder /a/b"]),
        ("mount -t tmpfs", ["folder /a/b", "mount /a/b/device"]),
        ("losetup", ["folder /a/b", "mount /a/b/device", "loop device /a/b/device/image"]),
        ("mount -t ext4", [*["folder /a/b", "mount /a/b/device"],
                           *["loop device /a/b/device/image", "mount /a/b/mounted"]]),
    ):  # fmt: skip
        machine, executor = recording_machine(tmp_path)
        executor.answers = {
            "dumpe2fs": "  Free blocks: 10-20\n",
            "losetup": "/dev/loop9\n",
            stage: failing("killed"),
        }
        with pytest.raises(CommandFailed):
            asyncio.run(LoopDisk(machine, "/a/b").create())
        assert [str(resource) for resource in machine.inventory.made] == left
        machine.inventory.close()
        machine.inventory.path.unlink()


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.needs_root("mkfs.ext4", "mkfs.xfs", "losetup")
@pytest.mark.parametrize("file_system", ["ext4", "xfs"])
def test_a_real_disk(machine: LinuxMachine, tmp_path: Path, file_system: FileSystem) -> None:
    async def scenario() -> None:
        async with new_disk(machine, tmp_path, file_system) as disk:
            data = Path(disk.data_folder)
            (data / "folder").mkdir()
            (data / "folder" / "file").write_text("kept")
            assert f" {file_system} " in Path("/proc/mounts").read_text().split(disk.mount_point)[1]
            await disk.unmount()
            assert not data.exists()
            await disk.unmount()
            await disk.mount()
            await disk.mount()
            assert (data / "folder" / "file").read_text() == "kept"
            assert await disk.free_bytes() > 0.5 * SIZE[file_system]
            assert await disk.wipe() == len("kept")
            assert await disk.wipe() == 0
            assert list(data.iterdir()) == []
            with pytest.raises(DiskError, match="is there already"):
                await disk.create()

    asyncio.run(asyncio.wait_for(scenario(), 180))


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.needs_root("mkfs.ext4", "losetup")
def test_a_destroyed_disk_answers_nothing_and_goes(machine: LinuxMachine, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with new_disk(machine, tmp_path) as disk:
            file = Path(disk.data_folder) / "file"
            file.write_text("x")
            await disk.destroy()
            with pytest.raises(OSError, match="Input/output error"):
                file.read_text()
            await disk.remove()
            with pytest.raises(DiskError, match="is destroyed"):
                await disk.mount()

    asyncio.run(asyncio.wait_for(scenario(), 180))


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.needs_root("mkfs.ext4", "losetup")
def test_a_disk_in_use_is_not_unmounted(
    machine: LinuxMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_disk, "UNMOUNT_TIMEOUT_S", 0.2)

    async def scenario() -> None:
        async with new_disk(machine, tmp_path) as disk:
            opened = os.open(disk.data_folder, os.O_RDONLY)
            with pytest.raises(DiskError, match="processes use it"):
                await disk.unmount()
            os.close(opened)
            # A mount namespace that was made later has a copy of the mount: the file system would live on in it.
            copy = subprocess.Popen(
                ["unshare", "--mount", "--propagation", "private", "sh", "-c", "echo; exec cat"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            with copy:
                assert copy.stdout is not None
                copy.stdout.readline()
                with pytest.raises(DiskError, match="another mount namespace"):
                    await disk.unmount()
                copy.kill()
            monkeypatch.setattr(loop_disk, "UNMOUNT_TIMEOUT_S", 10.0)
            await disk.unmount()
            await disk.mount()

    asyncio.run(asyncio.wait_for(scenario(), 180))
