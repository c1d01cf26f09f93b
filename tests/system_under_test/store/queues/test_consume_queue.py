"""A consume queue whose file looks whole and is not: there is no block behind some of its bytes."""

from __future__ import annotations

from random import Random

import pytest

from staticfire.harness.simulation.disk.disk import SimDisk
from staticfire.system_under_test.store.errors import NoSpace
from staticfire.system_under_test.store.queues.consume_queue import ENTRY, ConsumeQueue

FILE_SIZE = 8_000  # two blocks of the disk
ROOT = "/store/consumequeue"


def test_entries_without_a_block_wait_until_there_is_space() -> None:
    disk = SimDisk(random=Random(1), now_ns=lambda: 0, charge=lambda cost_ns: None)
    queue = ConsumeQueue(disk, ROOT, "T", 0, FILE_SIZE)
    queue.reserve()
    disk.open(f"{ROOT}/T/0/{0:020d}").truncate(0)
    disk.open(f"{ROOT}/T/0/{0:020d}").truncate(FILE_SIZE)  # full size, no blocks
    disk.fill()
    entry = ENTRY.pack(0, 100, 7)

    with pytest.raises(NoSpace, match="no space for entries"):
        queue.append(entry)
    assert queue.max_offset == 0

    disk.free()
    queue.append(entry)
    assert [(read.physical_offset, read.size) for read in queue.read(0, 2)] == [(0, 100)]
