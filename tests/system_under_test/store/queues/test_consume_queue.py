"""One consume queue: blocks that its file lacks, and when its first file is of no more use."""

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
    queue.reserve_up_to(queue.next_offset + 1)
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


@pytest.mark.parametrize(
    ("min_offset", "log_begins_at", "is_below"),
    [
        (0, 0, False),
        (0, 1_900, False),  # the last record of the file lies there
        (0, 1_901, True),
        (19, 0, False),
        (20, 0, True),  # all entries of the file are hidden
    ],
)
def test_the_first_file_goes_when_nothing_in_it_can_be_read(
    min_offset: int, log_begins_at: int, is_below: bool
) -> None:
    disk = SimDisk(random=Random(1), now_ns=lambda: 0, charge=lambda cost_ns: None)
    queue = ConsumeQueue(disk, ROOT, "T", 0, 20 * ENTRY.size)
    for number in range(30):
        queue.reserve_up_to(queue.next_offset + 1)
        queue.append(ENTRY.pack(100 * number, 100, 0))
    queue.min_offset = min_offset
    assert queue.is_first_file_below(log_begins_at) is is_below


@pytest.mark.parametrize(
    ("lost_from", "read_from", "found"),
    [
        (5 * ENTRY.size, 0, [0, 100, 200, 300]),  # entry 4 may have lost its last bytes
        (5 * ENTRY.size - 3, 0, [0, 100, 200, 300]),
        (5 * ENTRY.size, 4, []),
        (5 * ENTRY.size, 6, []),
        (0, 0, []),
    ],
)
def test_reading_ends_before_entries_that_the_disk_has_lost(
    lost_from: int, read_from: int, found: list[int]
) -> None:
    disk = SimDisk(random=Random(1), now_ns=lambda: 0, charge=lambda cost_ns: None)
    queue = ConsumeQueue(disk, ROOT, "T", 0, FILE_SIZE)
    for number in range(10):
        queue.reserve_up_to(queue.next_offset + 1)
        queue.append(ENTRY.pack(100 * number, 100, 7))
    disk.open(f"{ROOT}/T/0/{0:020d}").pwrite(bytes(8 * ENTRY.size - lost_from), lost_from)

    assert [entry.physical_offset for entry in queue.read(read_from, 10)] == found
    assert queue.has_file(read_from)
    assert [entry.physical_offset for entry in queue.read(8, 10)] == [800, 900]
