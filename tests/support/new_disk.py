"""A small real disk for a test, that goes with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from faults.linux.loop_disk import MEBIBYTE, FileSystem, LoopDisk
from faults.linux.machine import Machine

SIZE = {"ext4": 32 * MEBIBYTE, "xfs": 320 * MEBIBYTE}


@asynccontextmanager
async def new_disk(
    machine: Machine, folder: Path, file_system: FileSystem = "ext4"
) -> AsyncIterator[LoopDisk]:
    disk = LoopDisk(
        machine, f"{folder}/disk", size_bytes=SIZE[file_system], file_system=file_system
    )
    try:
        await disk.create()
        yield disk
    finally:
        await disk.remove()
