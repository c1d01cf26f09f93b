"""A small real disk for a test, that goes with it; after a failure the fixture `machine` removes it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from staticfire.faults.linux.disks.loop_disk import MEBIBYTE, FileSystem, LoopDisk
from staticfire.faults.linux.machine import LinuxMachine

SIZE = {"ext4": 32 * MEBIBYTE, "xfs": 320 * MEBIBYTE}


@asynccontextmanager
async def new_disk(
    machine: LinuxMachine, folder: Path, file_system: FileSystem = "ext4"
) -> AsyncIterator[LoopDisk]:
    disk = LoopDisk(
        machine, f"{folder}/disk", size_bytes=SIZE[file_system], file_system=file_system
    )
    try:
        await disk.create()
        yield disk
    except (
        BaseException
    ) as error:  # a test that fails may still have files open: the fixture removes the disk
        error.add_note(f"the disk in {disk.folder} was left to the fixture")
        raise
    await disk.remove()
