"""The results of a pull: statuses, caps, tags (RocketMQ, DefaultMessageStore.getMessage)."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.protocol.message import decode_record, tags_code
from staticfire.system_under_test.store.appending.config import StoreConfig
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.pull_limits import FixedPullLimits
from staticfire.system_under_test.store.reading.reading import GetStatus
from tests.system_under_test.store.store_on_disk import (
    ROOT,
    START_MS,
    SilentLog,
    StoreOnDisk,
    make_message,
)


@pytest.fixture
def seven() -> StoreOnDisk:
    """Seven messages in queue 0 of TopicTest, whose queue files hold five entries; one in queue 1."""
    world = StoreOnDisk(log_file_size=1 << 16)
    world.open()
    for number in range(7):
        world.clock.now_ms = START_MS + 10 * number
        tags = "even" if number % 2 == 0 else "uneven"
        world.put_visible(make_message(b"%d" % number, tags=tags))
    world.put_visible(make_message(queue_id=1))
    return world


def test_records_far_apart_in_the_log_are_read_once_each() -> None:
    """Neighbours are read together; here each second message lies behind 20 KB of another queue."""
    world = StoreOnDisk(log_file_size=1 << 18, queue_file_size=400)
    world.open()
    for number in range(6):
        world.put_visible(make_message(b"%d" % number))
        if number % 2:
            world.put_visible(make_message(bytes(20_000), queue_id=1))
    answer = world.store.get("TopicTest", 0, 0, 32)
    assert [decode_record(record).body for record in answer.records] == [
        b"%d" % number for number in range(6)
    ]


@pytest.mark.parametrize(
    ("topic", "queue_id", "offset", "status", "next_offset"),
    [
        ("TopicTest", 0, 0, GetStatus.FOUND, 5),  # up to the end of the queue file
        ("TopicTest", 0, 5, GetStatus.FOUND, 7),
        ("TopicTest", 0, 7, GetStatus.OFFSET_OVERFLOW_ONE, 7),
        ("TopicTest", 0, 9, GetStatus.OFFSET_OVERFLOW_BADLY, 7),
        ("TopicTest", 0, -1, GetStatus.OFFSET_TOO_SMALL, 0),
        ("TopicTest", 9, 3, GetStatus.NO_MESSAGE_IN_QUEUE, 0),
        ("Missing", 0, 0, GetStatus.NO_MESSAGE_IN_QUEUE, 0),
    ],
)
def test_statuses(
    seven: StoreOnDisk, topic: str, queue_id: int, offset: int, status: GetStatus, next_offset: int
) -> None:
    answer = seven.store.get(topic, queue_id, offset, 32)
    assert (answer.status, answer.next_offset) == (status, next_offset)
    assert bool(answer.records) == (status is GetStatus.FOUND)


def test_a_queue_in_which_nothing_is_visible_yet(seven: StoreOnDisk) -> None:
    seven.put(make_message(topic="Fresh"))
    assert seven.store.get("Fresh", 0, 0, 32).status is GetStatus.NO_MESSAGE_IN_QUEUE


def test_an_offset_that_is_not_visible_yet_is_not_wrong(seven: StoreOnDisk) -> None:
    for topic, visible in (("TopicTest", 7), ("Fresh", 0)):
        seven.put(make_message(topic=topic))
        answer = seven.store.get(topic, 0, visible + 1, 32)
        assert answer == (GetStatus.OFFSET_OVERFLOW_ONE, visible + 1, 0, visible, [], False)
    beyond = seven.store.get("TopicTest", 0, 9, 32)
    assert (beyond.status, beyond.next_offset) == (GetStatus.OFFSET_OVERFLOW_BADLY, 7)


def test_tags_are_compared_by_hash(seven: StoreOnDisk) -> None:
    answer = seven.store.get("TopicTest", 0, 0, 32, frozenset({tags_code("uneven")}))
    assert [decode_record(record).body for record in answer.records] == [b"1", b"3"]
    assert answer.next_offset == 5
    nothing = seven.store.get("TopicTest", 0, 0, 32, frozenset({tags_code("other")}))
    assert (nothing.status, nothing.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 5)


def test_the_number_of_messages_is_capped(seven: StoreOnDisk) -> None:
    answer = seven.store.get("TopicTest", 0, 1, 2)
    assert (len(answer.records), answer.next_offset) == (2, 3)


def filled_store(count: int, body_size: int, limits: FixedPullLimits) -> MessageStore:
    world = StoreOnDisk()
    config = StoreConfig(
        root=ROOT,
        commit_log_file_size=4 << 20,
        consume_queue_file_size=20_000,
        pull_limits=limits,
    )
    world.store = MessageStore(world.disk, world.clock, SilentLog(), config)
    world.store.open()
    world.put_visible(*[make_message(b"b" * body_size) for _ in range(count)])
    return world.store


@pytest.mark.parametrize(
    ("body_size", "limits", "expected"),
    [
        (10, {}, 32),
        (10, {"memory_bytes": 0}, 8),
        (50_000, {}, 5),  # 256 KiB
        (50_000, {"memory_bytes": 0}, 1),  # 64 KiB
        (300_000, {}, 1),  # the first always fits
        (10, {"transfer_memory_count": 35}, 35),
        (10, {"memory_bytes": 0, "transfer_disk_count": 39}, 39),
        (50_000, {"transfer_memory_bytes": 120_000}, 2),
        (50_000, {"memory_bytes": 0, "transfer_disk_bytes": 160_000}, 3),
        (10, {"transfer_memory_count": 0}, 1),
    ],
)
def test_transfer_caps(body_size: int, limits: dict[str, int], expected: int) -> None:
    store = filled_store(40 if body_size == 10 else 8, body_size, FixedPullLimits(**limits))
    answer = store.get("TopicTest", 0, 0, 100)
    assert len(answer.records) == expected
    assert answer.next_offset == expected


def test_earliest_store_time(seven: StoreOnDisk) -> None:
    assert seven.store.queue_view.earliest_store_time_ms("TopicTest", 0) == START_MS
    assert seven.store.queue_view.earliest_store_time_ms("Missing", 0) == -1


@pytest.mark.parametrize("tags", [None, frozenset({tags_code("uneven")})])
def test_a_consumer_does_not_pass_entries_that_the_disk_has_lost(
    seven: StoreOnDisk, tags: frozenset[int] | None
) -> None:
    seven.write(seven.queue_file(0), bytes(60), 40)
    answer = seven.store.get("TopicTest", 0, 2, 32, tags)
    assert (answer.status, answer.next_offset) == (GetStatus.RECORD_DAMAGED, 2)
