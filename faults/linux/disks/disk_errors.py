"""Write-back errors: a write succeeds, the following fsync fails, and the kernel then marks the page as clean.

A `LoopDisk` with ext4 can fail in this way without device mapper. The loop device is made to end right behind the
metadata, so every write of data goes beyond its end and fails with EIO. The journal and the metadata lie in front of
that end (`packed_meta_blocks`), so the file system keeps running and stays consistent.

Afterwards ext4 still serves the lost pages from its cache. If a process overwrites such a page, the fsync succeeds, but
a remount shows zeros (seen with Linux 6.18). If `posix_fadvise(DONTNEED)` drops the page before the file is read, reads
return what is on the disk, and later writes reach it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from staticfire.faults.linux.disks.loop_disk import DiskError, LoopDisk
from staticfire.faults.linux.executor import CommandFailed
from staticfire.faults.linux.on_node import device as device_script
from staticfire.faults.linux.on_node import probe as probe_script

PROBE_BYTES = 256 * 1024
FSCK_TIMEOUT_S = 120.0
FSCK_DONE = (0, 1)  # fsck(8): no errors, errors corrected


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """Evidence of the fault: the errors that our own write and fsync got. `fsync` is "EIO" if the fault bites."""

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

    async def fail(self) -> Failing:
        """Make every fsync of data fail with EIO, overwrites included, and every read that the page cache cannot serve.

        Raises DiskError for XFS, whose metadata is spread over the whole disk.
        """
        if self._disk.file_system != "ext4":
            raise DiskError(f"EIO needs ext4, this is {self._disk.file_system}")
        await self._limit(self._disk.front_bytes)
        return await self.probe()

    async def probe(self) -> Failing:
        """Write to the probe file and fsync it; return the errors."""
        answer = await self._disk.machine.script(probe_script, self._disk.probe_file, PROBE_BYTES)
        return Failing(write=answer["write"], fsync=answer["fsync"])

    async def heal(self) -> bool:
        """End the errors; return whether the disk works again. If not, kill the processes and call `repair()`.

        The page cache still serves data that was never written to the disk, also to processes that are started now.
        """
        await self._limit(0)
        found = await self.probe()
        return found.write is None and found.fsync is None

    async def repair(self) -> None:
        """Unmount, check and remount a file system that has shut itself down. Its processes must be dead.

        Raises DiskError while a process uses it, CommandFailed if it cannot be repaired.
        """
        await self._disk.unmount()
        if self._disk.file_system == "ext4":
            await self._fsck()
        await self._disk.mount()  # replays the log, which XFS requires before any repair
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
