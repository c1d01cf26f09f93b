"""A disk that finds no room: fsync fails with ENOSPC.

The tmpfs that holds the sparse image of the disk is full, so blocks that were never written have no room in it. What is
there can be overwritten. A thin-provisioned volume behaves so.
"""

from __future__ import annotations

import asyncio

from staticfire.faults.linux.disks.disk_errors import DiskErrors, Failing
from staticfire.faults.linux.disks.loop_disk import DiskError, LoopDisk
from staticfire.faults.linux.executor import CommandFailed

FILL_ROUNDS = 50


class StarvedDisk(DiskErrors):
    """The write-back errors of one disk, and a lack of room on ext4 and XFS."""

    def __init__(self, disk: LoopDisk) -> None:
        super().__init__(disk)
        self._ballast = f"{disk.tmpfs}/ballast"

    async def starve(self) -> Failing:
        """Every fsync of data in blocks that were never written fails with ENOSPC.

        On ext4 that is so for blocks that a file has reserved, too (fallocate); on XFS only for new ones.
        """
        machine, disk = self._disk.machine, self._disk
        # Journal and metadata have a place and go on. On XFS they are everywhere: all that is not free has one.
        with_place = disk.front_bytes if disk.file_system == "ext4" else disk.size_bytes
        await machine.run(["fallocate", "--length", str(with_place), disk.image])
        await machine.run(["fstrim", self._disk.mount_point])
        await self._fill_tmpfs()
        return await self.probe()

    async def heal(self) -> bool:
        await self._disk.machine.run(["rm", "-f", self._ballast])
        return await super().heal()

    async def _fill_tmpfs(self) -> None:
        """A trim may go on for a while after fstrim, so until nothing more comes free."""
        machine = self._disk.machine
        argv = ["stat", "--file-system", "--format", "%a %S", self._disk.tmpfs]
        quiet = 0
        for _ in range(FILL_ROUNDS):
            blocks, block_bytes = map(int, (await machine.run(argv)).split())
            quiet = 0 if blocks else quiet + 1
            if quiet == 3:
                return
            if blocks:
                await self._grow_ballast(blocks * block_bytes)
            await asyncio.sleep(0.02)
        raise DiskError(f"{self._disk.tmpfs} cannot be filled")

    async def _grow_ballast(self, by_bytes: int) -> None:
        script = 'touch "$1" && fallocate -o "$(stat --format %s "$1")" -l "$2" "$1"'
        argv = ["sh", "-c", script, "sh", self._ballast, str(by_bytes)]
        try:
            await self._disk.machine.run(argv)
        except CommandFailed as error:
            if "No space left" not in error.stderr:  # the image was faster
                raise
