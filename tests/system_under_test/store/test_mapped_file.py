"""A sequence of files: what of it a power cut may take."""

from __future__ import annotations

from random import Random

from staticfire.harness.simulation.disk.disk import SimDisk
from staticfire.system_under_test.store.mapped_file import MappedFileQueue

FOLDER, FILE_SIZE = "/store/commitlog", 4096
FIRST = f"{FOLDER}/{0:020d}"


def test_a_file_that_a_killed_process_made_is_synced_before_it_is_used() -> None:
    """It is in the page cache, with its full size: nothing shows that a power cut would take it."""
    now_ns = 0

    def charge(cost_ns: int) -> None:
        nonlocal now_ns
        now_ns += cost_ns

    disk = SimDisk(random=Random(1), now_ns=lambda: now_ns, charge=charge)
    MappedFileQueue(disk, FOLDER, FILE_SIZE, parents=("/store", "/")).create_next(0)
    assert not disk.is_durable(FIRST, 0, FILE_SIZE)
    again = MappedFileQueue(disk, FOLDER, FILE_SIZE, parents=("/store", "/"))
    again.load()
    again.sync_new_files()
    assert disk.is_durable(FIRST, 0, FILE_SIZE)
