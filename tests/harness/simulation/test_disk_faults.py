"""Faults of the simulated disk: each one bites, is counted, and ends with heal()."""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial

import pytest

from staticfire.harness.simulation.disk.disk import DiskOptions, SimDisk
from tests.support.disks import CountedCost, durable_file, make_disk

BLOCK = 4096


def raised(call: Callable[[], object]) -> int | None:
    """The errno that `call` raises."""
    with pytest.raises(OSError, match="Errno") as caught:
        call()
    return caught.value.errno


def test_a_failed_fsync_drops_the_pages_and_the_next_one_succeeds() -> None:
    disk = make_disk()
    file = durable_file(disk, data=b"old")
    file.pwrite(b"new and longer", 0)
    disk.fail_fsync()
    assert raised(file.fsync) == errno.EIO
    assert file.pread(99, 0) == b"old".ljust(14, b"\0")  # the size is metadata and stays
    file.fsync()
    assert disk.read_durable("/d/f") == b"old".ljust(14, b"\0")
    assert disk.counters.sync_errors == 1
    assert disk.counters.bytes_lost == 14


def test_a_failed_fsync_may_leave_a_cache_that_lies() -> None:
    disk = make_disk(options=DiskOptions(failed_sync_keeps_cache=True))
    file = durable_file(disk, data=b"old")
    file.pwrite(b"new", 0)
    disk.fail_fsync()
    assert raised(file.fsync) == errno.EIO
    assert file.pread(9, 0) == b"new"
    file.fsync()
    assert not disk.is_durable("/d/f", 0, 3)
    disk.power_cut()
    disk.power_on()
    assert disk.read_cached("/d/f") == b"old"


def test_a_cache_that_lies_swallows_what_is_written_again_until_it_is_forgotten() -> None:
    """Measured on ext4 of Linux 6.18 with a loop device that ends early."""
    disk = make_disk(options=DiskOptions(failed_sync_keeps_cache=True))
    file = durable_file(disk)
    file.allocate(3 * BLOCK)  # blocks that nothing was ever written to
    file.fsync()
    file.pwrite(b"lost", BLOCK + 10)
    disk.fail_fsync()
    assert raised(file.fsync) == errno.EIO
    file.pwrite(b"x" * (BLOCK + 4), BLOCK - 2)  # begins before the page, ends behind it
    file.fsync()
    assert file.pread(BLOCK + 4, BLOCK - 2) == b"x" * (BLOCK + 4)
    assert disk.read_durable("/d/f") == bytes(BLOCK - 2) + b"xx" + bytes(BLOCK) + b"xx" + bytes(
        BLOCK - 2
    )
    file.pwrite(b"dirty", 0)
    file.forget_cache()
    assert file.pread(5, 0) == b"dirty"  # is on its way
    assert file.pread(BLOCK, BLOCK) == bytes(BLOCK)
    file.pwrite(b"again", BLOCK + 10)
    file.fsync()
    disk.power_cut()
    disk.power_on()
    assert disk.read_cached("/d/f")[BLOCK + 10 :][:5] == b"again"
    assert disk.read_cached("/d/f")[:5] == b"dirty"


def test_a_cut_ends_what_the_cache_swallows_behind_it() -> None:
    disk = make_disk(2, options=DiskOptions(failed_sync_keeps_cache=True))
    file = durable_file(disk)
    file.allocate(2 * BLOCK)  # blocks that nothing was ever written to
    file.fsync()
    file.pwrite(b"lost" * BLOCK, 0)
    disk.fail_fsync()
    assert raised(file.fsync) == errno.EIO
    file.truncate(BLOCK)
    file.pwrite(b"new" * BLOCK, 0)
    file.fsync()
    assert disk.read_durable("/d/f")[:3] == bytes(3)
    assert disk.read_durable("/d/f")[BLOCK:] == (b"new" * BLOCK)[BLOCK:]


def test_a_failed_fsync_keeps_truncations() -> None:
    disk = make_disk()
    file = durable_file(disk, data=b"abcdef")
    file.truncate(2)
    file.allocate(6)
    file.pwrite(b"X", 0)
    disk.fail_fsync()
    assert raised(file.fdatasync) == errno.EIO
    assert file.pread(9, 0) == b"ab\0\0\0\0"


def test_fail_fsync_counts_and_covers_folders() -> None:
    disk = make_disk()
    file = disk.open("/d/f", create=True)
    disk.fail_fsync(2)
    assert raised(file.fsync) == errno.EIO
    assert raised(lambda: disk.fsync_dir("/d")) == errno.EIO
    assert not disk.is_durable("/d/f")
    disk.fsync_dir("/d")
    assert disk.is_durable("/d/f")


