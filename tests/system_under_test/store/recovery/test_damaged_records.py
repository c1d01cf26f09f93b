"""A record whose body does not match its checksum is never given to a reader, and can be mended from a replica."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.protocol.message import decode_record
from staticfire.system_under_test.store.reading.reading import GetStatus
from staticfire.system_under_test.store.record_filter import RecordFilter
from tests.system_under_test.store.store_on_disk import (
    INDEX_FOLDER,
    LOG_FOLDER,
    StoreOnDisk,
    make_message,
)

FILE = f"{LOG_FOLDER}/{0:020d}"
DAMAGED = 2  # of the messages 0 to 4
BODY_AT = 88


class Everything:
    """Implements `RecordFilter`: wants each message, and reads its properties."""

    def may_match(self, unit: object, physical_offset: int) -> bool:
        return True

    def matches(self, properties: object) -> bool:
        return True


def sound_store() -> StoreOnDisk:
    made = StoreOnDisk(log_file_size=4096)
    made.open()
    made.put_visible(*(make_message(b"body %d" % number, KEYS=f"k{number}") for number in range(5)))
    return made


@pytest.fixture
def store() -> StoreOnDisk:
    """Five messages, the third with a bit that has changed."""
    made = sound_store()
    at = offsets(made)[DAMAGED] + BODY_AT
    made.disk.flip_bit(FILE, within=(at, at + 6))
    return made


def offsets(store: StoreOnDisk) -> list[int]:
    """Where the messages lie in the log."""
    data = store.disk.read_cached(FILE)
    found, at = [], 0
    while size := int.from_bytes(data[at : at + 4], "big"):
        found.append(at)
        at += size
    return found


def met(store: StoreOnDisk) -> list[int]:
    found: list[int] = []
    store.store.when_damaged(found.append)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("wanted", [None, Everything()])
def test_a_pull_ends_before_a_damaged_record(
    store: StoreOnDisk, wanted: RecordFilter | None
) -> None:
    found = met(store)
    result = store.store.get("TopicTest", 0, 0, 32, None, wanted)
    assert (result.status, len(result.records), result.next_offset) == (GetStatus.FOUND, 2, 2)
    result = store.store.get("TopicTest", 0, 2, 32, None, wanted)
    assert result.status is GetStatus.RECORD_DAMAGED
    assert (result.records, result.next_offset) == ([], 2)
    assert found == [offsets(store)[DAMAGED]] * 2
    result = store.store.get("TopicTest", 0, 3, 32, None, wanted)
    assert len(result.records) == 2


@pytest.mark.parametrize("wanted", [None, Everything()])
def test_a_pull_passes_over_a_record_of_which_no_replica_has_a_sound_copy(
    store: StoreOnDisk, wanted: RecordFilter | None
) -> None:
    store.store.give_up(offsets(store)[DAMAGED])
    found = met(store)
    result = store.store.get("TopicTest", 0, 0, 32, None, wanted)
    assert [decode_record(record).body[-1:] for record in result.records] == [
        b"0",
        b"1",
        b"3",
        b"4",
    ]
    assert (result.status, result.next_offset) == (GetStatus.FOUND, 5)
    assert found == []


def test_look_ups_do_not_give_it_and_say_where_it_is(store: StoreOnDisk) -> None:
    found = met(store)
    at = offsets(store)[DAMAGED]
    assert store.store.look_up(at) is None
    assert store.found("k2") == []
    assert found == [at, at]
    assert store.found("k3") == [b"body 3"]


def test_the_copy_of_a_replica_mends_it_durably(store: StoreOnDisk) -> None:
    replica = sound_store()
    at, other = offsets(replica)[DAMAGED], offsets(replica)[DAMAGED + 1]
    copy = replica.store.look_up(at)
    another = replica.store.look_up(other)
    assert copy is not None
    assert another is not None
    assert not store.store.mend_record(at, another)
    assert not store.store.mend_record(at, copy[:-1])
    assert store.store.mend_record(at, copy)
    store.cut_power()
    report = store.open()
    assert report.cut_bytes == 0
    store.store.dispatch()
    assert len(store.store.get("TopicTest", 0, 0, 32).records) == 5


def test_a_mended_record_is_found_by_key_though_the_index_was_made_without_it(
    store: StoreOnDisk,
) -> None:
    replica = sound_store()
    at = offsets(replica)[DAMAGED]
    copy = replica.store.look_up(at) or b""
    store.disk.flip_bit(
        FILE, within=(at, at + 1)
    )  # the size, so that recovery knows none of its keys
    store.flush_queues()
    store.cut_power()
    for name in store.files(INDEX_FOLDER):
        store.disk.unlink(f"{INDEX_FOLDER}/{name}")
    store.open()
    store.store.dispatch()
    assert store.found("k2") == []

    assert store.store.mend_record(at, copy)

    assert [store.found(f"k{number}") for number in range(5)] == [
        [b"body %d" % number] for number in range(5)
    ]


def test_a_copy_that_came_through_a_proxy_changes_no_address(store: StoreOnDisk) -> None:
    """A proxy puts its own address into the store host of records that it passes on."""
    replica = sound_store()
    at = offsets(store)[DAMAGED]
    copy = bytearray(replica.store.look_up(at) or b"")
    copy[64:72] = bytes((127, 0, 9, 9, 0, 0, 1, 2))
    assert store.store.mend_record(at, bytes(copy))
    assert store.files(LOG_FOLDER) == replica.files(LOG_FOLDER)
