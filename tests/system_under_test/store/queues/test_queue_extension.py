"""The extension of consume queues: what it holds, and that no message is ever missed because of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from staticfire.system_under_test.protocol.message import decode_record, tags_code
from staticfire.system_under_test.store.queues.queue_extension import QueueExtension
from staticfire.system_under_test.store.record_filter import ExtensionUnit
from tests.system_under_test.store.store_on_disk import (
    QUEUE_FOLDER,
    START_MS,
    StoreOnDisk,
    make_message,
)

EXTENSION_FOLDER = "/store/consumequeue_ext/TopicTest/0"
BITS = bytes(range(14))
UNIT_SIZE = 34  # 20 and 14
UNITS_PER_FILE = 7  # of 256 bytes


def extended() -> StoreOnDisk:
    world = StoreOnDisk(log_file_size=1 << 13, extends_queues=True)
    begin(world)
    return world


def begin(world: StoreOnDisk) -> None:
    world.open()
    world.store.extend_with(lambda message: BITS)


def fill(world: StoreOnDisk, count: int) -> None:
    for number in range(count):
        tags = "even" if number % 2 == 0 else "uneven"
        world.put_visible(make_message(b"%d" % number, tags=tags))


def raw(world: StoreOnDisk, path: str, size: int = 1 << 20) -> bytes:
    file = world.disk.open(path)
    try:
        return file.pread(size, 0)
    finally:
        file.close()


def codes_in_file(world: StoreOnDisk) -> list[int]:
    data = raw(world, f"{QUEUE_FOLDER}/TopicTest/0/{0:020d}")
    return [int.from_bytes(data[at + 12 : at + 20], "big", signed=True) for at in range(0, 100, 20)]


def units(world: StoreOnDisk, count: int) -> list[ExtensionUnit | None]:
    found: list[ExtensionUnit | None] = []
    while len(found) < count:
        entries = world.store.queue_view.entries("TopicTest", 0, len(found), count)
        found += world.store.queue_view.extension_units("TopicTest", 0, len(found), len(entries))
    return found


def check_readable(world: StoreOnDisk, count: int) -> None:
    """Everything is there, with its tag."""
    bodies: list[bytes] = []
    codes: Sequence[int]
    offset, uneven = 0, frozenset({tags_code("uneven")})
    while offset < count:
        answer = world.store.get("TopicTest", 0, offset, 32, uneven)
        bodies += [decode_record(record).body for record in answer.records]
        offset = answer.next_offset
    assert bodies == [b"%d" % number for number in range(1, count, 2)]
    codes = [
        entry.tags_code
        for at in range(count)
        for entry in world.store.queue_view.entries("TopicTest", 0, at, 1)
    ]
    assert codes == [tags_code("uneven" if at % 2 else "even") for at in range(count)]


def test_entries_lead_to_units() -> None:
    world = extended()
    fill(world, 3)
    assert codes_in_file(world)[:3] == [-(1 << 63) + UNIT_SIZE * number for number in range(3)]
    expected = (
        (20 + 14).to_bytes(2, "big")
        + tags_code("even").to_bytes(8, "big", signed=True)
        + START_MS.to_bytes(8, "big")
        + (14).to_bytes(2, "big")
        + BITS
    )
    assert raw(world, f"{EXTENSION_FOLDER}/{0:020d}")[:UNIT_SIZE] == expected
    assert units(world, 3)[1] == ExtensionUnit(tags_code("uneven"), START_MS, BITS)
    check_readable(world, 3)


def test_a_file_ends_with_a_size_of_minus_one() -> None:
    world = extended()
    fill(world, UNITS_PER_FILE + 2)
    first = raw(world, f"{EXTENSION_FOLDER}/{0:020d}")
    assert first[UNIT_SIZE * UNITS_PER_FILE :][:2] == b"\xff\xff"
    assert raw(world, f"{EXTENSION_FOLDER}/{256:020d}")[:2] == b"\0\x22"
    check_readable(world, UNITS_PER_FILE + 2)
    assert None not in units(world, UNITS_PER_FILE + 2)


def test_a_proper_end_keeps_the_units_and_goes_on_behind_them() -> None:
    world = extended()
    fill(world, 5)
    before = codes_in_file(world)
    world.store.close()
    begin(world)
    assert codes_in_file(world) == before
    for number in range(5, 9):
        world.put_visible(make_message(b"%d" % number, tags="uneven" if number % 2 else "even"))
    check_readable(world, 9)
    assert None not in units(world, 9)


def test_units_of_several_queue_files_are_not_written_over() -> None:
    world = extended()
    fill(world, 14)  # a queue file holds five entries
    world.store.close()
    begin(world)
    for number in range(14, 18):
        world.put_visible(make_message(b"%d" % number, tags="uneven" if number % 2 else "even"))
    check_readable(world, 18)


@pytest.mark.parametrize("end", [StoreOnDisk.kill, StoreOnDisk.cut_power])
@pytest.mark.parametrize("flushes", [False, True])
def test_after_an_unclean_end_the_records_say_what_units_may_not(
    end: Callable[[StoreOnDisk], None], flushes: bool
) -> None:
    for seed in range(20):
        world = StoreOnDisk(seed, log_file_size=1 << 13, extends_queues=True)
        begin(world)
        fill(world, 9)
        if flushes:
            world.flush_queues()
        end(world)
        begin(world)
        check_readable(world, 9)
        for number in range(9, 12):
            world.put_visible(make_message(b"%d" % number, tags="uneven" if number % 2 else "even"))
        check_readable(world, 12)
        found = units(world, 12)
        assert None not in found[9:]
        assert all(unit is None or unit.bit_map == BITS for unit in found)


def test_units_that_are_gone_are_not_missed() -> None:
    world = extended()
    fill(world, 3)
    world.store.close()
    world.disk.unlink(f"{EXTENSION_FOLDER}/{0:020d}")
    begin(world)
    check_readable(world, 3)
    assert units(world, 3) == [None] * 3
    world.put_visible(make_message(b"3", tags="uneven"))  # must not be taken for the first
    check_readable(world, 4)
    assert units(world, 4)[:3] == [None] * 3


def test_a_store_that_is_no_longer_extended_reads_what_there_is() -> None:
    world = extended()
    fill(world, 3)
    world.store.close()
    world.config.extends_queues = False
    begin(world)
    world.put_visible(make_message(b"3", tags="uneven"))
    check_readable(world, 4)
    assert units(world, 4)[3] is None
    assert None not in units(world, 4)[:3]


def test_without_the_option_there_is_no_extension() -> None:
    world = StoreOnDisk()
    begin(world)
    fill(world, 3)
    assert codes_in_file(world)[0] == tags_code("even")
    assert not world.disk.exists("/store/consumequeue_ext")
    assert world.store.queue_view.extension_units("TopicTest", 0, 0, 3) == []


@pytest.mark.needs_sources
def test_a_full_disk_costs_units_and_no_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    world = extended()
    fill(world, UNITS_PER_FILE)
    monkeypatch.setattr(QueueExtension, "_make_files", _refuse)
    world.put_visible(make_message(b"7", tags="uneven"))
    check_readable(world, 8)
    assert units(world, 8)[7] is None


def _refuse(_extension: QueueExtension) -> None:
    raise OSError(28, "No space left on device")


def test_files_that_no_entry_leads_to_go_with_the_old_messages() -> None:
    world = extended()
    fill(world, 3 * UNITS_PER_FILE)
    queue = world.store._queues.get("TopicTest", 0)
    assert queue is not None
    assert queue.extension is not None
    assert len(queue.extension.files.files) == 3
    queue.min_offset = UNITS_PER_FILE
    for removal in world.store.retention.clean_queues():
        removal.run()
    queue.min_offset = UNITS_PER_FILE
    assert [file.base for file in queue.extension.files.files] == [256, 512]
    assert not world.disk.exists(f"{EXTENSION_FOLDER}/{0:020d}")
