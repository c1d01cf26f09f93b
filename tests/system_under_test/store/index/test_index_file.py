"""One index file: what a cut and a repair leave of it."""

from __future__ import annotations

from random import Random

from staticfire.harness.simulation.disk.disk import SimDisk
from staticfire.system_under_test.store.index.index_file import IndexFile
from staticfire.system_under_test.store.index.index_layout import INDEX_ENTRY_SIZE, IndexLayout
from staticfire.system_under_test.store.index.message_index import MessageIndex
from tests.system_under_test.store.store_on_disk import ScriptedClock

FOLDER = "/store/index"
LAYOUT = IndexLayout(slots=3, numbers=10)
TIMES = {100: 5_000, 200: 6_000, 300: 8_000}  # physical offset: store time in ms
KEYS = [(number, offset, time_ms) for number, (offset, time_ms) in enumerate(TIMES.items(), 1)]


def make_disk() -> SimDisk:
    disk = SimDisk(random=Random(1), now_ns=lambda: 0, charge=lambda cost_ns: None)
    disk.makedirs(FOLDER)
    return disk


def make_file(disk: SimDisk) -> IndexFile:
    """Three keys, of which nothing is written yet."""
    file = IndexFile(disk, f"{FOLDER}/20231114221320000", LAYOUT)
    file.create()
    file.add(KEYS)
    return file


def test_after_a_cut_the_header_speaks_of_the_last_entry_that_stays() -> None:
    file = make_file(make_disk())
    file.cut(200, TIMES.__getitem__)
    header = file.header
    assert (header.next_number, header.used_slots) == (2, 1)
    assert (header.begin_offset, header.end_offset) == (100, 100)
    assert (header.begin_ms, header.end_ms) == (5_000, 5_000)


def test_a_repair_leaves_zeros_behind_the_entries_that_stay() -> None:
    disk = make_disk()
    make_file(disk).freeze()
    again = IndexFile(disk, f"{FOLDER}/20231114221320000", LAYOUT)
    assert again.load()
    again.rebuild_slots(200, TIMES.__getitem__)
    assert again.header.next_number == 2
    assert (again.header.begin_ms, again.header.end_ms) == (5_000, 5_000)
    assert again.is_dirty
    assert again.room == 0
    behind = again.file.pread(LAYOUT.file_size, LAYOUT.position_of(2))
    assert behind == bytes(8 * INDEX_ENTRY_SIZE)


def test_slots_that_only_a_close_writes_make_a_flush_sync_nothing() -> None:
    index = MessageIndex(make_disk(), ScriptedClock(), FOLDER, LAYOUT)
    index.make_room(len(KEYS))
    index.add(KEYS)
    assert index.write_out() == index.files
    assert index.write_out() == []
    assert index.write_out(closing=True) == index.files
    assert index.write_out(closing=True) == []
