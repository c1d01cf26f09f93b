"""Scenarios that the storage crash test has found, each as a test of its own.

A seed gives another scenario after any change of the code; these stay the same.
"""

from __future__ import annotations

from collections.abc import Callable

from staticfire.harness.simulation.disk.disk import PowerCut, SimDisk
from staticfire.harness.store_crash.plan import CycleClock, SilentLog
from staticfire.system_under_test.protocol.message import Message
from staticfire.system_under_test.store.appending.config import StoreConfig
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.results import PutStatus
from tests.support.disks import make_disk
from tests.support.small_index import SMALL_INDEX

LOG_FILE_SIZE = 1024
SEEDS = range(8)
OPERATIONS = range(1, 25)  # more than a recovery has


def start(disk: SimDisk, *, queue_file_size: int = 60) -> MessageStore:
    config = StoreConfig(
        root="/d",
        commit_log_file_size=LOG_FILE_SIZE,
        consume_queue_file_size=queue_file_size,
        **SMALL_INDEX,
    )
    store = MessageStore(disk, CycleClock(), SilentLog(), config)
    store.open()
    return store


def put(store: MessageStore, count: int = 1) -> None:
    """Records of a bit more than 300 bytes: three fit into a file of the log."""
    for _ in range(count):
        message = Message(topic="T", queue_id=0, body=b"x" * 200, properties={"KEYS": "k"})
        assert store.put(message).status is PutStatus.PUT_OK


def flush(store: MessageStore) -> int:
    task = store.begin_flush()
    assert task is not None
    task.run()
    return store.finish_flush(task)


def check_recovers_after_a_cut_anywhere(prepare: Callable[[SimDisk], int]) -> None:
    """`prepare` leaves a disk whose process has died and returns the promised end of its log."""
    for seed in SEEDS:
        for operation in OPERATIONS:
            disk = make_disk(seed)
            promised_end = prepare(disk)
            disk.cut_at(operation)
            try:
                put(start(disk), 5)
            except PowerCut:
                assert disk.is_powered is False
            disk.power_cut()
            disk.power_on()
            assert start(disk).end_offset >= promised_end


def test_a_file_that_a_killed_process_did_not_sync_is_synced_before_the_next_one() -> None:
    def prepare(disk: SimDisk) -> int:
        store = start(disk)
        put(store, 2)
        flushed = flush(store)
        put(store, 3)  # the next file of the log and of the queue: in the page cache only
        disk.release_locks()
        return flushed

    check_recovers_after_a_cut_anywhere(prepare)


def test_a_file_removed_for_want_of_space_does_not_return() -> None:
    def prepare(disk: SimDisk) -> int:
        store = start(disk)
        put(store, 4)
        flushed = flush(store)
        put(store, 2)
        disk.fill()
        message = Message(topic="T", queue_id=0, body=b"x" * 200)
        assert store.put(message).status is PutStatus.SERVICE_NOT_AVAILABLE
        disk.free()
        disk.release_locks()
        return flushed

    check_recovers_after_a_cut_anywhere(prepare)


def test_a_file_without_space_does_not_return_after_a_clean_close() -> None:
    """A clean start refuses a short file, because all files have their full size after a clean close."""
    for seed in range(60):  # three of them bring the short file back
        disk = make_disk(seed)
        store = start(disk, queue_file_size=6000)
        disk.fill(free_bytes=8192)  # for a file of the log, and half a file of the queue
        message = Message(topic="T", queue_id=1, body=b"x")
        assert store.put(message).status is PutStatus.SERVICE_NOT_AVAILABLE
        disk.free()
        put(store)
        store.close()
        disk.power_cut()
        disk.power_on()
        assert start(disk, queue_file_size=6000).end_offset > 0


def test_a_flush_under_way_survives_a_truncation_of_its_files() -> None:
    disk = make_disk()
    store = start(disk)
    put(store, 4)
    task = store.begin_flush()
    assert task is not None
    store.truncate(0)  # removes the second file, which the task holds open
    put(store)
    task.run()
    assert (
        store.finish_flush(task) == 0
    )  # the task cannot vouch for what was put after the truncation
    assert flush(store) == store.end_offset


def test_cut_at_every_operation_of_a_whole_life() -> None:
    """Power cut at operation 1, 2, 3, ... until the story ends before the cut: nothing flushed is lost."""
    operation = 0
    struck = True
    while struck:
        operation += 1
        disk = make_disk(operation)
        disk.cut_at(operation)
        promised_end = 0
        struck = False
        try:
            store = start(disk)
            for _ in range(4):
                put(store, 2)
                promised_end = flush(store)
                store.dispatch()
            store.close()
        except PowerCut:
            struck = True
        disk.power_cut()
        disk.power_on()
        assert start(disk).end_offset >= promised_end
    assert operation > 40
