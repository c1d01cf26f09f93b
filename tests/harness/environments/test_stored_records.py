"""Records are found in the bytes of a log, and a changed body shows."""

from __future__ import annotations

import pytest

from harness.environments.stored_records import stored_records
from tests.system_under_test.store.store_on_disk import LOG_FOLDER, StoreOnDisk, make_message


@pytest.fixture
def log() -> bytes:
    store = StoreOnDisk(log_file_size=4096)
    store.open()
    store.put_visible(make_message(b"first"), make_message(b"second, longer"))
    return store.disk.read_cached(f"{LOG_FOLDER}/{0:020d}")


def test_each_record_and_its_body(log: bytes) -> None:
    found = list(stored_records(log))
    assert [log[record.body_start : record.body_end] for record in found] == [
        b"first",
        b"second, longer",
    ]
    assert all(record.is_sound(log) for record in found)


def test_a_changed_body_is_not_sound(log: bytes) -> None:
    record = next(stored_records(log))
    changed = bytearray(log)
    changed[record.body_start] ^= 4
    assert not record.is_sound(bytes(changed))


def test_what_is_no_record_ends_the_search(log: bytes) -> None:
    assert list(stored_records(b"")) == []
    assert list(stored_records(bytes(100))) == []
    assert len(list(stored_records(log[: next(stored_records(log)).body_end]))) == 0


def test_what_is_told_of_a_record_is_its_key_and_its_place() -> None:
    store = StoreOnDisk(log_file_size=4096)
    store.open()
    results = [
        store.put(make_message(b"x", KEYS="p1-7", MY_KEYS="no")),
        store.put(make_message(b"y")),
    ]
    store.flush()
    log = store.disk.read_cached(f"{LOG_FOLDER}/{0:020d}")
    assert [record.told(log) for record in stored_records(log)] == [
        {"key": key, "start": result.physical_offset, "end": result.end_offset}
        for key, result in zip(("p1-7", ""), results, strict=True)
    ]
