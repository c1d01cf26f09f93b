"""Checks of every `Storage`, the simulated one and the real one. They take a storage and an empty folder."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from staticfire.system_under_test.runtime.env import File, Storage

Check = Callable[[Storage, str], None]


def make_file(storage: Storage, path: str, data: bytes = b"") -> File:
    file = storage.open(path, create=True)
    file.pwrite(data, 0)
    return file


def check_written_bytes_are_read(storage: Storage, root: str) -> None:
    file = make_file(storage, f"{root}/a", b"hello world")
    file.pwrite(bytearray(b"HE"), 0)
    file.pwrite(memoryview(b"xWORLDx")[1:6], 6)
    assert file.pread(100, 0) == b"HEllo WORLD"
    assert file.pread(3, 2) == b"llo"
    assert file.size() == 11


def check_reads_end_with_the_file(storage: Storage, root: str) -> None:
    file = make_file(storage, f"{root}/a", b"abc")
    assert file.pread(10, 2) == b"c"
    assert file.pread(10, 3) == b""
    assert file.pread(10, 99) == b""


def check_holes_read_as_zeros(storage: Storage, root: str) -> None:
    file = make_file(storage, f"{root}/a", b"ab")
    file.pwrite(b"z", 5)
    assert file.pread(10, 0) == b"ab\0\0\0z"


def check_all_handles_see_one_file(storage: Storage, root: str) -> None:
    first = make_file(storage, f"{root}/a", b"abc")
    second = storage.open(f"{root}/a")
    second.pwrite(b"B", 1)
    first.close()
    assert second.pread(3, 0) == b"aBc"


def check_a_forgotten_cache_loses_nothing(storage: Storage, root: str) -> None:
    file = make_file(storage, f"{root}/a", b"synced")
    file.fsync()
    file.pwrite(b"S", 0)
    file.forget_cache()
    assert file.pread(10, 0) == b"Synced"
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.forget_cache()


def check_allocate_grows_and_never_shrinks(storage: Storage, root: str) -> None:
    file = make_file(storage, f"{root}/a", b"abc")
    file.allocate(10_000)
    assert file.size() == 10_000
    assert file.pread(5, 0) == b"abc\0\0"
    file.allocate(10)
    assert file.size() == 10_000


def check_truncate_cuts_for_good(storage: Storage, root: str) -> None:
    file = make_file(storage, f"{root}/a", b"abcdef")
    file.truncate(2)
    assert file.size() == 2
    file.allocate(4)
    assert file.pread(10, 0) == b"ab\0\0"
    file.truncate(6)
    assert file.pread(10, 0) == b"ab\0\0\0\0"


def check_content_is_found_behind_holes(storage: Storage, root: str) -> None:
    file = make_file(storage, f"{root}/a", b"abc")
    file.allocate(1 << 20)
    file.pwrite(b"x", 600_000)
    for offset in (0, 1, 3, 600_000, 600_001, (1 << 20) - 1, 1 << 20, 2 << 20):
        ranges = file.content_ranges(offset)
        assert ranges == sorted(ranges)
        assert all(offset <= start < end <= 1 << 20 for start, end in ranges)
        for place in (0, 2, 600_000):
            assert place < offset or any(start <= place < end for start, end in ranges)


def check_syncs_keep_the_content(storage: Storage, root: str) -> None:
    file = make_file(storage, f"{root}/a", b"abc")
    file.fsync()
    file.pwrite(b"d", 3)
    file.fdatasync()
    storage.fsync_dir(root)
    assert file.pread(10, 0) == b"abcd"


def check_open_needs_create_for_a_new_name(storage: Storage, root: str) -> None:
    with pytest.raises(FileNotFoundError):
        storage.open(f"{root}/a")
    storage.open(f"{root}/a", create=True).close()
    make_file(storage, f"{root}/a", b"kept").close()
    assert storage.open(f"{root}/a", create=True).pread(9, 0) == b"kept"


def check_open_refuses_folders_and_missing_parents(storage: Storage, root: str) -> None:
    with pytest.raises(IsADirectoryError):
        storage.open(root)
    with pytest.raises(FileNotFoundError):
        storage.open(f"{root}/no/a", create=True)


def check_a_closed_file_refuses_everything(storage: Storage, root: str) -> None:
    file = make_file(storage, f"{root}/a", b"abc")
    file.close()
    file.close()
    calls: list[Callable[[], object]] = [
        lambda: file.pread(1, 0),
        lambda: file.pwrite(b"x", 0),
        lambda: file.allocate(1),
        lambda: file.truncate(0),
        file.fsync,
        file.fdatasync,
        file.size,
        lambda: file.content_ranges(0),
        file.try_lock,
    ]
    for call in calls:
        with pytest.raises(OSError, match="Bad file descriptor") as caught:
            call()
        assert caught.value.errno == errno.EBADF


def check_a_lock_excludes_others_until_close(storage: Storage, root: str) -> None:
    first = make_file(storage, f"{root}/lock")
    second = storage.open(f"{root}/lock")
    assert first.try_lock()
    assert first.try_lock()
    assert not second.try_lock()
    storage.open(f"{root}/lock").close()  # must not drop the lock of `first`
    assert not second.try_lock()
    first.close()
    assert second.try_lock()


def check_listdir_names_the_entries(storage: Storage, root: str) -> None:
    storage.makedirs(f"{root}/d/e")
    make_file(storage, f"{root}/d/f")
    make_file(storage, f"{root}/g")
    assert sorted(storage.listdir(root)) == ["d", "g"]
    assert sorted(storage.listdir(f"{root}/d")) == ["e", "f"]
    with pytest.raises(FileNotFoundError):
        storage.listdir(f"{root}/no")
    with pytest.raises(NotADirectoryError):
        storage.listdir(f"{root}/g")


def check_makedirs_makes_parents_once(storage: Storage, root: str) -> None:
    storage.makedirs(f"{root}/a/b/c")
    storage.makedirs(f"{root}/a/b")
    assert storage.exists(f"{root}/a/b/c")
    assert storage.listdir(f"{root}/a") == ["b"]
    make_file(storage, f"{root}/file")
    with pytest.raises(FileExistsError):
        storage.makedirs(f"{root}/file")
    with pytest.raises(NotADirectoryError):
        storage.makedirs(f"{root}/file/below")


def check_rename_replaces_the_target(storage: Storage, root: str) -> None:
    source = make_file(storage, f"{root}/new", b"new")
    target = make_file(storage, f"{root}/old", b"old")
    storage.rename(f"{root}/new", f"{root}/old")
    assert storage.listdir(root) == ["old"]
    assert storage.open(f"{root}/old").pread(9, 0) == b"new"
    assert source.pread(9, 0) == b"new"
    assert target.pread(9, 0) == b"old"  # an open file outlives its name


def check_rename_moves_between_folders(storage: Storage, root: str) -> None:
    storage.makedirs(f"{root}/d")
    make_file(storage, f"{root}/a", b"a")
    storage.rename(f"{root}/a", f"{root}/d/b")
    assert not storage.exists(f"{root}/a")
    assert storage.open(f"{root}/d/b").pread(9, 0) == b"a"


def check_rename_refuses_what_cannot_be(storage: Storage, root: str) -> None:
    make_file(storage, f"{root}/a")
    storage.makedirs(f"{root}/d")
    with pytest.raises(FileNotFoundError):
        storage.rename(f"{root}/no", f"{root}/b")
    with pytest.raises(FileNotFoundError):
        storage.rename(f"{root}/a", f"{root}/no/b")
    with pytest.raises(IsADirectoryError):
        storage.rename(f"{root}/a", f"{root}/d")
    assert storage.exists(f"{root}/a")


def check_unlink_removes_the_name(storage: Storage, root: str) -> None:
    file = make_file(storage, f"{root}/a", b"abc")
    storage.unlink(f"{root}/a")
    assert not storage.exists(f"{root}/a")
    assert file.pread(9, 0) == b"abc"
    with pytest.raises(FileNotFoundError):
        storage.unlink(f"{root}/a")
    storage.makedirs(f"{root}/d")
    with pytest.raises(IsADirectoryError):
        storage.unlink(f"{root}/d")


def check_rmdir_wants_an_empty_folder(storage: Storage, root: str) -> None:
    storage.makedirs(f"{root}/d/e")
    make_file(storage, f"{root}/f")
    with pytest.raises(OSError, match="not empty") as caught:
        storage.rmdir(f"{root}/d")
    assert caught.value.errno == errno.ENOTEMPTY
    storage.rmdir(f"{root}/d/e")
    storage.rmdir(f"{root}/d")
    assert not storage.exists(f"{root}/d")
    with pytest.raises(FileNotFoundError):
        storage.rmdir(f"{root}/d")
    with pytest.raises(NotADirectoryError):
        storage.rmdir(f"{root}/f")


def check_fsync_dir_wants_a_folder(storage: Storage, root: str) -> None:
    make_file(storage, f"{root}/f")
    with pytest.raises(FileNotFoundError):
        storage.fsync_dir(f"{root}/no")
    with pytest.raises(NotADirectoryError):
        storage.fsync_dir(f"{root}/f")


def check_disk_usage_is_plausible(storage: Storage, root: str) -> None:
    usage = storage.disk_usage(root)
    assert 0 < usage.free_bytes <= usage.total_bytes


def check_modified_ms_follows_writes(storage: Storage, root: str) -> None:
    make_file(storage, f"{root}/a", b"x")
    make_file(storage, f"{root}/b", b"x")
    assert 0 <= storage.modified_ms(f"{root}/a") <= storage.modified_ms(f"{root}/b")
    with pytest.raises(FileNotFoundError):
        storage.modified_ms(f"{root}/no")


CHECKS: tuple[Check, ...] = tuple(
    check for name, check in sorted(globals().items()) if name.startswith("check_")
)
