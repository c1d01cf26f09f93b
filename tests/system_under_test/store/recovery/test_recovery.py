"""Recovery after deaths and damage that the crash test of the simulation does not draw, or draws too rarely."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.protocol.message import encode_record
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.errors import StoreError
from staticfire.system_under_test.store.queues.consume_queue import ENTRY, ENTRY_SIZE
from tests.system_under_test.store.store_on_disk import (
    LOG_FOLDER,
    QUEUE_FOLDER,
    START_MS,
    SilentLog,
    StoreOnDisk,
    make_message,
)


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"body-%03d" % number for number in range(start, start + count)]


@pytest.fixture
def world() -> StoreOnDisk:
    """20 messages in several files of both kinds, flushed and visible."""
    world = StoreOnDisk()
    world.open()
    world.put_visible(*map(make_message, numbered(20)))
    return world


def truncate_file(world: StoreOnDisk, path: str, size: int) -> None:
    file = world.disk.open(path)
    file.truncate(size)
    file.close()


@pytest.mark.parametrize("size", [0, 1, 100, 1023])
def test_a_short_last_log_file_is_repaired(world: StoreOnDisk, size: int) -> None:
    world.kill()
    last = sorted(world.files(LOG_FOLDER))[-1]
    truncate_file(world, f"{LOG_FOLDER}/{last}", size)
    report = world.open()
    kept = world.store.queue_bounds("TopicTest", 0)[1]
    assert world.bodies() == numbered(kept)
    assert {len(content) for content in world.files(LOG_FOLDER).values()} == {1024}
    assert report.end_offset <= int(last) + size
    world.put_visible(make_message(b"next"))
    assert world.bodies() == [*numbered(kept), b"next"]


@pytest.mark.parametrize("size", [0, 33, 99])
def test_a_short_last_queue_file_is_repaired(world: StoreOnDisk, size: int) -> None:
    world.kill()
    truncate_file(world, world.queue_file(300), size)
    world.open()
    assert world.bodies() == numbered(20)


@pytest.mark.parametrize("name", ["log", "queue"])
@pytest.mark.parametrize("size", [0, 99])
def test_a_missized_middle_file_is_refused(world: StoreOnDisk, name: str, size: int) -> None:
    path = world.log_file(1024) if name == "log" else world.queue_file(100)
    world.kill()
    truncate_file(world, path, size)
    with pytest.raises(StoreError, match=rf"{path} has {size} bytes; every file there must have"):
        world.open()


def test_a_missing_middle_file_is_refused(world: StoreOnDisk) -> None:
    world.kill()
    world.disk.unlink(world.log_file(1024))
    with pytest.raises(StoreError, match=r"does not continue the files before it: 0+1024 must be"):
        world.open()


def test_a_foreign_file_is_refused(world: StoreOnDisk) -> None:
    world.kill()
    world.disk.open(f"{LOG_FOLDER}/notes.txt", create=True).close()
    with pytest.raises(StoreError, match=r"notes.txt is not a store file"):
        world.open()


def test_a_cut_tail_cannot_come_back() -> None:
    """Old records of the same size lie exactly behind the new ones unless recovery wipes them (RocketMQ #10666)."""
    world = StoreOnDisk(log_file_size=4096)
    world.open()
    first = world.put(make_message(b"body-000"))
    for body in numbered(5, start=1):
        world.put(make_message(body))
    world.flush()
    world.kill()
    world.write(world.log_file(0), b"X", first.end_offset + 90)  # the hole that write-back left
    assert world.open().end_offset == first.end_offset
    world.put_visible(make_message(b"body-new"))
    world.kill()
    world.open()
    assert world.bodies() == [b"body-000", b"body-new"]


def test_a_zero_in_the_properties_ends_the_log(world: StoreOnDisk) -> None:
    """The body has a checksum, the properties have none: a lost sector there reads as zeros."""
    last = world.store.end_offset
    end = world.put().end_offset
    world.store.write_out()
    world.kill()
    world.write(world.log_file(end - end % 1024), b"\0", end % 1024 - 1)
    assert world.open().end_offset == last
    assert world.bodies() == numbered(20)


def test_a_queue_that_points_past_the_log_is_cut(world: StoreOnDisk) -> None:
    """Write-back may save queue pages before log pages; kept entries would swallow new messages (R08)."""
    end = world.store.end_offset
    world.kill()
    stale = ENTRY.pack(end, 100, 0) + ENTRY.pack(end + 100, 100, 0)
    world.disk.open(world.queue_file(400), create=True).allocate(100)
    world.write(world.queue_file(400), stale, 0)
    world.open()
    assert world.store.queue_bounds("TopicTest", 0) == (0, 20)
    world.put_visible(make_message(b"body-020"))
    assert world.bodies() == numbered(21)


def test_recovery_begins_at_the_checkpointed_file(world: StoreOnDisk) -> None:
    world.flush_queues()
    world.clock.now_ms += 10_000
    world.put_visible(*map(make_message, numbered(20, start=20)))
    world.flush_queues()
    world.clock.now_ms += 10_000
    world.put_visible(*map(make_message, numbered(20, start=40)))
    world.flush_queues()  # makes the checkpoint before it durable
    world.kill()
    report = world.open()
    assert report.start_file > 1024
    assert 20 < report.messages_redispatched < 60
    assert world.bodies() == numbered(60)


def test_entries_lost_before_the_checkpointed_file_are_rebuilt(world: StoreOnDisk) -> None:
    for _ in range(3):
        world.flush_queues()
        world.clock.now_ms += 10_000
        world.put_visible(*map(make_message, numbered(20, start=len(world.bodies()))))
    world.kill()
    for name in sorted(world.files(f"{QUEUE_FOLDER}/TopicTest/0"), reverse=True):
        world.disk.unlink(f"{QUEUE_FOLDER}/TopicTest/0/{name}")
    assert world.open().start_file == 0
    assert world.bodies() == numbered(80)


def test_a_quiet_queue_keeps_its_entries_and_loses_what_only_looks_like_one(
    world: StoreOnDisk,
) -> None:
    world.put_visible(make_message(b"quiet", topic="Quiet"))
    world.clock.now_ms += 10_000
    world.put_visible(*map(make_message, numbered(30, start=20)))
    world.flush_queues()
    world.clock.now_ms += 10_000
    world.put_visible(*map(make_message, numbered(30, start=50)))
    world.flush_queues()
    world.kill()
    forged = ENTRY.pack(
        1024, 200, 1
    )  # points below the start of the walk, at no record of this queue
    world.write(world.queue_file(0, "Quiet"), forged, ENTRY_SIZE)
    assert world.open().start_file > 1024
    assert world.bodies("Quiet") == [b"quiet"]
    assert world.put(make_message(topic="Quiet")).queue_offset == 1


def test_recovery_changes_nothing_the_second_time(world: StoreOnDisk) -> None:
    world.put(make_message(b"not flushed"))
    world.cut_power()
    first = world.open()
    files = world.files(LOG_FOLDER) | world.files(QUEUE_FOLDER)
    world.cut_power()
    second = world.open()
    assert second.end_offset == first.end_offset
    assert second.cut_bytes == 0
    assert world.files(LOG_FOLDER) | world.files(QUEUE_FOLDER) == files


def test_a_stale_checkpoint_never_outruns_a_shorter_log(world: StoreOnDisk) -> None:
    """The log may end before the checkpointed time if its end is gone; new records are older than that then."""
    world.clock.now_ms += 50_000
    world.put_visible(*map(make_message, numbered(5, start=20)))
    world.store.close()
    for base in (1024, 2048, 3072):
        world.write(world.log_file(base), bytes(1024), 0)
    world.clock.now_ms -= 50_000
    assert world.open().end_offset == 1024
    kept = len(world.bodies())
    for start in range(kept, kept + 60, 20):
        world.put_visible(*map(make_message, numbered(20, start=start)))
    world.cut_power()
    world.open()
    assert world.bodies() == numbered(kept + 60)


class RecordingLog(SilentLog):
    def __init__(self) -> None:
        self.warnings: list[tuple[str, dict[str, object]]] = []

    def warning(self, event: str, /, **fields: object) -> None:
        self.warnings.append((event, fields))


def test_a_removed_log_is_reported() -> None:
    """The queues begin anew, as RocketMQ's do; but what they held was acknowledged once."""
    world = StoreOnDisk()
    world.open()
    world.put_visible(make_message(), make_message(queue_id=1))
    world.store.close()
    for name in world.disk.listdir("/store/commitlog"):
        world.disk.unlink(f"/store/commitlog/{name}")
    log = RecordingLog()
    world.store = MessageStore(world.disk, world.clock, log, world.config)
    assert world.store.open().end_offset == 0
    assert ("the commit log is gone: what queues held is lost", {"queues": 2}) in log.warnings
    assert world.store.queue_bounds("TopicTest", 0) == (0, 0)


@pytest.mark.parametrize("seed", range(8))
def test_a_queue_that_begins_in_the_middle_survives_a_cut_before_its_first_flush(seed: int) -> None:
    """The places before its first entry were empty, and a later start took the first of them for the queue's end."""
    world = StoreOnDisk(seed)
    world.open()
    first = make_message()
    first.queue_offset, first.physical_offset, first.store_timestamp_ms = 8, 1024, START_MS
    world.store.append_raw(1024, bytes(encode_record(first)))
    world.flush()
    world.store.dispatch()
    assert world.store.queue_bounds("TopicTest", 0) == (8, 9)
    for folder in ("TopicTest/0", "TopicTest", ""):  # the kernel writes names before data
        world.disk.fsync_dir(f"{QUEUE_FOLDER}/{folder}".rstrip("/"))
    world.cut_power()
    world.open()
    world.put_visible(*[make_message(bytes(400), queue_id=1) for _ in range(10)])
    world.store.close()
    report = world.open()
    assert report.start_file > 1024
    assert world.store.queue_bounds("TopicTest", 0) == (8, 9)
    assert world.bodies() == [b"body"]
