"""Recovery of records that the disk has changed: kept where they were durable, cut where they are torn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from staticfire.system_under_test.store.assembly.store_policy import HARDENED_STORE
from staticfire.system_under_test.store.errors import StoreError
from staticfire.system_under_test.store.mapped_file import MappedFileQueue
from staticfire.system_under_test.store.reading.reading import GetStatus
from tests.system_under_test.store.store_on_disk import (
    QUEUE_FOLDER,
    StoreOnDisk,
    make_message,
)

COUNT = 12
LAST = COUNT - 1
BODY_AT = 88
SIZE_AT = 0
PLACE_AT = 28  # the physical offset
MAGIC_AT = 4
QUEUE_ID_AT = 15
QUEUE_OFFSET_AT = 27
TOPIC_AT = BODY_AT + 8 + 1  # behind the body, and a byte for its own length
BODY_LENGTH_AT = 87


def body(number: int) -> bytes:
    return b"body %02d" % number


class Damaged(StoreOnDisk):
    """Twelve messages in two log files, all flushed and visible; `starts` says where they lie."""

    def __init__(self, index_numbers: int = 20) -> None:
        super().__init__(index_numbers=index_numbers)
        self.open()
        self.starts: list[int] = []
        for number in range(COUNT):
            self.clock.now_ms += 1000
            self.put_numbered(number)
        self.flush()
        self.store.dispatch()

    def put_numbered(self, number: int) -> None:
        result = self.put(make_message(body(number), KEYS=f"k{number}"))
        self.starts.append(result.physical_offset)

    def rot(self, number: int, at: int) -> None:
        """Change one bit of a record."""
        start = self.starts[number] + at
        self.disk.flip_bit(
            self.log_file(start - start % 1024), within=(start % 1024, start % 1024 + 1)
        )

    def readable(self) -> list[bytes]:
        """The messages of the queue, of which the damaged ones are passed over."""
        self.store.when_damaged(self.store.give_up)
        self.store.get("TopicTest", 0, 0, 32)
        return self.bodies_passing_damage()

    def bodies_passing_damage(self) -> list[bytes]:
        found: list[bytes] = []
        offset = 0
        for _ in range(3 * COUNT):
            answer = self.store.get("TopicTest", 0, offset, 32)
            found += [record[BODY_AT : BODY_AT + len(body(0))] for record in answer.records]
            offset = answer.next_offset
        return found


def all_but(*lost: int) -> list[bytes]:
    return [body(number) for number in range(COUNT) if number not in lost]


def stop(world: StoreOnDisk) -> None:
    world.store.close()


def kill(world: StoreOnDisk) -> None:
    world.kill()


def cut_power(world: StoreOnDisk) -> None:
    world.flush_queues()
    world.cut_power()


@pytest.mark.parametrize("entries", [COUNT + 1, COUNT, 1])
def test_the_index_keeps_the_last_message_while_it_is_damaged(entries: int) -> None:
    """Only a record that is sound can be indexed again: an index that was thrown away would never get its key back."""
    world = Damaged(index_numbers=entries + 1)
    record = world.store.look_up(world.starts[-1])
    assert record is not None
    stop(world)
    world.rot(COUNT - 1, MAGIC_AT)
    world.open()
    assert world.store.mend_record(world.starts[-1], record)
    world.put_visible(make_message(b"next", KEYS="next"))
    stop(world)
    world.open()
    assert world.found(f"k{COUNT - 1}") == [body(COUNT - 1)]


@pytest.fixture
def world() -> Damaged:
    return Damaged()


@pytest.mark.parametrize("end", [stop, kill, cut_power])
@pytest.mark.parametrize("at", [BODY_AT, SIZE_AT, SIZE_AT + 3, PLACE_AT])
@pytest.mark.parametrize("number", [0, 3, COUNT - 1])
def test_a_damaged_record_does_not_end_the_log(
    world: Damaged, end: Callable[[StoreOnDisk], None], at: int, number: int
) -> None:
    log_end = world.store.end_offset
    end(world)
    world.rot(number, at)
    report = world.open()
    assert (report.end_offset, report.cut_bytes) == (log_end, 0)
    is_walked = report.start_file <= world.starts[number]
    assert report.damaged == (world.starts[number],) * is_walked
    assert world.store.queue_bounds("TopicTest", 0) == (0, COUNT)
    assert world.readable() == all_but(number)


@pytest.mark.parametrize("end", [stop, kill])
@pytest.mark.parametrize("number", [0, 3, COUNT - 1])
@pytest.mark.parametrize(
    "at", [QUEUE_ID_AT, QUEUE_OFFSET_AT - 3, QUEUE_OFFSET_AT, TOPIC_AT, TOPIC_AT + 4]
)
def test_a_queue_entry_tells_where_a_record_belongs(
    world: Damaged, at: int, number: int, end: Callable[[StoreOnDisk], None]
) -> None:
    """Its body is sound, and its header, which has no checksum, names another place."""
    end(world)
    world.rot(number, at)
    report = world.open()
    is_walked = report.start_file <= world.starts[number]
    assert report.damaged == (world.starts[number],) * is_walked
    assert world.store.queue_bounds("TopicTest", 0) == (0, COUNT)
    assert world.bodies() == all_but()
    assert list(world.store.queue_view.list_keys()) == [("TopicTest", 0)]


def test_two_damaged_neighbours(world: Damaged) -> None:
    world.kill()
    world.rot(3, SIZE_AT)
    world.rot(4, SIZE_AT)
    assert world.open().damaged == (world.starts[3], world.starts[4])
    assert world.readable() == all_but(3, 4)


@pytest.mark.parametrize("at", [BODY_AT, SIZE_AT, PLACE_AT])
def test_the_copy_of_a_replica_mends_what_recovery_has_kept(world: Damaged, at: int) -> None:
    copy = world.store.look_up(world.starts[3])
    other = world.store.look_up(world.starts[4])
    world.kill()
    world.rot(3, at)
    world.open()
    assert world.store.get("TopicTest", 0, 3, 1).status is GetStatus.RECORD_DAMAGED
    assert not world.store.mend_record(world.starts[3], other or b"")
    assert world.store.mend_record(world.starts[3], copy or b"")
    assert world.bodies() == all_but()


def test_a_second_recovery_finds_the_same(world: Damaged) -> None:
    world.kill()
    world.rot(LAST, BODY_AT)
    first = world.open()
    world.put_visible(make_message(b"body 12"))
    world.kill()
    second = world.open()
    assert first.damaged == second.damaged == (world.starts[LAST],)
    assert world.readable() == [*all_but(LAST), b"body 12"]


def test_damage_between_two_power_cuts_does_not_end_the_log() -> None:
    """The second one comes before any flush of the queues but that of the recovery."""
    world = Damaged()
    world.cut_power()
    world.open()
    world.cut_power()
    world.rot(LAST, BODY_AT)
    report = world.open()
    assert (report.cut_bytes, report.damaged) == (0, (world.starts[LAST],))
    assert world.readable() == all_but(LAST)


def test_a_torn_record_that_was_never_durable_is_cut_with_what_follows(world: Damaged) -> None:
    """A power cut keeps sectors in any order: sound records may lie behind the torn one."""
    end = world.store.end_offset
    for number in range(COUNT, COUNT + 3):
        world.put_numbered(number)
    world.store.write_out()
    world.kill()
    start = world.starts[COUNT]
    world.write(world.log_file(start - start % 1024), b"\0\0", start % 1024 + BODY_AT)
    report = world.open()
    assert (report.end_offset, report.damaged) == (end, ())
    assert report.cut_bytes > 0
    assert world.bodies() == all_but()


def test_damage_below_a_torn_tail(world: Damaged) -> None:
    end = world.store.end_offset
    world.put_numbered(COUNT)
    world.store.write_out()
    world.kill()
    start = world.starts[COUNT]
    world.write(world.log_file(start - start % 1024), b"\0\0", start % 1024 + BODY_AT)
    world.rot(3, BODY_AT)
    report = world.open()
    assert (report.end_offset, report.damaged) == (end, (world.starts[3],))
    assert world.readable() == all_but(3)


def remove_queues(world: StoreOnDisk) -> None:
    for name in world.files(QUEUE_FOLDER):
        world.disk.unlink(f"{QUEUE_FOLDER}/{name}")


@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_without_queues_the_checkpoint_proves_what_was_durable(
    world: Damaged, has_checkpoint: bool
) -> None:
    if has_checkpoint:
        world.flush_queues()
    world.kill()
    remove_queues(world)
    world.rot(3, BODY_AT)
    report = world.open()
    assert report.damaged == ((world.starts[3],) if has_checkpoint else ())
    assert world.store.queue_bounds("TopicTest", 0) == (0, COUNT if has_checkpoint else 3)


@pytest.mark.parametrize(
    ("at", "lost"),
    [
        # the rest of the header tells what the record was
        (SIZE_AT + 3, (3,)),
        (MAGIC_AT, (3,)),
        (PLACE_AT + 7, (3,)),
        # a message of no known queue gets the place that is missing
        (BODY_LENGTH_AT, (3,)),
        (TOPIC_AT, ()),
    ],
)
def test_without_queues_the_place_of_a_damaged_record_is_found(
    world: Damaged, at: int, lost: tuple[int, ...]
) -> None:
    world.flush_queues()
    world.kill()
    remove_queues(world)
    world.rot(3, at)
    report = world.open()
    assert report.damaged == (world.starts[3],)
    assert world.store.queue_bounds("TopicTest", 0) == (0, COUNT)
    assert world.readable() == all_but(*lost)


def test_without_queues_a_gap_that_no_damage_explains_is_refused(world: Damaged) -> None:
    world.flush_queues()
    world.kill()
    remove_queues(world)
    world.rot(3, QUEUE_OFFSET_AT - 3)
    with pytest.raises(StoreError, match="has no message 3"):
        world.open()


def test_stale_records_behind_a_new_tail_prove_nothing() -> None:
    """As RocketMQ leaves them: what was cut is still in the file, and the new tail does not end where one begins."""
    world = Damaged()
    world.flush_queues()
    world.policy = replace(HARDENED_STORE, cut_log=MappedFileQueue.remove_from)
    world.kill()
    world.open()
    world.store.truncate(world.starts[3])
    world.clock.now_ms += 60_000
    world.put_visible(make_message(b"longer than the record that it replaces", KEYS="new"))
    world.flush_queues()
    end = world.store.end_offset
    world.kill()
    report = world.open()
    assert (report.end_offset, report.damaged) == (end, ())
    assert world.store.queue_bounds("TopicTest", 0) == (0, 4)


def test_a_quiet_queue_keeps_entries_behind_a_damaged_record() -> None:
    """No record of it lies in the part that recovery walks through, so its end is searched for."""
    world = Damaged()
    for number in range(40):
        world.put_visible(make_message(b"other %02d" % number, queue_id=1))
    world.store.close()
    for number in range(COUNT):
        world.rot(number, BODY_AT)
    world.open()
    assert world.store.queue_bounds("TopicTest", 0) == (0, COUNT)


def test_without_keeps_damaged_the_log_ends_at_the_first_bad_checksum() -> None:
    """As in RocketMQ: what follows is gone, though it was durable and acknowledged."""
    world = Damaged()
    world.policy = replace(HARDENED_STORE, keeps_damaged=False)
    world.kill()
    world.rot(3, BODY_AT)
    report = world.open()
    assert (report.end_offset, report.bad_checksum, report.damaged) == (world.starts[3], True, ())
    assert world.bodies() == [body(0), body(1), body(2)]
