"""Eight messages in files of 1024 bytes and 5 entries: what a real RocketMQ 4.9.8 store had on disk afterwards.

Where this store differs: it makes the next commit-log file when it is needed, not one ahead, and keeps the slots of an
index file in memory until it is closed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from staticfire.system_under_test.protocol.message import MAGIC_BLANK, Message
from staticfire.system_under_test.store.assembly.store_policy import HARDENED_STORE
from tests.system_under_test.store.store_on_disk import (
    INDEX_FOLDER,
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


def test_the_index_file(eight: StoreOnDisk) -> None:
    """The broker's clock stood still here, so times differ from the vector: all are the same."""
    stop(eight)
    (content,) = eight.files(INDEX_FOLDER).values()
    assert len(content) == 40 + 10 * 4 + 20 * 20
    times = START_MS.to_bytes(8, "big") * 2
    assert content[:40] == times + bytes.fromhex(
        "0000000000000000 00000000000004a5 00000008 00000011"
    )
    slots = [int.from_bytes(content[at : at + 4], "big") for at in range(40, 80, 4)]
    assert slots == [5, 7, 9, 14, 16, 15, 0, 0, 1, 3]
    entries = [content[at : at + 20].hex() for at in range(80, 480, 20)]
    assert entries[0] == "00" * 20
    assert entries[1] == "1c787d14" + "00" * 16
    assert entries[2] == "0029e6a7" + "00" * 16
    assert entries[3] == "1c787d15" + "00000000000000a5" + "00" * 8
    assert entries[6] == "0029e6a7" + "000000000000014a" + "00000000" + "00000002"
    assert entries[17:] == ["00" * 20] * 3


@pytest.mark.parametrize("folder", ["", INDEX_FOLDER])
@pytest.mark.parametrize("end", [crash, stop])
def test_every_message_is_found_by_key_after_any_end(
    eight: StoreOnDisk, folder: str, end: Callable[[StoreOnDisk], None]
) -> None:
    end(eight)
    if folder:
        for name in eight.files(folder):
            eight.disk.unlink(f"{folder}/{name}")
    eight.open()
    for number in range(8):
        assert eight.found(f"AC1100016F1D18B4AAC26F1E2D3A000{number}") == [b"body-%d" % number]
    assert eight.found("k1") == [b"body-1", b"body-3", b"body-5", b"body-7"]
    assert eight.found("k2") == []


def test_crash_with_files_untouched(eight: StoreOnDisk) -> None:
    crash(eight)
    report = eight.open()
    assert (report.clean, report.end_offset, report.cut_bytes) == (False, END, 0)
    assert eight.store.queue_bounds("TopicTest", 0) == (0, 8)


def test_crash_and_a_changed_byte_in_the_last_body(eight: StoreOnDisk) -> None:
    eight.policy = replace(HARDENED_STORE, keeps_damaged=False)
    crash(eight)
    eight.write(eight.log_file(1024), b"X", 1189 - 1024 + 90)
    report = eight.open()
    assert (report.end_offset, report.cut_bytes) == (1189, RECORD_SIZE)
    assert len(eight.found("k1")) == 3
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
    eight.policy = replace(HARDENED_STORE, keeps_damaged=False)
    stop(eight)
    eight.write(eight.log_file(0), b"X", 165 + 90)
    report = eight.open()
    assert (report.clean, report.end_offset) == (True, 165)
    assert (eight.found("k0"), eight.found("k1")) == ([b"body-0"], [])
    assert eight.put(vector_message(3)).physical_offset == 165
    eight.flush()
    eight.store.dispatch()
    assert eight.found("k1") == [b"body-3"], "RocketMQ skips it: its index claims to know better"
    eight.store.truncate(165)
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
