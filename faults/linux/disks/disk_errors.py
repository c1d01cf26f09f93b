"""Write-back errors: a write succeeds, the fsync behind it does not, and the page counts as clean afterwards.

A `LoopDisk` of ext4 has them without device mapper: the loop device ends behind the metadata, so data goes beyond its
end: EIO. Journal and metadata are in front of it (`packed_meta_blocks`), so the file system lives on, and is whole
afterwards.

Afterwards ext4 keeps showing the lost pages to every reader, and does not write them when they are written again:
the fsync succeeds, and a remount shows zeros (seen with 6.18; `posix_fadvise(DONTNEED)` before the file is read makes
it show, and later write, what is true).
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
    """Evidence: what our own write and fsync met. `fsync` is "EIO" when the fault bites."""

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
        """Every fsync of data fails with EIO, overwriting included; so does a read that the page cache cannot answer.

        Raises DiskError for XFS, whose metadata is everywhere.
        """
        if self._disk.file_system != "ext4":
            raise DiskError(f"EIO needs ext4, this is {self._disk.file_system}")
        await self._limit(self._disk.front_bytes)
        return await self.probe()

    async def probe(self) -> Failing:
        """Write and fsync something of our own."""
        answer = await self._disk.machine.script(probe_script, self._disk.probe_file, PROBE_BYTES)
        return Failing(write=answer["write"], fsync=answer["fsync"])

    async def heal(self) -> bool:
        """End the errors. Returns whether the disk works again; if not, kill the processes and `repair()`.

        The page cache still shows what was never written, also to a process that is started now.
        """
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
