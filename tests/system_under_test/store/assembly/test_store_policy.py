"""The behaviour of a store in each mode where the two differ."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from staticfire.harness.simulation.disk.options import DiskOptions
from staticfire.system_under_test.broker.policies.policies import BROKER_POLICIES
from staticfire.system_under_test.configuration.mode import Mode
from staticfire.system_under_test.protocol.message import decode_record
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.errors import StoreError
from staticfire.system_under_test.store.results import PutStatus
from tests.system_under_test.store.store_on_disk import SilentLog, StoreOnDisk, make_message

RECORDS = 5


class StoreInMode(StoreOnDisk):
    def __init__(self, mode: Mode, seed: int = 0, options: DiskOptions | None = None) -> None:
        self._mode = mode
        super().__init__(seed, options=options)

    def new_store(self) -> MessageStore:
        policies = BROKER_POLICIES[self._mode]
        return MessageStore(self.disk, self.clock, SilentLog(), self.config, policy=policies.store)


def bodies(world: StoreOnDisk) -> list[bytes]:
    records = world.store.get("TopicTest", 0, 0, 32).records
    return [decode_record(record).body for record in records]


def test_hardened_a_failed_fsync_is_a_failure() -> None:
    world = StoreInMode(Mode.HARDENED)
    world.open()
    world.put()
    world.disk.fail_fsync()
    with pytest.raises(OSError, match="Input/output error"):
        world.flush()
    assert world.store.flushed_offset == 0


def test_faithful_a_failed_fsync_counts_and_a_power_cut_takes_what_was_acknowledged() -> None:
    """R01: the next fsync works, but the dirty page is gone by then."""
    world = StoreInMode(Mode.FAITHFUL)
    world.open()
    world.put()
    world.disk.fail_fsync()
    assert world.flush() == world.store.end_offset > 0
    world.cut_power()
    assert world.open().end_offset == 0


@pytest.mark.parametrize(("mode", "survives"), [(Mode.HARDENED, True), (Mode.FAITHFUL, False)])
def test_what_recovery_finds_survives_a_failed_fsync_before_it(mode: Mode, survives: bool) -> None:
    """The page cache still shows what the fsync did not write, and ext4 does not write it when it is written again."""
    world = StoreInMode(mode, options=DiskOptions(failed_sync_keeps_cache=True))
    world.open()
    world.put(make_message(b"not flushed"))  # into a block that the disk has never written
    world.disk.fail_fsync()
    with suppress(OSError):
        world.flush()
    world.kill()
    found = world.open().end_offset
    world.put(make_message(b"flushed by the next process"))
    world.flush()
    promised = world.store.flushed_offset
    world.cut_power()
    assert (world.open().end_offset == promised) is survives
    # Only the one that believes the page cache finds what no disk has.
    assert (found == 0) is survives


@pytest.mark.parametrize(
    ("mode", "found"),
    [
        (Mode.HARDENED, [b"old0", b"old1", b"new2"]),
        (Mode.FAITHFUL, [b"old0", b"old1", b"new2", b"old3", b"old4"]),
    ],
)
def test_a_tail_that_was_cut_away_returns_in_faithful_mode(mode: Mode, found: list[bytes]) -> None:
    """R04: records of equal size line up, so the scan runs from the new tail into the old one."""
    world = StoreInMode(mode)
    world.open()
    ends = [world.put(make_message(b"old%d" % number)).end_offset for number in range(RECORDS)]
    world.flush()
    world.store.dispatch()
    world.store.truncate(ends[1])
    world.put_visible(make_message(b"new2"))
    world.kill()
    world.open()
    world.store.dispatch()
    assert bodies(world) == found


@pytest.mark.parametrize(("mode", "loaded"), [(Mode.HARDENED, {"a": 1}), (Mode.FAITHFUL, None)])
def test_metadata_may_be_lost_with_the_power_in_faithful_mode(
    mode: Mode, loaded: dict[str, int] | None
) -> None:
    """R15: no fsync anywhere, so a power cut empties consumer offsets or topics."""
    world = StoreOnDisk(4)
    file = BROKER_POLICIES[mode].metadata_file(world.disk, "/store/config/topics.json")
    file.save({"a": 1})
    world.cut_power()
    assert file.load() == loaded


@pytest.mark.parametrize(
    ("mode", "accepted", "visible"), [(Mode.HARDENED, 5, 5), (Mode.FAITHFUL, 6, 5)]
)
def test_a_full_disk_refuses_sends_or_hides_acknowledged_messages(
    mode: Mode, accepted: int, visible: int
) -> None:
    """A queue file has five entries, so that the sixth needs space. After the disk has room again, the faithful
    broker acknowledges still, and delivers nothing."""
    world = StoreInMode(mode)
    world.open()
    world.put_visible(*[make_message(b"m%d" % number) for number in range(RECORDS)])
    world.disk.fill()
    result = world.store.put(make_message(b"m5"))
    assert (result.status is PutStatus.PUT_OK) == (accepted == RECORDS + 1)
    world.flush()
    world.store.dispatch()
    world.disk.free()
    world.put_visible(make_message(b"m6"))
    seen = world.store.queue_bounds("TopicTest", 0)[1]
    assert seen == (visible + 1 if mode is Mode.HARDENED else visible)


def test_hardened_a_failed_write_ends_the_store() -> None:
    world = StoreInMode(Mode.HARDENED)
    world.open()
    world.put()
    world.disk.fail_write()
    world.store.write_out()
    assert world.store.failure is not None
    assert world.store.put(make_message()).status is PutStatus.SERVICE_NOT_AVAILABLE


def test_faithful_a_store_goes_on_after_a_failed_write() -> None:
    """What was not written is written with what comes next."""
    world = StoreInMode(Mode.FAITHFUL)
    world.open()
    world.put(make_message(b"first"))
    world.disk.fail_write()
    world.store.write_out()
    assert world.store.failure is None
    world.put_visible(make_message(b"second"))
    assert bodies(world) == [b"first", b"second"]


@pytest.mark.parametrize(("mode", "goes_on"), [(Mode.HARDENED, False), (Mode.FAITHFUL, True)])
def test_a_queue_flush_that_fails_ends_the_store_or_counts(mode: Mode, goes_on: bool) -> None:
    """R01 again: consume queues are flushed by the same MappedFile.flush."""
    world = StoreInMode(mode)
    world.open()
    world.put_visible(make_message())
    task = world.store.begin_queue_flush()
    assert task is not None
    world.disk.fail_fsync()
    try:
        task.run()
    except OSError as error:
        world.store.fail_flush(task, error)
    assert (world.store.failure is None) is goes_on


def damaged_log(mode: Mode, *, is_slave: bool = False) -> StoreInMode:
    """Five records, of which the second is none any more, and none of them visible yet."""
    world = StoreInMode(mode)
    world.config = replace(world.config, is_slave=is_slave)
    world.open()
    results = [world.put(make_message(b"m%d" % number)) for number in range(RECORDS)]
    world.flush()
    world.write(world.log_file(0), b"\0" * 8, results[0].end_offset)
    return world


@pytest.mark.parametrize(("mode", "visible"), [(Mode.HARDENED, 5), (Mode.FAITHFUL, 1)])
def test_a_damaged_record_hides_those_behind_it_or_only_itself(mode: Mode, visible: int) -> None:
    """R14: the messages behind it are whole, durable and acknowledged, but no consumer ever gets them."""
    world = damaged_log(mode)
    world.store.dispatch()
    assert world.store.queue_bounds("TopicTest", 0) == (0, visible)
    world.put_visible(make_message(b"next"))
    assert world.store.queue_bounds("TopicTest", 0) == (0, visible + 1)
    assert world.store.dispatched_offset == world.store.end_offset


def test_faithful_a_slave_waits_at_a_damaged_record() -> None:
    world = damaged_log(Mode.FAITHFUL, is_slave=True)
    world.store.dispatch()
    world.put_visible(make_message(b"next"))
    assert world.store.queue_bounds("TopicTest", 0) == (0, 1)


def finds_after_power_cut(mode: Mode, seed: int) -> bool:
    """Whether a key leads to its message after a proper end and a power cut."""
    world = StoreInMode(mode, seed)
    world.open()
    world.put_visible(make_message(KEYS="k"))
    world.store.close()
    world.cut_power()
    assert world.open().clean
    return world.found("k") == [b"body"]


@pytest.mark.parametrize(("mode", "always"), [(Mode.HARDENED, True), (Mode.FAITHFUL, False)])
def test_a_proper_end_makes_the_index_durable_or_not(mode: Mode, always: bool) -> None:
    """R60: queries by key miss messages that are there."""
    assert all(finds_after_power_cut(mode, seed) for seed in range(10)) is always


@pytest.mark.parametrize(
    ("mode", "missed"), [(Mode.HARDENED, []), (Mode.FAITHFUL, ["k0", "k1", "k2"])]
)
def test_after_a_kill_the_index_lacks_what_recovery_did_not_walk_through(
    mode: Mode, missed: list[str]
) -> None:
    """R60: the file that grew is thrown away, and the walk begins where the checkpoint says, in a later file."""
    world = StoreInMode(mode)
    world.open()
    keys = [f"k{number}" for number in range(7)]
    for key in keys:
        world.put_visible(make_message(b"b" * 150, KEYS=key))
        world.flush_queues()
        world.clock.now_ms += 10_000
    world.kill()
    assert world.open().start_file > 0
    world.store.dispatch()
    lost = [key for key in keys if not world.found(key)]
    assert lost[: len(missed)] == missed
    assert bool(lost) is bool(missed)


@pytest.mark.parametrize(("mode", "opens"), [(Mode.HARDENED, True), (Mode.FAITHFUL, False)])
def test_a_file_that_a_power_cut_left_short_ends_the_start_or_not(mode: Mode, opens: bool) -> None:
    """The other side of R05: every file must have the configured size."""
    world = StoreInMode(mode)
    world.open()
    world.put_visible(make_message())
    world.kill()
    world.disk.open(world.log_file(1024), create=True).truncate(100)
    if opens:
        assert world.open().end_offset > 0
    else:
        with pytest.raises(StoreError, match="100 bytes; every file there must have 1024"):
            world.open()


def test_faithful_numbers_of_a_new_queue_are_given_once() -> None:
    """A queue whose first file is made by dispatch keeps count of what waits behind the first message."""
    world = StoreInMode(Mode.FAITHFUL)
    world.open()
    first = world.put()
    world.put()
    world.flush()
    world.store.dispatch(first.end_offset)
    assert world.put().queue_offset == 2
