"""The files that retention deletes, their order, and what is left of the queues."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from staticfire.harness.simulation.disk.disk import DiskOptions, PowerCut, SimDisk
from staticfire.system_under_test.store.reading.reading import GetStatus
from staticfire.system_under_test.store.results import PutStatus
from staticfire.system_under_test.store.retention.retention import (
    force_regardless_of_consumption,
    only_consumed,
)
from staticfire.system_under_test.store.retention_config import MS_PER_HOUR, RetentionConfig
from tests.system_under_test.store.store_on_disk import START_MS, StoreOnDisk, make_message

ALWAYS = tuple(range(24))
NEVER_OLD = RetentionConfig(reserved_ms=2 * START_MS, delete_hours=())  # files are of 1970
TOTAL_BYTES = 1 << 20


def filled(retention: RetentionConfig, *, messages: int = 40, seed: object = 0) -> StoreOnDisk:
    """About four messages to a file of the log and five to one of the queue, all durable."""
    on_disk = StoreOnDisk(seed, options=DiskOptions(total_bytes=TOTAL_BYTES))
    on_disk.config = replace(on_disk.config, retention=retention)
    on_disk.open()
    on_disk.put_visible(*(make_message(b"%03d" % number * 10) for number in range(messages)))
    on_disk.flush_queues()
    return on_disk


def clean(on_disk: StoreOnDisk) -> list[str]:
    """One cycle; the paths of what was removed."""
    removed = []
    for removal in on_disk.store.retention.clean():
        removal.run()
        removed.append(removal.path)
    return removed


def use(on_disk: StoreOnDisk, percent: int) -> None:
    """Let the disk be as full as that, rounded up."""
    on_disk.disk.fill(free_bytes=TOTAL_BYTES * (100 - percent) // 100 + 4096)


def log_files(on_disk: StoreOnDisk) -> int:
    return len(on_disk.files("/store/commitlog"))


def test_old_files_go_ten_a_cycle_and_never_the_last() -> None:
    on_disk = filled(RetentionConfig(delete_hours=ALWAYS), messages=90)
    before = log_files(on_disk)
    assert before > 11
    removed = [path for path in clean(on_disk) if "commitlog" in path]
    assert len(removed) == 10
    assert removed == sorted(removed)
    for _ in range(5):
        clean(on_disk)
    assert log_files(on_disk) == 1
    on_disk.put()


def test_queues_follow_the_log() -> None:
    on_disk = filled(RetentionConfig(delete_hours=ALWAYS))
    clean(on_disk)
    store = on_disk.store
    low, high = store.queue_bounds("TopicTest", 0)
    assert 0 < low < high == 40
    assert store.get("TopicTest", 0, 0, 1).status is GetStatus.OFFSET_TOO_SMALL
    assert store.get("TopicTest", 0, 0, 1).next_offset == low
    assert on_disk.bodies() == [b"%03d" % number * 10 for number in range(low, high)]
    assert min(on_disk.files("/store/consumequeue")) > "TopicTest/0/" + "0" * 20
    on_disk.kill()
    on_disk.open()
    assert on_disk.store.queue_bounds("TopicTest", 0) == (low, high)
    assert on_disk.put().queue_offset == 40


def test_removed_files_of_idle_queues_are_closed_by_the_next_flush() -> None:
    on_disk = filled(RetentionConfig(delete_hours=ALWAYS), messages=90)
    for _ in range(5):
        clean(on_disk)
    assert on_disk.store.begin_queue_flush() is None  # no entry is dirty
    assert not [path for path in on_disk.disk.open_paths() if path.endswith("(deleted)")]


@pytest.mark.parametrize(("hour", "goes"), [(4, True), (5, False), (16, True)])
def test_the_hour_decides(hour: int, goes: bool) -> None:
    on_disk = filled(RetentionConfig(delete_hours=(4, 16)))
    day_ms = START_MS - START_MS % (24 * MS_PER_HOUR)
    on_disk.clock.now_ms = day_ms + hour * MS_PER_HOUR + MS_PER_HOUR - 1
    assert bool(clean(on_disk)) is goes


def test_young_files_stay_whatever_the_hour() -> None:
    on_disk = filled(replace(NEVER_OLD, delete_hours=ALWAYS))
    assert clean(on_disk) == []


def test_an_admin_asks_for_twenty_rounds() -> None:
    on_disk = filled(RetentionConfig(delete_hours=()))
    assert clean(on_disk) == []
    on_disk.store.retention.delete_manually()
    assert clean(on_disk)
    assert on_disk.store.retention.manual_rounds == 19


def test_at_75_percent_only_expired_files_go() -> None:
    fresh, old = filled(NEVER_OLD), filled(RetentionConfig(delete_hours=()))
    for on_disk in (fresh, old):
        use(on_disk, 80)
    assert clean(fresh) == []
    assert clean(old)


@pytest.mark.parametrize(
    ("may_force", "committed", "goes"),
    [
        (only_consumed, None, False),
        (only_consumed, 39, True),  # a group that has read all but the last
        (only_consumed, 1, False),
        (force_regardless_of_consumption, None, True),
    ],
)
def test_above_85_percent_fresh_files_go_only_if_they_are_consumed(
    may_force: object, committed: int | None, goes: bool
) -> None:
    on_disk = filled(NEVER_OLD)
    retention = on_disk.store.retention
    retention.may_force = (
        only_consumed if may_force is only_consumed else force_regardless_of_consumption
    )
    retention.least_committed = lambda _topic, _queue_id: committed
    use(on_disk, 88)
    assert bool(clean(on_disk)) is goes
    assert on_disk.store.put(make_message()).status is PutStatus.PUT_OK


def test_above_90_percent_writes_are_refused_until_there_is_space() -> None:
    on_disk = filled(NEVER_OLD)
    store = on_disk.store
    use(on_disk, 91)
    assert clean(on_disk) == []
    refused = store.put(make_message())
    assert refused.status is PutStatus.SERVICE_NOT_AVAILABLE
    assert refused.reason == (
        "service not available now. It may be caused by one of the following reasons: the broker's disk is full"
        " [CL:  0.91 CQ:  0.91 INDEX:  0.91], messages are put to the slave, message store has been shut down, etc."
    )
    use(on_disk, 88)
    clean(on_disk)  # between the levels the cleaner leaves the flag as it is ...
    assert store.put(make_message()).status is PutStatus.SERVICE_NOT_AVAILABLE
    store.disks.check()  # ... and the disk check clears it
    assert store.put(make_message()).status is PutStatus.PUT_OK
    use(on_disk, 92)
    store.disks.check()
    assert store.put(make_message()).status is PutStatus.SERVICE_NOT_AVAILABLE
    on_disk.disk.free()
    clean(on_disk)
    assert store.put(make_message()).status is PutStatus.PUT_OK


def test_what_is_not_in_a_durable_queue_stays() -> None:
    on_disk = StoreOnDisk()
    on_disk.config = replace(on_disk.config, retention=RetentionConfig(delete_hours=ALWAYS))
    on_disk.open()
    on_disk.put_visible(*(make_message(b"x" * 50) for _ in range(20)))
    assert clean(on_disk) == []
    on_disk.flush_queues()
    assert clean(on_disk)


def test_a_file_that_cannot_be_removed_is_tried_again_after_120_s() -> None:
    on_disk = filled(RetentionConfig(delete_hours=ALWAYS))
    cycle = on_disk.store.retention.clean()
    first = next(cycle)
    first.error = PermissionError("no")
    assert list(cycle) == []  # nothing may go before it
    assert clean(on_disk) == []
    on_disk.clock.now_ms += 120_000
    assert clean(on_disk)[0] == first.path


@pytest.mark.parametrize("operation", range(1, 30))
def test_a_power_cut_anywhere_leaves_a_log_and_queues_without_gaps(operation: int) -> None:
    on_disk = filled(RetentionConfig(delete_hours=ALWAYS), seed=operation)
    on_disk.disk.cut_at(operation)
    try:
        clean(on_disk)
    except PowerCut:
        assert not on_disk.disk.is_powered
    on_disk.disk.power_cut()
    on_disk.disk.power_on()
    on_disk.open()
    low, high = on_disk.store.queue_bounds("TopicTest", 0)
    assert high == 40
    assert on_disk.bodies() == [b"%03d" % number * 10 for number in range(low, high)]
    clean(on_disk)
    on_disk.put_visible(make_message(b"after"))
    assert on_disk.bodies()[-1] == b"after"


def test_unused_topics_are_hidden_and_keep_their_numbers() -> None:
    on_disk = filled(NEVER_OLD)
    for removal in on_disk.store.retention.clean_unused(lambda topic: topic != "TopicTest"):
        removal.run()
    assert on_disk.bodies() == []
    assert len(on_disk.files("/store/consumequeue")) == 1
    assert on_disk.put().queue_offset == 40


def test_a_topic_made_again_while_its_old_files_go_loses_nothing() -> None:
    on_disk = filled(NEVER_OLD)
    removals = on_disk.store.retention.clean_unused(lambda _topic: False)
    assert on_disk.bodies() == []  # before anything is removed
    new = [b"new %d" % number for number in range(12)]
    on_disk.put_visible(*(make_message(body) for body in new))
    files = len(on_disk.files("/store/consumequeue"))
    for removal in removals:
        removal.run()
    assert on_disk.bodies() == new
    assert len(on_disk.files("/store/consumequeue")) < files


def test_what_a_hidden_topic_leaves_the_next_cycle_removes() -> None:
    on_disk = filled(NEVER_OLD)
    on_disk.store.retention.clean_unused(lambda _topic: False)
    assert clean(on_disk) != []
    assert len(on_disk.files("/store/consumequeue")) == 1


def test_a_log_cut_back_to_its_beginning_still_knows_how_far_it_was() -> None:
    on_disk = filled(RetentionConfig(delete_hours=ALWAYS))
    for _ in range(3):
        clean(on_disk)
    begin = on_disk.store.min_offset
    assert begin > 0
    first = on_disk.store.queue_bounds("TopicTest", 0)[0]
    on_disk.store.truncate(begin)
    for _ in range(2):
        on_disk.kill()
        on_disk.cut_power()
        on_disk.open()
        assert on_disk.store.min_offset == on_disk.store.end_offset == begin
        assert on_disk.store.queue_view.next_offset("TopicTest", 0) == first


def test_an_index_file_that_cannot_be_removed_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on_disk = StoreOnDisk(index_numbers=3)
    on_disk.config = replace(on_disk.config, retention=RetentionConfig(delete_hours=ALWAYS))
    on_disk.open()
    on_disk.put_visible(*(make_message(bytes(300), UNIQ_KEY=f"u{n}") for n in range(20)))
    on_disk.flush_queues()
    before = len(on_disk.files("/store/index"))
    unlink, refused = SimDisk.unlink, [0, 1]  # the second one

    def unlink_but_a_third_index_file(disk: SimDisk, path: str) -> None:
        if "/index/" in path and refused and not refused.pop():
            raise OSError(errno.EACCES, "no")
        unlink(disk, path)

    monkeypatch.setattr(SimDisk, "unlink", unlink_but_a_third_index_file)
    clean(on_disk)
    assert len(on_disk.files("/store/index")) == before - 1
    clean(on_disk)
    assert len(on_disk.files("/store/index")) < before - 1
    low, high = on_disk.store.queue_bounds("TopicTest", 0)
    assert [len(on_disk.found(f"u{number}")) for number in range(20)] == [
        int(number >= low) for number in range(high)
    ]
