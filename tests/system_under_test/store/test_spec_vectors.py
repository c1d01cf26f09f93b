"""Eight messages in files of 1024 bytes and 5 entries: what a real RocketMQ 4.9.8 store had on disk afterwards.

Where this store differs: it makes the next commit-log file when it is needed, not one ahead, and has no index files.
"""

from __future__ import annotations

import pytest

from system_under_test.protocol.message import MAGIC_BLANK, Message
from tests.system_under_test.store.store_on_disk import (
    LOG_FOLDER,
    QUEUE_FOLDER,
    ROOT,
    START_MS,
    StoreOnDisk,
)

RECORD_SIZE = 165
OFFSETS = [0, 165, 330, 495, 660, 825, 1024, 1189]
END = 1354


def vector_message(number: int) -> Message:
    unique_key = f"AC1100016F1D18B4AAC26F1E2D3A000{number}"
    properties = {"TAGS": "TagA", "KEYS": f"k{number % 2}", "UNIQ_KEY": unique_key}
    return Message(
        topic="TopicTest",
        body=b"body-%d" % number,
        properties=properties,
        born_host=("10.0.0.9", 40_000),
        store_host=("10.0.0.1", 10_911),
    )


@pytest.fixture
def eight() -> StoreOnDisk:
    """The eight messages, flushed and visible."""
    world = StoreOnDisk()
    world.open()
    for number in range(8):
        message = vector_message(number)
        world.put(message)
    world.flush()
    world.store.dispatch()
    return world


def crash(world: StoreOnDisk) -> None:
    world.kill()
    assert f"{ROOT}/abort" in world.disk.snapshot()


def stop(world: StoreOnDisk) -> None:
    world.store.close()
    assert f"{ROOT}/abort" not in world.disk.snapshot()


def test_physical_offsets() -> None:
    world = StoreOnDisk()
    world.open()
    results = [world.put(vector_message(number)) for number in range(8)]
    assert {result.size_bytes for result in results} == {RECORD_SIZE}
    assert [result.physical_offset for result in results] == OFFSETS
    assert results[6].message_id == "0A00000100002A9F0000000000000400"
    assert [result.queue_offset for result in results] == list(range(8))


def test_commit_log_files_and_the_blank(eight: StoreOnDisk) -> None:
    files = eight.files(LOG_FOLDER)
    assert sorted(files) == ["00000000000000000000", "00000000000000001024"]
    assert {len(content) for content in files.values()} == {1024}
    blank = files["00000000000000000000"][990:]
    assert blank == bytes.fromhex("00000022cbd43194") + bytes(26)
    assert int.from_bytes(blank[4:8], "big", signed=True) == MAGIC_BLANK


def test_consume_queue_files(eight: StoreOnDisk) -> None:
    files = eight.files(f"{QUEUE_FOLDER}/TopicTest/0")
    assert sorted(files) == ["00000000000000000000", "00000000000000000100"]
    assert (
        files["00000000000000000000"][:20].hex() == "0000000000000000000000a50000000000" + "27a807"
    )
    assert files["00000000000000000100"][60:] == bytes(40)


def test_checkpoint_and_lock(eight: StoreOnDisk) -> None:
    stop(eight)
    files = eight.files(ROOT)
    times = START_MS.to_bytes(8, "big") * 2 + bytes(8)
    assert files["checkpoint"] == times + bytes(4096 - 24)
    assert files["lock"] == b"lock"


def test_crash_with_files_untouched(eight: StoreOnDisk) -> None:
    crash(eight)
    report = eight.open()
    assert (report.clean, report.end_offset, report.cut_bytes) == (False, END, 0)
    assert eight.store.queue_bounds("TopicTest", 0) == (0, 8)


def test_crash_and_a_changed_byte_in_the_last_body(eight: StoreOnDisk) -> None:
    crash(eight)
    eight.write(eight.log_file(1024), b"X", 1189 - 1024 + 90)
    report = eight.open()
    assert (report.end_offset, report.cut_bytes) == (1189, RECORD_SIZE)
    assert eight.store.queue_bounds("TopicTest", 0) == (0, 7)


def test_crash_and_removed_queues(eight: StoreOnDisk) -> None:
    crash(eight)
    for base in (0, 100):
        eight.disk.unlink(eight.queue_file(base))
    eight.disk.rmdir(f"{QUEUE_FOLDER}/TopicTest/0")
    eight.disk.rmdir(f"{QUEUE_FOLDER}/TopicTest")
    report = eight.open()
    assert report.messages_redispatched == 8
    assert eight.bodies() == [b"body-%d" % number for number in range(8)]


def test_clean_stop_and_a_changed_byte_in_the_second_body(eight: StoreOnDisk) -> None:
    stop(eight)
    eight.write(eight.log_file(0), b"X", 165 + 90)
    report = eight.open()
    assert (report.clean, report.end_offset) == (True, 165)
    assert eight.store.queue_bounds("TopicTest", 0) == (0, 1)
    assert sorted(eight.files(LOG_FOLDER)) == ["00000000000000000000"]
    assert sorted(eight.files(f"{QUEUE_FOLDER}/TopicTest/0")) == ["00000000000000000000"]


def test_clean_stop_and_a_removed_log(eight: StoreOnDisk) -> None:
    stop(eight)
    for base in (0, 1024):
        eight.disk.unlink(eight.log_file(base))
    report = eight.open()
    assert report.end_offset == 0
    assert eight.store.queue_bounds("TopicTest", 0) == (0, 0)
    assert eight.put().queue_offset == 0
