"""The disk of one node: a sparse image on a tmpfs of its own, a loop device, a small file system.

So one node's disk can lose its power (`power_loss.py`), fill up (`disk_space.py`) or fail (`disk_errors.py`) without an
effect on other disks. The image is in memory, so what the kernel has written to the loop device counts as durable.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Literal

from staticfire.faults.errors import FaultError
from staticfire.faults.linux.executor import CommandFailed
from staticfire.faults.linux.machine import LinuxMachine
from staticfire.faults.linux.on_node import device as device_script
from staticfire.faults.linux.resources import Resource

FileSystem = Literal["ext4", "xfs"]
FILE_SYSTEMS: tuple[FileSystem, ...] = ("ext4", "xfs")
FreeCheck = Callable[[], Awaitable[bool]]

MEBIBYTE = 1 << 20
SIZE_MIN = {"ext4": 16 * MEBIBYTE, "xfs": 320 * MEBIBYTE}  # mkfs.xfs refuses less than 300 MiB
SIZE_BYTES = 256 * MEBIBYTE
TMPFS_SLACK_BYTES = 4 * MEBIBYTE  # spare room on the tmpfs, which holds only the image
EXT4_BLOCK_BYTES = 4096
UNMOUNT_TIMEOUT_S = 10.0
MKFS = {
    # No reserve for root: all free bytes can be used. Metadata at the front: disk_errors.py ends the device behind it.
    "ext4": (
        "mkfs.ext4",
        "-q",
        "-F",
        "-m",
        "0",
        "-b",
        str(EXT4_BLOCK_BYTES),
        "-E",
        "packed_meta_blocks=1",
    ),
    "xfs": ("mkfs.xfs", "-q", "-f"),
}

_FURNISH = 'mkdir -m 755 "$2"; : > "$3"; sync -f "$1"'

_WIPE = """
find "$1" -mindepth 1 -type f -printf '%s\\n' | awk '{ sum += $1 } END { printf "%.0f", sum }'
find "$1" -mindepth 1 -delete && sync -f "$1"
"""


class DiskError(FaultError):
    """A disk is in use, missing or too small."""


def front_bytes(dumpe2fs: str) -> int:
    """Return the size of the metadata of a new, packed ext4, from the output of dumpe2fs.

    Raises DiskError if the output does not show it.
    """
    found = re.search(r"^  Free blocks: (\d+)-", dumpe2fs, re.MULTILINE)
    if found is None:
        raise DiskError(f"dumpe2fs names no free block: {dumpe2fs[-200:]!r}")
    return int(found[1]) * EXT4_BLOCK_BYTES


class LoopDisk:
    """A disk in `folder`, an absolute path on the machine, which is made and removed with the disk.

    The node's files belong in `data_folder`. Our own probe file and ballast are outside of it, on the same disk.
    """

    def __init__(
        self,
        machine: LinuxMachine,
        folder: str,
        *,
        size_bytes: int | None = None,
        file_system: FileSystem = "ext4",
    ) -> None:
        """Choose 256 MiB, or the minimum of the file system if that is larger, unless `size_bytes` is given.

        Raises DiskError for a size that is too small for the file system.
        """
        if size_bytes is None:
            size_bytes = max(SIZE_BYTES, SIZE_MIN[file_system])
        if size_bytes < SIZE_MIN[file_system]:
            raise DiskError(
                f"a disk of {size_bytes} bytes is too small for {file_system}; "
                f"allowed: {SIZE_MIN[file_system]} and more"
            )
        self.machine = machine
        self.folder = folder
        self.size_bytes = size_bytes
        self.file_system: FileSystem = file_system
        self.tmpfs = f"{folder}/device"
        self.image = f"{self.tmpfs}/image"
        self.mount_point = f"{folder}/mounted"
        self.data_folder = f"{self.mount_point}/data"
        self.probe_file = f"{self.mount_point}/.probe"
        self.fingerprint_file = f"{folder}/fingerprint"
        # ext4: where the metadata ends and the first file begins; set by create()
        self.front_bytes = 0
        self._device: str | None = None
        self._made: list[Resource] = []
        self._mount: Resource | None = None

    @property
    def device(self) -> str:
        """The path of the loop device, such as /dev/loop3. Raises DiskError if the disk does not exist."""
        if self._device is None:
            raise DiskError(f"the disk in {self.folder} has not been created, or is destroyed")
        return self._device

    async def create(self) -> None:
        """Make the disk and mount it, with an empty data folder. Raises CommandFailed, DiskError."""
        if self._device is not None:
            raise DiskError(f"the disk in {self.folder} is there already")
        self._will_make("folder", self.folder)
        await self.machine.run(["mkdir", "-p", self.tmpfs, self.mount_point])
        await self._make_image()
        self._will_make("loop device", self.image)
        output = await self.machine.run(["losetup", "--find", "--show", self.image])
        self._device = output.strip()
        await self.mount()
        argv = ["sh", "-ec", _FURNISH, "sh", self.mount_point, self.data_folder, self.probe_file]
        await self.machine.run(argv)

    async def _make_image(self) -> None:
        self._will_make("mount", self.tmpfs)
        size = self.size_bytes + TMPFS_SLACK_BYTES
        options = f"size={size},mode=700"
        await self.machine.run(["mount", "-t", "tmpfs", "-o", options, "staticfire", self.tmpfs])
        await self.machine.run(["truncate", "-s", str(self.size_bytes), self.image])
        await self.machine.run([*MKFS[self.file_system], self.image])
        if self.file_system == "ext4":
            self.front_bytes = front_bytes(await self.machine.run(["dumpe2fs", self.image]))

    async def mount(self) -> None:
        """Mount the disk, which replays its journal, as after a reboot; does nothing if it is mounted."""
        if self._mount is not None:
            return
        argv = ["mount", "-t", self.file_system, "-o", "noatime", self.device, self.mount_point]
        self._mount = self.machine.will_make("mount", self.mount_point)
        await self.machine.run(argv)

    async def unmount(self) -> None:
        """Unmount the disk everywhere; does nothing if it is not mounted.

        Raises DiskError while processes use it, also through a copy of the mount in another mount namespace. A remount
        would then be the same file system with the same page cache.
        """
        if self._mount is None:
            return
        await self._until_free(self._umounted, "processes use it")
        self.machine.inventory.is_gone(self._mount)
        self._mount = None
        await self._until_free(self._unused, "another mount namespace has it mounted")

    async def _umounted(self) -> bool:
        try:
            await self.machine.run(["umount", self.mount_point])
        except CommandFailed as error:
            if "busy" in error.stderr:
                return False
            if "not mounted" not in error.stderr:  # mounting it has failed before
                raise
        return True

    async def _unused(self) -> bool:
        return not await self.machine.script(device_script, "in-use", self.device)

    async def _until_free(self, is_free: FreeCheck, otherwise: str) -> None:
        pause_s = 0.01
        try:
            async with asyncio.timeout(UNMOUNT_TIMEOUT_S):
                while not await is_free():
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, 0.5)
        except TimeoutError:
            raise DiskError(
                f"{self.mount_point} cannot be unmounted within {UNMOUNT_TIMEOUT_S:g} s: {otherwise}"
            ) from None

    async def shut_down(self) -> None:
        """Shut the file system down at once: every call fails with EIO, and nothing more is written.

        Data that was not fsynced is lost. To simulate a power cut, then kill the processes, unmount and mount.
        """
        await self.machine.script(device_script, "shut-down", self.mount_point)

    async def free_bytes(self) -> int:
        """Return the free space for data, without the space that metadata takes."""
        argv = ["stat", "--file-system", "--format", "%S %a", self.mount_point]
        block, blocks = map(int, (await self.machine.run(argv)).split())
        return block * blocks

    async def wipe(self) -> int:
        """Remove all files of the node durably; return their size in bytes. The node's process must not run."""
        said = await self.machine.run(["sh", "-c", _WIPE, "sh", self.data_folder])
        return int(said)

    async def destroy(self) -> None:
        """Destroy the disk for good: every call fails with EIO from now on. Then kill the processes, and `remove()`."""
        await self.shut_down()

    async def remove(self) -> None:
        """Remove everything that `create()` made, mounted or not. The processes must be dead."""
        await self.unmount()
        while self._made:
            await self.machine.remove(self._made[-1])
            self._made.pop()
        self._device = None

    def _will_make(self, kind: str, name: str) -> None:
        self._made.append(self.machine.will_make(kind, name))
