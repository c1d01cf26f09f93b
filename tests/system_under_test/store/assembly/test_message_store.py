"""The store as its broker sees it: what is accepted, what is durable, what is visible, and when it refuses."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from staticfire.harness.simulation.disk.disk import SimDisk
from staticfire.system_under_test.protocol.message import decode_record
from staticfire.system_under_test.store.appending.config import StoreConfig
from staticfire.system_under_test.store.errors import StoreError, StoreLocked
from staticfire.system_under_test.store.reading.reading import GetStatus
from staticfire.system_under_test.store.results import PutStatus
from tests.system_under_test.store.store_on_disk import ROOT, START_MS, StoreOnDisk, make_message


@pytest.fixture
def world() -> StoreOnDisk:
    world = StoreOnDisk()
    world.open()
    return world


# --- flush and visibility ---------------------------------------------------------------------------------------------


def test_a_message_is_visible_only_after_its_flush(world: StoreOnDisk) -> None:
    world.put()
    assert world.store.dispatch() == []
    assert world.store.get("TopicTest", 0, 0, 32).status is GetStatus.NO_MESSAGE_IN_QUEUE
    world.flush()
    (visible,) = world.store.dispatch()
    assert (visible.topic, visible.queue_id, visible.queue_offset) == ("TopicTest", 0, 0)
    assert visible.tags_code == 2598919
    assert world.bodies() == [b"body"]


def test_a_flush_vouches_only_for_what_was_there_when_it_began(world: StoreOnDisk) -> None:
    first = world.put()
    task = world.store.begin_flush()
    assert task is not None
    world.put()
    task.run()
    assert world.store.finish_flush(task) == first.end_offset
    assert len(world.store.dispatch()) == 1


def test_nothing_to_flush(world: StoreOnDisk) -> None:
    assert world.store.begin_flush() is None
    world.put()
    world.flush()
    assert world.store.begin_flush() is None


def test_dispatch_can_be_held_back(world: StoreOnDisk) -> None:
    first, second = world.put(), world.put()
    world.flush()
    assert len(world.store.dispatch(second.end_offset - 1)) == 1
    assert world.store.dispatched_offset == first.end_offset
    assert len(world.store.dispatch()) == 1


def test_an_async_put_survives_the_process() -> None:
    world = StoreOnDisk(sync_flush=False)
    world.open()
    result = world.put()
    world.kill()
    assert world.open().end_offset == result.end_offset


def test_a_flushed_put_survives_a_power_cut(world: StoreOnDisk) -> None:
    flushed = world.put()
    world.flush()
    world.cut_power()
    assert world.open().end_offset == flushed.end_offset
    assert world.bodies() == [b"body"]


def test_store_time_never_goes_back(world: StoreOnDisk) -> None:
    world.put()
    world.clock.now_ms -= 60_000
    assert world.put().store_timestamp_ms == START_MS
    world.flush()
    world.kill()
    world.open()
    assert world.put().store_timestamp_ms == START_MS


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (make_message(topic="t" * 128), "1 to 127 characters"),
        (make_message(topic=""), "1 to 127 characters"),
        (make_message(topic="../escape"), "allowed"),
        (make_message(topic="zero\0"), "allowed"),
        (make_message(queue_id=-1), "queue id is -1"),
        (make_message(key="a\0b"), "control character; not allowed: 0x00, 0x01, 0x02"),
        (make_message(key="a\x01b"), "control character; not allowed: 0x00, 0x01, 0x02"),
        (
            make_message(
                b"body", queue_id=0, topic="TopicTest", tags="TagA", **{"a\x02b": "value"}
            ),
            "control character; not allowed: 0x00, 0x01, 0x02",
        ),
        (make_message(key="v" * 32_768), "properties"),
        (make_message(b"b" * 1024), "record has"),
        (make_message(b"b" * ((4 << 20) + 1)), "message_size_max"),
    ],
)
def test_an_illegal_message_is_refused(world: StoreOnDisk, message: object, reason: str) -> None:
    result = world.store.put(message)  # type: ignore[arg-type]
    assert result.status is PutStatus.MESSAGE_ILLEGAL
    assert reason in result.reason
    assert world.store.end_offset == 0
    assert world.put().queue_offset == 0


def test_the_largest_record_leaves_room_for_the_blank(world: StoreOnDisk) -> None:
    overhead = world.put(make_message(b"")).size_bytes
    assert world.put(make_message(b"b" * (1024 - 8 - overhead))).physical_offset == 1024
    refused = world.store.put(make_message(b"b" * (1024 - 7 - overhead)))
    assert refused.status is PutStatus.MESSAGE_ILLEGAL


def test_a_full_disk_refuses_and_recovers(world: StoreOnDisk) -> None:
    world.put()
    world.disk.fill(free_bytes=0)
    accepted = 1
    while (result := world.store.put(make_message())).status is PutStatus.PUT_OK:
        accepted += 1
    assert result.status is PutStatus.SERVICE_NOT_AVAILABLE
    assert "the broker's disk is full" in result.reason
    assert world.store.failure is None
    world.disk.free()
    assert world.put().queue_offset == accepted
    world.flush()
    world.store.dispatch()
    assert len(world.bodies()) == accepted + 1


def test_a_full_disk_leaves_room_for_every_entry_of_an_accepted_put() -> None:
    world = StoreOnDisk(log_file_size=1 << 16, queue_file_size=60)
    world.open()
    world.put()
    world.disk.fill(free_bytes=0)
    accepted = 1
    while world.store.put(make_message()).status is PutStatus.PUT_OK:
        accepted += 1
    world.flush()
    assert len(world.store.dispatch()) == accepted
    assert world.store.failure is None


@pytest.mark.parametrize("fault", ["write", "fsync"])
def test_a_failed_disk_stops_the_store_for_good(world: StoreOnDisk, fault: str) -> None:
    kept = world.put()
    world.flush()
    world.put()
    if fault == "write":
        world.disk.fail_write()
    else:
        world.disk.fail_fsync()
    task = world.store.begin_flush()
    assert task is not None
    with pytest.raises(OSError, match=r"\[Errno 5\]") as caught:
        task.run()
    world.store.fail_flush(task, caught.value)
    world.disk.heal()
    assert world.store.flushed_offset == kept.end_offset
    assert world.store.put(make_message()).status is PutStatus.SERVICE_NOT_AVAILABLE
    second = world.store.begin_flush()
    assert second is not None
    with pytest.raises(OSError, match=r"\[Errno 5\]"):
        second.run()
    world.store.close()
    assert not world.open().clean


def test_what_a_failed_fsync_left_in_the_cache_is_made_durable_by_recovery() -> None:
    """The kernel drops the dirty mark: cache and platter differ, and the next fsync succeeds without writing."""
    for seed in range(20):
        world = StoreOnDisk(seed)
        world.open()
        world.put()
        world.disk.fail_fsync()
        task = world.store.begin_flush()
        assert task is not None
        with pytest.raises(OSError, match=r"\[Errno 5\]") as caught:
            task.run()
        world.store.fail_flush(task, caught.value)
        world.disk.heal()
        world.kill()
        end = world.open().end_offset
        visible = world.bodies()
        world.cut_power()
        assert world.open().end_offset == end
        assert world.bodies() == visible


# --- open and close ---------------------------------------------------------------------------------------------------


def test_a_second_process_is_refused(world: StoreOnDisk) -> None:
    with pytest.raises(StoreLocked, match="in use by another process"):
        world.new_store().open()
    world.put()


def test_a_refused_start_gives_the_lock_back(world: StoreOnDisk) -> None:
    world.put_visible(*[make_message() for _ in range(20)])
    world.store.close()
    file = world.disk.open(world.log_file(0))
    file.truncate(1000)
    file.close()
    for _ in range(2):
        with pytest.raises(StoreError, match="has 1000 bytes; every file there must have 1024"):
            world.open()


def test_close_removes_abort_only_after_everything_is_visible(world: StoreOnDisk) -> None:
    world.put()
    world.store.close()
    assert f"{ROOT}/abort" not in world.disk.snapshot()
    world.cut_power()
    assert world.open().clean
    assert world.bodies() == [b"body"]


def test_open_that_meets_an_error_says_so_in_one_sentence() -> None:
    world = StoreOnDisk()
    world.disk.fail_fsync()
    with pytest.raises(StoreError, match=rf"store {ROOT} cannot be opened: \[Errno {errno.EIO}\]"):
        world.open()


@pytest.mark.parametrize("size", [0, 30])
def test_queue_file_sizes_hold_whole_entries(size: int) -> None:
    with pytest.raises(ValueError, match="a multiple of 20"):
        StoreConfig(root=ROOT, consume_queue_file_size=size)


def test_the_smallest_index_file() -> None:
    StoreConfig(root=ROOT, index_slots=1, index_numbers=2)
    for slots, numbers in ((0, 2), (1, 1)):
        with pytest.raises(ValueError, match="1 and 2 are the least"):
            StoreConfig(root=ROOT, index_slots=slots, index_numbers=numbers)


def test_look_up(world: StoreOnDisk) -> None:
    world.put(make_message(b"first"))
    second = world.put(make_message(b"second"))
    record = world.store.look_up(second.physical_offset)
    assert record is not None
    assert decode_record(record).body == b"second"
    for offset in (-1, second.physical_offset + 1, second.end_offset, 1 << 40):
        assert world.store.look_up(offset) is None


def test_a_start_that_fails_leaves_no_file_open() -> None:
    world = StoreOnDisk()
    world.open()
    world.store.close()
    world.disk.fail_fsync()  # the first one is that of `abort`
    with pytest.raises(StoreError):
        world.open()
    assert world.disk.open_paths() == []
    world.open()


DEEP = "/srv/queues/store"


@pytest.mark.parametrize("seed", [5, 9, 11])  # power cuts that take entries which are not synced
def test_a_start_syncs_folders_that_a_dead_first_start_has_made(seed: int) -> None:
    world = StoreOnDisk(seed, root=DEEP)
    world.disk.makedirs(DEEP)  # and the first start dies
    world.open()
    put = world.put()
    world.flush()
    world.cut_power()
    assert world.open().end_offset == put.end_offset


@pytest.mark.parametrize("error", [errno.EACCES, errno.EINVAL, errno.EROFS])
def test_a_parent_folder_in_which_the_store_makes_nothing_needs_no_sync(
    error: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = StoreOnDisk(root=DEEP)
    world.disk.makedirs(DEEP)
    monkeypatch.setattr(world, "disk", RefusesSync(world.disk, error))
    world.open()


def test_a_start_fails_if_a_parent_folder_does_not_reach_the_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = StoreOnDisk(root=DEEP)
    world.disk.makedirs(DEEP)
    monkeypatch.setattr(world, "disk", RefusesSync(world.disk, errno.EIO))
    with pytest.raises(StoreError, match="cannot be opened"):
        world.open()


class RefusesSync:
    """A storage that cannot sync the top folder."""

    def __init__(self, disk: SimDisk, error: int) -> None:
        self._disk = disk
        self._error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)

    def fsync_dir(self, path: str) -> None:
        if path == "/":
            raise OSError(self._error, "refused", path)
        self._disk.fsync_dir(path)
