"""Write-back errors: a write succeeds, the fsync behind it does not, and the page counts as clean afterwards.

Two ways to get them from a `LoopDisk`, neither needs device mapper:

* `fail()`, ext4: the loop device ends behind the metadata, so data goes beyond its end: EIO. Journal and
  metadata are in front of it (`packed_meta_blocks`), so the file system lives on, and is whole afterwards.
* `starve()`, ext4 and XFS: the tmpfs that holds the sparse image is full, so blocks that were never written have no
  place: fsync says ENOSPC. What is there can be overwritten. A thin-provisioned volume behaves so.

After either, ext4 keeps showing the lost pages to every reader, and does not write them when they are written again:
the fsync succeeds, and a remount shows zeros (seen with 6.18; `posix_fadvise(DONTNEED)` before the file is read makes
it show, and later write, what is true).
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass

from staticfire.faults.linux.disks.loop_disk import DiskError, LoopDisk
from staticfire.faults.linux.executor import CommandFailed
from staticfire.faults.linux.on_node import device as device_script
from staticfire.faults.linux.on_node import probe as probe_script

PROBE_BYTES = 256 * 1024
FILL_ROUNDS = 50
FSCK_TIMEOUT_S = 120.0
FSCK_DONE = (0, 1)  # fsck(8): no errors, errors corrected


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """Evidence: what our own write and fsync met. `fsync` is "EIO" or "ENOSPC" when the fault bites."""

    write: str | None
    fsync: str | None

    @property
    def bitten(self) -> bool:
        return self.fsync is not None

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "bitten": self.bitten}


class DiskErrors:
    """The write-back errors of one disk."""

    def __init__(self, disk: LoopDisk) -> None:
        self._disk = disk
        self._ballast = f"{disk.tmpfs}/ballast"

    async def fail(self) -> Failing:
        """Every fsync of data fails with EIO, overwriting included; so does a read that the page cache cannot answer.

        Raises DiskError for XFS, whose metadata is everywhere.
        """
        if self._disk.file_system != "ext4":
            raise DiskError(
                f"EIO needs ext4, this is {self._disk.file_system}: starve() fails its fsyncs with ENOSPC"
            )
        await self._limit(self._disk.front_bytes)
        return await self.probe()

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

    async def probe(self) -> Failing:
        """Write and fsync something of our own."""
        answer = await self._disk.machine.script(probe_script, self._disk.probe_file, PROBE_BYTES)
        return Failing(write=answer["write"], fsync=answer["fsync"])

    async def heal(self) -> bool:
        """End both. Returns whether the disk works again; if not, kill the processes and `repair()`.

        The page cache still shows what was never written, also to a process that is started now.
        """
        await self._disk.machine.run(["rm", "-f", self._ballast])
        await self._limit(0)
        found = await self.probe()
        return found.write is None and found.fsync is None

    async def repair(self) -> None:
        """Unmount, check and mount a file system that gave up. The processes must be dead.

        Raises DiskError while a process uses it, CommandFailed if it cannot be repaired.
        """
        await self._disk.unmount()
        if self._disk.file_system == "ext4":
            await self._fsck()
        await self._disk.mount()  # replays the log; XFS wants that before any repair
        found = await self.probe()
        if found.write or found.fsync:
            raise DiskError(f"{self._disk.mount_point} still fails after its repair: {found}")

    async def _fsck(self) -> None:
        argv = ["fsck.ext4", "-f", "-y", self._disk.device]
        try:
            await self._disk.machine.run(argv, timeout_s=FSCK_TIMEOUT_S)
        except CommandFailed as error:
            if error.status not in FSCK_DONE:
                raise

    async def _limit(self, size_bytes: int) -> None:
        await self._disk.machine.script(device_script, "limit", self._disk.device, size_bytes)

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
