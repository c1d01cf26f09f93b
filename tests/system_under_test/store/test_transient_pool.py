"""Puts that stay in the memory of the process: what can be read, what a kill takes, and when the pool is empty."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staticfire.system_under_test.protocol.message import decode_records
from staticfire.system_under_test.store.results import PutResult, PutStatus
from staticfire.system_under_test.store.transient_pool import NO_POOL_BUFFERS, PoolConfig
from tests.system_under_test.store.store_on_disk import StoreOnDisk, make_message

FILE_SIZE = 16_384


def with_pool(*, file_size: int = FILE_SIZE, **options: object) -> StoreOnDisk:
    on_disk = StoreOnDisk(log_file_size=file_size)
    on_disk.config = replace(on_disk.config, pool=PoolConfig(**options))  # type: ignore[arg-type]
    on_disk.open()
    return on_disk


def test_what_is_not_committed_cannot_be_read_replicated_or_consumed() -> None:
    on_disk = with_pool()
    store, result = on_disk.store, on_disk.put()
    store.write_out()
    assert (store.readable_end, store.end_offset) == (0, result.end_offset)
    assert store.look_up(0) is None
    assert store.read_raw(0, 1000) == b""
    assert store.begin_flush() is None
    assert store.dispatch() == []
    assert store.record_start_before(result.end_offset) == 0
    store.commit()
    assert store.readable_end == result.end_offset
    assert len(list(decode_records(store.read_raw(0, 1000)))) == 1
    on_disk.flush()
    assert [message.queue_offset for message in store.dispatch()] == [0]


def test_a_kill_takes_what_is_not_committed_and_nothing_else() -> None:
    on_disk = with_pool()
    on_disk.put(make_message(b"kept"))
    on_disk.store.commit()
    on_disk.put(make_message(b"lost"))
    on_disk.kill()
    on_disk.open()
    assert on_disk.bodies() == [b"kept"]
    assert on_disk.put().queue_offset == 1


def test_a_graceful_end_takes_nothing() -> None:
    on_disk = with_pool()
    on_disk.put(make_message(b"kept"))
    on_disk.store.close()
    assert on_disk.open().clean
    assert on_disk.bodies() == [b"kept"]


def test_a_flush_vouches_for_no_more_than_was_committed_when_it_began() -> None:
    on_disk = with_pool()
    first = on_disk.put()
    on_disk.store.commit()
    task = on_disk.store.begin_flush()
    assert task is not None
    on_disk.put()
    task.run()
    assert on_disk.store.finish_flush(task) == first.end_offset


def test_four_pages_are_enough_to_write() -> None:
    on_disk = with_pool()
    end = 0
    while end < 4 * 4096:
        on_disk.store.write_out()
        assert on_disk.store.readable_end == 0
        end = on_disk.put(make_message(bytes(500))).end_offset
    on_disk.store.write_out()
    assert on_disk.store.readable_end == on_disk.store.end_offset


def test_a_full_file_is_enough_to_write() -> None:
    on_disk = with_pool(file_size=1024, commit_pages=1000)
    while len(on_disk.files("/store/commitlog")) < 2:
        on_disk.store.write_out()
        assert on_disk.store.readable_end == 0
        on_disk.put()
    on_disk.store.write_out()
    assert on_disk.store.readable_end == on_disk.store.end_offset


@pytest.mark.parametrize("fails_fast", [True, False])
def test_without_a_buffer_a_new_file_is_refused_or_the_rest_committed(fails_fast: bool) -> None:
    on_disk = with_pool(file_size=1024, buffers=2, commit_pages=1000, fails_fast=fails_fast)
    store = on_disk.store
    emptied = []
    store.when_pool_is_empty(lambda: emptied.append(store.buffers_left))
    assert store.buffers_left == 2
    results: list[PutResult] = []
    while not results or results[-1].end_offset < 2048 - 600:
        results.append(on_disk.put(make_message(bytes(400))))
    assert (store.buffers_left, emptied) == (0, [0])
    result = store.put(make_message(bytes(400)))
    if fails_fast:
        assert result.status is PutStatus.CREATE_MAPPED_FILE_FAILED
        assert result.reason == "create mapped file failed, server is busy or broken."
        assert store.readable_end == 0
        store.commit()
        assert store.buffers_left == 1
        result = store.put(make_message(bytes(400)))
    assert result.status is PutStatus.PUT_OK
    assert store.readable_end == results[-1].end_offset
    store.commit()
    on_disk.flush()
    store.dispatch()
    assert len(on_disk.bodies()) == len(results) + 1


def test_without_a_pool_there_is_always_a_buffer() -> None:
    on_disk = StoreOnDisk()
    on_disk.open()
    assert on_disk.store.buffers_left == NO_POOL_BUFFERS
