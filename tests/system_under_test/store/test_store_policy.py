"""What a store does in each mode where the two differ."""

from __future__ import annotations

import pytest

from system_under_test.mode import Mode
from system_under_test.policies import BROKER_POLICIES
from system_under_test.protocol.message import decode_record
from system_under_test.store.message_store import MessageStore, PutStatus
from tests.system_under_test.store.store_on_disk import SilentLog, StoreOnDisk, make_message

RECORDS = 5


class StoreInMode(StoreOnDisk):
    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        super().__init__()

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
def test_a_full_disk_refuses_sends_or_makes_a_broker_that_nobody_hears(
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
