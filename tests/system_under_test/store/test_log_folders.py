"""A log in several folders: which file goes where, what is refused, and what a power cut may do to names."""

from __future__ import annotations

import errno
from contextlib import suppress
from dataclasses import replace

import pytest

from staticfire.harness.simulation.disk.disk import PowerCut, SimDisk, SimFile
from staticfire.system_under_test.runtime.env import DiskUsage
from staticfire.system_under_test.store.errors import StoreError, StoreLocked
from staticfire.system_under_test.store.log_folders import LogFolders
from staticfire.system_under_test.store.results import PutStatus
from staticfire.system_under_test.store.retention_config import RetentionConfig
from tests.system_under_test.store.store_on_disk import StoreOnDisk, make_message

A, B, C = "/data/a/commitlog", "/data/b/commitlog", "/data/c/commitlog"


def in_folders(*folders: str, seed: object = 0) -> StoreOnDisk:
    on_disk = StoreOnDisk(seed)
    on_disk.config = replace(on_disk.config, log_folders=folders)
    on_disk.open()
    return on_disk


def put(on_disk: StoreOnDisk, count: int) -> None:
    """Each message takes more than half of a file of the log."""
    on_disk.put_visible(*(make_message(b"%03d" % number * 200) for number in range(count)))


def files(on_disk: StoreOnDisk, folder: str) -> list[int]:
    return sorted(int(name) // 1024 for name in on_disk.files(folder))


def test_file_n_goes_to_folder_n_in_order_of_names() -> None:
    on_disk = in_folders(B, A, C)
    put(on_disk, 7)
    assert [files(on_disk, folder) for folder in (A, B, C)] == [[0, 3, 6], [1, 4], [2, 5]]
    bodies = on_disk.bodies()
    on_disk.store.close()
    assert on_disk.open().clean
    assert on_disk.bodies() == bodies
    assert len(bodies) == 7


@pytest.mark.parametrize("folder", [A, "/store/commitlog"])
def test_two_stores_with_one_log_folder_exclude_each_other(folder: str) -> None:
    first = in_folders(A, B) if folder == A else in_folders()
    second = StoreOnDisk()
    second.disk = first.disk
    second.config = replace(first.config, root="/other", log_folders=(folder, C))
    with pytest.raises(StoreLocked, match=f"^commit log folder {folder} is in use by another"):
        second.open()
    put(first, 3)
    first.store.close()
    second.config = replace(second.config, log_folders=(C,))
    second.open()


def test_full_folders_are_left_out_as_long_as_there_are_others() -> None:
    full = {A}
    folders = LogFolders((A, B, C), is_full=full.__contains__)
    assert [folders.for_file(number)[0] for number in range(4)] == [B, C, B, C]
    full |= {B, C}
    assert [folders.for_file(number)[0] for number in range(4)] == [A, B, C, A]


def test_the_level_of_forced_cleaning_is_what_full_means(monkeypatch: pytest.MonkeyPatch) -> None:
    used = {A: 86, B: 85}

    def disk_usage(disk: SimDisk, path: str) -> DiskUsage:
        return DiskUsage(total_bytes=100_000, free_bytes=100_000 - 1000 * used.get(path, 0))

    monkeypatch.setattr(SimDisk, "disk_usage", disk_usage)
    on_disk = in_folders(A, B)
    put(on_disk, 3)
    assert (files(on_disk, A), files(on_disk, B)) == ([], [0, 1, 2])
    used[A] = 99
    on_disk.store.disks.check()
    assert not on_disk.store.disks.is_full  # there is a folder with space
    used[B] = 91
    on_disk.store.disks.check()
    assert on_disk.store.disks.is_full


def test_what_does_not_fit_into_one_folder_goes_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    allocate = SimFile.allocate

    def allocate_outside_b(file: SimFile, size: int) -> None:
        if file.path.startswith(B):
            raise OSError(errno.ENOSPC, "no space")
        allocate(file, size)

    monkeypatch.setattr(SimFile, "allocate", allocate_outside_b)
    on_disk = in_folders(A, B)
    put(on_disk, 3)
    assert (files(on_disk, A), files(on_disk, B)) == ([0, 1, 2], [])


def test_read_only_folders_are_read_and_get_no_new_files() -> None:
    on_disk = in_folders(A, B)
    put(on_disk, 4)
    bodies = on_disk.bodies()
    on_disk.store.close()
    on_disk.config = replace(on_disk.config, read_only_log_folders=(A,))
    on_disk.open()
    assert on_disk.bodies() == bodies
    put(on_disk, 3)
    assert (files(on_disk, A), files(on_disk, B)) == ([0, 2], [1, 3, 4, 5, 6])


def test_all_folders_read_only_is_refused() -> None:
    on_disk = StoreOnDisk()
    with pytest.raises(ValueError, match="every folder of the commit log is read-only"):
        replace(on_disk.config, log_folders=(A, B), read_only_log_folders=(B, A))


@pytest.mark.parametrize("missing", [1, 2])
def test_a_gap_is_refused(missing: int) -> None:
    on_disk = in_folders(A, B)
    put(on_disk, 5)
    on_disk.store.close()
    folder = (A, B)[missing % 2]
    on_disk.disk.unlink(f"{folder}/{missing * 1024:020d}")
    with pytest.raises(
        StoreError, match=rf"does not continue the files before it: {missing * 1024:020d}"
    ):
        on_disk.open()


def test_a_folder_that_is_not_mentioned_any_more_is_a_gap() -> None:
    on_disk = in_folders(A, B)
    put(on_disk, 5)
    on_disk.store.close()
    on_disk.config = replace(on_disk.config, log_folders=(A,))
    with pytest.raises(StoreError, match="does not continue the files before it"):
        on_disk.open()


def test_the_same_file_in_two_folders_is_refused() -> None:
    on_disk = in_folders(A, B)
    put(on_disk, 3)
    on_disk.store.close()
    on_disk.disk.open(f"{B}/{0:020d}", create=True).allocate(1024)
    with pytest.raises(StoreError, match=f"{B}/{0:020d} does not continue"):
        on_disk.open()


@pytest.mark.parametrize("seed", range(40))
def test_a_cut_across_folders_survives_a_power_cut_at_any_operation(seed: int) -> None:
    on_disk = in_folders(A, B, C, seed=seed)
    put(on_disk, 8)
    results = on_disk.bodies()
    on_disk.disk.cut_at(1 + seed // 2)
    with suppress(PowerCut):
        on_disk.store.truncate(2048)
    on_disk.cut_power()
    on_disk.open()
    assert on_disk.bodies() == results[: len(on_disk.bodies())]
    assert len(on_disk.bodies()) >= 2
    assert on_disk.store.put(make_message()).status is PutStatus.PUT_OK


@pytest.mark.parametrize("seed", range(30))
def test_old_files_go_in_order_across_folders_and_restarts(seed: int) -> None:
    """A process that dies between unlink and sync must not let the next one make a gap durable."""
    on_disk = in_folders(A, B, C, seed=seed)
    on_disk.config = replace(
        on_disk.config, retention=RetentionConfig(reserved_ms=0, delete_hours=tuple(range(24)))
    )
    put(on_disk, 9)
    on_disk.flush_queues()
    on_disk.kill()
    on_disk.open()
    removals = on_disk.store.retention.clean()
    next(removals).run()
    next(removals)
    on_disk.disk.unlink(f"{B}/{1024:020d}")  # and then the process dies
    on_disk.kill()
    on_disk.open()
    removals = on_disk.store.retention.clean()
    next(removals).run()
    on_disk.cut_power()
    on_disk.open()
    assert on_disk.store.min_offset == 3 * 1024
