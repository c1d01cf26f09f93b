"""A client may ask for any offset: only where a record of the log begins there is one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staticfire.system_under_test.protocol.message import decode_record
from staticfire.system_under_test.store.log import commit_log
from staticfire.system_under_test.store.record_scan import RECORD_HEADER_SIZE
from tests.system_under_test.store.forged_records import body_with_record
from tests.system_under_test.store.store_on_disk import StoreOnDisk, make_message

FILE_SIZE = 1024
QUEUE_OFFSETS = [
    0,
    1,
    2,
    1 << 40,
]  # an entry that leads elsewhere, the entry of the outer record, none


def opened() -> StoreOnDisk:
    disk = StoreOnDisk(log_file_size=FILE_SIZE)
    disk.open()
    return disk


def put_forged(disk: StoreOnDisk, queue_offset: int = 0, queue_id: int = 0) -> int:
    """Put a message, and one with a record in its body; return where that record lies."""
    disk.put(make_message(b"first"))
    inner = replace(make_message(b"forged"), queue_offset=queue_offset, queue_id=queue_id)
    body, offset = body_with_record(disk.store, inner)
    disk.put(make_message(body))
    assert decode_record(disk.store.read_raw(offset, FILE_SIZE)).body == b"forged"
    return offset


def body_at(disk: StoreOnDisk, offset: int) -> bytes | None:
    record = disk.store.look_up(offset)
    return None if record is None else decode_record(record).body


@pytest.mark.parametrize("queue_id", [0, 1])
@pytest.mark.parametrize("queue_offset", QUEUE_OFFSETS)
def test_a_record_inside_an_old_body_is_none(queue_offset: int, queue_id: int) -> None:
    disk = opened()
    offset = put_forged(disk, queue_offset, queue_id)
    fill(disk)
    disk.put_visible()
    disk.store.close()
    disk.open()
    assert not disk.store._commit_log.knows_starts_at(offset)
    assert disk.store.record_of_entry(offset) is not None
    assert body_at(disk, offset) is None
    assert body_at(disk, 0) == b"first"
    assert body_at(disk, offset - RECORD_HEADER_SIZE) is not None


@pytest.mark.parametrize("queue_id", [0, 1])
@pytest.mark.parametrize("queue_offset", QUEUE_OFFSETS)
@pytest.mark.parametrize("dispatched", [False, True])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_record_inside_a_body_is_none(
    queue_offset: int, queue_id: int, dispatched: bool, restarted: bool
) -> None:
    disk = opened()
    offset = put_forged(disk, queue_offset, queue_id)
    if dispatched:
        disk.put_visible()
    if restarted:
        disk.store.close()
        disk.open()
    assert body_at(disk, offset) is None
    outer = offset - RECORD_HEADER_SIZE
    assert body_at(disk, 0) == b"first"
    assert body_at(disk, outer) is not None


def test_a_forged_record_that_is_damaged_is_not_mended() -> None:
    disk = opened()
    asked: list[int] = []
    disk.store.when_damaged(asked.append)
    disk.put(make_message(b"first"))
    body, offset = body_with_record(disk.store, make_message(b"forged"))
    disk.put(make_message(body.replace(b"forged", b"FORGED")))
    assert body_at(disk, offset) is None
    assert asked == []


def fill(disk: StoreOnDisk, count: int = 60) -> list[int]:
    """Messages in three queues, over several log files; their physical offsets."""
    offsets = []
    for number in range(count):
        message = make_message(b"%d" % number, queue_id=number % 3)
        offsets.append(disk.put(message).physical_offset)
    return offsets


def assert_all_found(disk: StoreOnDisk, offsets: list[int]) -> None:
    assert [body_at(disk, offset) for offset in offsets] == [
        b"%d" % number for number in range(60 - len(offsets), 60)
    ]


@pytest.mark.parametrize("ending", ["none", "close", "kill", "power cut"])
def test_every_real_record_is_found(ending: str) -> None:
    disk = opened()
    offsets = fill(disk)
    assert_all_found(disk, offsets)  # before any has its entry
    disk.put_visible()
    disk.flush_queues()
    assert_all_found(disk, offsets)
    if ending == "none":
        return
    if ending == "close":
        disk.store.close()
    elif ending == "kill":
        disk.kill()
    else:
        disk.cut_power()
    report = disk.open()
    assert report.end_offset > 2 * FILE_SIZE
    assert_all_found(disk, offsets)


def test_what_recovery_did_not_walk_is_found() -> None:
    disk = opened()
    offsets = fill(disk)
    disk.put_visible()
    disk.store.close()
    assert disk.open().start_file > offsets[0]
    assert_all_found(disk, offsets)


def test_a_walk_that_begins_again_knows_every_start() -> None:
    disk = opened()
    offsets = fill(disk)
    disk.put_visible()
    disk.flush_queues()
    disk.store.close()
    disk.write(disk.queue_file(200, queue_id=1), bytes(100), 0)
    report = disk.open()
    assert report.start_file == 0
    assert_all_found(disk, offsets)
    log = disk.store._commit_log
    assert [at for at in range(log.end_offset) if log.may_start_at(at)] == offsets


def test_starts_of_the_newest_records_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_log, "STARTS_MAX", 10)
    disk = opened()
    offsets = fill(disk)
    disk.put_visible()
    log = disk.store._commit_log
    known = offsets[-(len(log._starts)) :]
    assert 10 <= len(known) <= 20
    assert [at for at in range(known[0], log.end_offset) if log.may_start_at(at)] == known
    assert_all_found(disk, offsets)


def test_after_a_cut_the_rest_is_found_and_what_was_cut_is_not() -> None:
    disk = opened()
    offsets = fill(disk)
    disk.put_visible()
    disk.store.truncate(offsets[30])
    assert [body_at(disk, offset) is not None for offset in offsets] == [True] * 30 + [False] * 30


@pytest.mark.parametrize("has_entries", [False, True])
def test_records_of_a_replica_are_found(has_entries: bool) -> None:
    master, slave = opened(), opened()
    offsets = fill(master)
    forged = put_forged(master)
    position = 0
    while data := master.store.read_raw(position, 1000):
        slave.store.append_raw(position, data)
        position += len(data)
    if has_entries:
        slave.put_visible()
    assert [body_at(slave, offset) for offset in offsets] == [
        body_at(master, offset) for offset in offsets
    ]
    assert body_at(slave, forged) is None


def test_a_mended_record_is_found_again() -> None:
    disk = opened()
    offsets = fill(disk)
    disk.put_visible()
    copy = disk.store.look_up(offsets[7])
    assert copy is not None
    asked: list[int] = []
    disk.store.when_damaged(asked.append)
    disk.write(disk.log_file(0), b"X", offsets[7] + RECORD_HEADER_SIZE)
    assert body_at(disk, offsets[7]) is None
    assert asked == [offsets[7]]
    assert disk.store.mend_record(offsets[7], copy)
    assert_all_found(disk, offsets)


def test_with_few_files_left_the_rest_is_found() -> None:
    disk = opened()
    offsets = fill(disk)
    disk.put_visible()
    disk.flush_queues()
    disk.store._commit_log.drop_first_file()
    rest = [offset for offset in offsets if offset >= FILE_SIZE]
    assert 0 < len(rest) < len(offsets)
    assert_all_found(disk, rest)
    assert body_at(disk, offsets[0]) is None