def test_a_failed_write_may_leave_a_prefix_of_whole_sectors() -> None:
    lengths = set()
    for seed in range(100):
        disk = make_disk(seed)
        file = disk.open("/d/f", create=True)
        disk.fail_write()
        assert raised(partial(file.pwrite, b"x" * 1200, 0)) == errno.EIO
        assert disk.counters.write_errors == 1
        lengths.add(file.size())
        file.pwrite(b"y", 0)
    assert lengths == {0, 512, 1024}


def test_a_full_disk_writes_short() -> None:
    """What fits may arrive, or less of it; what does not arrive takes no space."""
    sizes = set()
    for seed in range(30):
        disk = make_disk(seed)
        file = disk.open("/d/f", create=True)
        disk.fill(free_bytes=2 * BLOCK)
        assert raised(partial(file.pwrite, b"x" * (2 * BLOCK + 100), 0)) == errno.ENOSPC
        sizes.add(file.size())
        assert disk.disk_usage("/").free_bytes == 2 * BLOCK - file.size()
        assert disk.counters.no_space_errors == 1
        file.pwrite(b"y" * 2 * BLOCK, 0)
        disk.free()
        file.pwrite(b"z", 2 * BLOCK)
        assert file.size() == 2 * BLOCK + 1
    assert sizes == {0, BLOCK, 2 * BLOCK}


