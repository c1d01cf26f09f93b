"""Power loss of a node with a `LoopDisk`: data that was not fsynced is lost, and its size is measured.

cut = await cut_power(disk)      # the node's processes are stopped (SIGSTOP)
...                              # kill them (SIGKILL)
loss = await cut.come_back()     # the disk is mounted again; start the node
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from staticfire.faults.linux.disks.loop_disk import LoopDisk
from staticfire.faults.linux.on_node import fingerprint as fingerprint_script

FINGERPRINT_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLoss:
    """The data that the files held before the cut and do not hold after it, counted in blocks of 4096 bytes."""

    lost_bytes: int
    files_changed: tuple[str, ...]  # paths in the disk's data folder
    files_gone: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        return {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self).items()}


class PowerCut:
    """The time between a power cut and the return of power."""

    def __init__(self, disk: LoopDisk) -> None:
        self._disk = disk

    async def come_back(self) -> PowerLoss:
        """Mount the disk again and measure the loss. The node's processes must be dead.

        Raises DiskError while a process still uses the disk, CommandFailed if its file system cannot be mounted.
        """
        disk = self._disk
        await disk.unmount()
        await disk.mount()
        found = await disk.machine.script(
            fingerprint_script,
            "compare",
            disk.data_folder,
            disk.fingerprint_file,
            timeout_s=FINGERPRINT_TIMEOUT_S,
        )
        return PowerLoss(
            lost_bytes=found["lost_bytes"],
            files_changed=tuple(found["files_changed"]),
            files_gone=tuple(found["files_gone"]),
        )


async def cut_power(disk: LoopDisk) -> PowerCut:
    """Cut the power of the disk at once. No process may write meanwhile, so stop the processes first."""
    await disk.machine.script(
        fingerprint_script,
        "take",
        disk.data_folder,
        disk.fingerprint_file,
        timeout_s=FINGERPRINT_TIMEOUT_S,
    )
    await disk.shut_down()
    return PowerCut(disk)
