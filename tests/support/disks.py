"""Simulated disks for tests: time stands still and costs are added up."""

from __future__ import annotations

from random import Random

from staticfire.harness.simulation.disk.disk import DiskOptions, SimDisk, SimFile


class CountedCost:
    """A `charge` callback that remembers."""

    def __init__(self) -> None:
        self.total_ns = 0
        self.last_ns = 0

    def __call__(self, cost_ns: int) -> None:
        self.total_ns += cost_ns
        self.last_ns = cost_ns


def make_disk(seed: object = 0, *, options: DiskOptions | None = None) -> SimDisk:
    """A disk at time 0 with the durable folder /d."""
    random = Random(f"disk {seed}")
    disk = SimDisk(random=random, now_ns=lambda: 0, charge=lambda ns: None, options=options)
    disk.makedirs("/d")
    disk.fsync_dir("/")
    return disk


def durable_file(disk: SimDisk, path: str = "/d/f", data: bytes = b"") -> SimFile:
    """A new file whose name and content no power cut can take."""
    file = disk.open(path, create=True)
    file.pwrite(data, 0)
    file.fsync()
    disk.fsync_dir(path.rpartition("/")[0])
    return file


def restart(disk: SimDisk) -> None:
    """Cut the power and bring it back."""
    disk.power_cut()
    disk.power_on()


def replace_folder(source: SimDisk, target: SimDisk, folder: str) -> None:
    """Put the files of a folder of one disk in the place of those of another, durably."""
    for path in target.snapshot():
        if path.startswith(f"{folder}/"):
            target.unlink(path)
    for path, data in source.snapshot().items():
        if path.startswith(f"{folder}/"):
            file = target.open(path, create=True)
            file.pwrite(data, 0)
            file.fsync()
            file.close()
    target.fsync_dir(folder)