def test_who_looks_at_a_full_disk_has_met_it() -> None:
    disk = make_disk(1)
    disk.disk_usage("/")
    disk.fill(free_bytes=disk.free_bytes // 2)
    disk.disk_usage("/")
    assert disk.counters.full_looks == 0
    disk.fill(free_bytes=BLOCK)
    disk.disk_usage("/")
    disk.free()
    disk.disk_usage("/")
    assert disk.counters.full_looks == 1


def test_a_file_keeps_its_blocks_when_a_write_finds_no_more() -> None:
    for seed in range(10):
        disk = make_disk(seed)
        file = disk.open("/d/f", create=True)
        file.allocate(2 * BLOCK)
        disk.fill(free_bytes=0)
        assert raised(partial(file.pwrite, b"x" * 3 * BLOCK, 0)) == errno.ENOSPC
        file.pwrite(b"y" * 2 * BLOCK, 0)


def test_what_is_allocated_can_be_written_on_a_full_disk() -> None:
    disk = make_disk()
    file = disk.open("/d/f", create=True)
    disk.fill(free_bytes=3 * BLOCK)
    file.allocate(2 * BLOCK)
    other = disk.open("/d/g", create=True)
    other.allocate(BLOCK)
    file.pwrite(b"x" * 2 * BLOCK, 0)
    assert disk.disk_usage("/").free_bytes == 0


def test_an_allocation_that_is_refused_keeps_what_it_found_or_nothing() -> None:
    sizes = set()
    for seed in range(20):
        disk = make_disk(seed)
        file = disk.open("/d/f", create=True)
        disk.fill(free_bytes=BLOCK)
        assert raised(partial(file.allocate, 3 * BLOCK)) == errno.ENOSPC
        sizes.add(file.size())
        assert disk.disk_usage("/").free_bytes == BLOCK - file.size()
        file.truncate(0)
        assert disk.disk_usage("/").free_bytes == BLOCK
    assert sizes == {0, BLOCK}


def test_a_sparse_file_costs_no_space_until_written() -> None:
    disk = make_disk(options=DiskOptions(total_bytes=10 * BLOCK))
    file = disk.open("/d/f", create=True)
    file.truncate(1 << 40)
    assert disk.disk_usage("/").free_bytes == 10 * BLOCK
    assert file.pread(3, 1 << 39) == bytes(3)


def test_space_comes_back_when_the_last_user_is_gone() -> None:
    disk = make_disk(options=DiskOptions(total_bytes=10 * BLOCK))
    file = disk.open("/d/f", create=True)
    file.allocate(10 * BLOCK)
    file.truncate(4 * BLOCK)
    assert disk.disk_usage("/").free_bytes == 6 * BLOCK
    disk.unlink("/d/f")
    assert disk.disk_usage("/").free_bytes == 6 * BLOCK
    file.close()
    assert disk.disk_usage("/").free_bytes == 10 * BLOCK


def test_space_is_counted_again_after_a_power_cut() -> None:
    disk = make_disk(options=DiskOptions(total_bytes=10 * BLOCK))
    durable_file(disk, "/d/kept", b"x" * BLOCK)
    disk.unlink("/d/kept")
    disk.fsync_dir("/d")
    durable_file(disk, "/d/f", b"x" * 3 * BLOCK)
    disk.power_cut()
    disk.power_on()
    assert disk.disk_usage("/").free_bytes == 7 * BLOCK


def test_a_destroyed_disk_fails_every_call() -> None:
    disk = make_disk()
    file = durable_file(disk, data=b"abc")
    disk.destroy()
    disk.heal()
    calls: list[Callable[[], object]] = [
        lambda: file.pread(1, 0),
        lambda: file.pwrite(b"x", 0),
        file.fsync,
        file.size,
        lambda: disk.open("/d/f"),
        lambda: disk.listdir("/d"),
        lambda: disk.makedirs("/e"),
        lambda: disk.fsync_dir("/d"),
    ]
    assert [raised(call) for call in calls] == [errno.EIO] * len(calls)
    assert disk.counters.dead_disk_errors == len(calls)
    assert not disk.is_durable("/d/f")


def test_flipped_bits_are_read_back() -> None:
    disk = make_disk()
    file = durable_file(disk, data=bytes(100))
    position = disk.flip_bit("/d/f")
    assert position is not None
    damaged = disk.read_durable("/d/f")
    assert damaged == file.pread(100, 0)
    assert damaged[position].bit_count() == 1
    assert sum(damaged[:position]) == sum(damaged[position + 1 :]) == 0
    assert disk.counters.bits_flipped == 1


def test_a_dirty_page_hides_a_flipped_bit_until_the_power_fails() -> None:
    disk = make_disk()
    file = durable_file(disk, data=b"a")
    file.pwrite(b"b", 0)
    disk.flip_bit("/d/f")
    assert file.pread(1, 0) == b"b"
    assert disk.read_durable("/d/f") not in (b"a", b"b")


def test_an_empty_file_has_no_bits_to_flip() -> None:
    disk = make_disk()
    durable_file(disk)
    assert disk.flip_bit("/d/f") is None


def test_syncs_queue_for_the_device() -> None:
    cost = CountedCost()
    options = DiskOptions(fsync_ns=1000, durable_byte_ns=1.0, call_ns=1, cached_byte_ns=0.0)
    disk = make_disk(options=options)
    disk.charge = cost
    file = disk.open("/d/f", create=True)
    disk.now_ns = lambda: 10_000_000
    file.pwrite(b"x" * 50, 0)
    assert cost.last_ns == 1
    file.fsync()
    assert cost.last_ns == 1050
    file.fsync()  # asked at the same instant: waits for the first
    assert cost.last_ns == 2050


def test_slow_stretches_syncs_until_healed() -> None:
    cost = CountedCost()
    disk = make_disk(options=DiskOptions(fsync_ns=1000))
    disk.charge = cost
    file = durable_file(disk)
    disk.now_ns = lambda: 10_000_000
    disk.slow(5.0)
    file.fsync()
    assert cost.last_ns == 5000
    assert disk.counters.slow_ns == 4000
    disk.heal()
    disk.now_ns = lambda: 20_000_000
    file.fsync()
    assert cost.last_ns == 1000


def test_heal_ends_what_can_end() -> None:
    disk = make_disk()
    file = durable_file(disk)
    disk.fill()
    disk.fail_write(9)
    disk.fail_fsync(9)
    disk.cut_at(1)
    disk.heal()
    file.pwrite(b"x", 0)
    file.fsync()
    assert disk.read_durable("/d/f") == b"x"


def test_a_lock_ends_with_its_process() -> None:
    disk = make_disk()
    first = disk.open("/d/lock", create=True)
    assert first.try_lock()
    disk.release_locks()
    assert disk.open("/d/lock").try_lock()
    with pytest.raises(OSError, match="Bad file descriptor"):
        first.try_lock()


def test_is_durable_asks_for_these_bytes() -> None:
    disk = make_disk()
    file = durable_file(disk, data=b"abcdef")
    file.pwrite(b"X", 3)
    file.pwrite(b"ghi", 6)
    assert disk.is_durable("/d/f", 0, 3)
    assert not disk.is_durable("/d/f", 0, 4)
    assert disk.is_durable("/d/f", 4, 2)
    assert not disk.is_durable("/d/f", 4, 3)
    assert not disk.is_durable("/d/nothing")


def test_modified_ms_counts_from_the_epoch() -> None:
    disk = SimDisk(
        random=make_disk().random,
        now_ns=lambda: 7_000_000,
        charge=lambda ns: None,
        epoch_ms=1_700_000_000_000,
    )
    disk.open("/f", create=True).pwrite(b"x", 0)
    assert disk.modified_ms("/f") == 1_700_000_000_007


def test_a_wiped_disk_is_empty_whatever_happens_next() -> None:
    disk = make_disk()
    durable_file(disk, data=b"x" * 5000).close()
    free_before = disk.free_bytes
    assert disk.wipe() == 5000
    assert disk.listdir("/") == []
    assert disk.free_bytes > free_before
    disk.power_cut()
    disk.power_on()
    assert not disk.exists("/d/f")
    assert disk.wipe() == 0
    disk.makedirs("/d")
    durable_file(disk, data=b"new")
    assert disk.read_durable("/d/f") == b"new"
