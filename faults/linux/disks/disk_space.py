"""A full disk: a ballast file takes the space, at once or slowly, until our own write fails with ENOSPC."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass

from staticfire.faults.linux.disks.loop_disk import MEBIBYTE, LoopDisk
from staticfire.faults.linux.executor import CommandFailed
from staticfire.faults.linux.on_node import probe as probe_script

STEP_S = 0.25  # of a slow fill
SMALLEST_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """Evidence of a full disk."""

    free_bytes_before: int
    free_bytes: int
    error: str | None  # of a write larger than the free space: "ENOSPC"; None if it succeeded

    @property
    def bitten(self) -> bool:
        return self.error == "ENOSPC"

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "bitten": self.bitten}


class DiskSpace:
    """The ballast file on one disk."""

    def __init__(self, disk: LoopDisk) -> None:
        self._disk = disk
        self._ballast = f"{disk.mount_point}/.ballast"

    async def fill(self, free_bytes: int = 0) -> Filled:
        """Fill the disk at once, except for at most `free_bytes`."""
        before = await self._disk.free_bytes()
        await self._fill_to(free_bytes)
        return await self._evidence(before)

    async def fill_slowly(self, bytes_per_s: int, free_bytes: int = 0) -> Filled:
        """Take space at `bytes_per_s` until at most `free_bytes` is free. May be cancelled."""
        before = free = await self._disk.free_bytes()
        while free - free_bytes >= SMALLEST_BYTES:
            step = max(SMALLEST_BYTES, int(bytes_per_s * STEP_S))
            if not await self._grow(min(free - free_bytes, step)):
                break  # the file system keeps the rest for metadata
            await asyncio.sleep(STEP_S)
            free = await self._disk.free_bytes()
        await self._fill_to(free_bytes)
        return await self._evidence(before)

    async def free(self) -> None:
        """Give the space back; does nothing if none was taken."""
        await self._disk.machine.run(["rm", "-f", self._ballast])

    async def _fill_to(self, free_bytes: int) -> None:
        """Grow the ballast in steps, because the file system itself needs some of the space. Halve a refused step."""
        step = self._disk.size_bytes
        while step >= SMALLEST_BYTES:
            wanted = await self._disk.free_bytes() - free_bytes
            if wanted < SMALLEST_BYTES:
                return
            if not await self._grow(min(step, wanted)):
                step = min(step, wanted) // 2

    async def _grow(self, by_bytes: int) -> bool:
        """Grow the ballast by `by_bytes`; return whether the file system had that much space."""
        machine = self._disk.machine
        size = await machine.run(
            ["sh", "-c", 'stat --format %s "$1" 2>/dev/null || echo 0', "sh", self._ballast]
        )
        argv = ["fallocate", "--offset", size.strip(), "--length", str(by_bytes), self._ballast]
        try:
            await machine.run(argv)
        except CommandFailed as error:
            if "No space left" not in error.stderr:
                raise
            return False
        return True

    async def _evidence(self, free_bytes_before: int) -> Filled:
        free_bytes = await self._disk.free_bytes()
        answer = await self._disk.machine.script(
            probe_script, self._disk.probe_file, free_bytes + MEBIBYTE
        )
        return Filled(
            free_bytes_before=free_bytes_before,
            free_bytes=free_bytes,
            error=answer["write"] or answer["fsync"],
        )
