"""Files of this machine: the zeros that are written ahead. test_real_env.py and the disk's contract have the rest."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from random import Random

import pytest

from staticfire.system_under_test.runtime.real_env import RealStorage
from staticfire.system_under_test.runtime.real_file import ZEROS_AHEAD_MAX

Writes = list[tuple[int, int]]  # offset and size of each write that reached the kernel


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> Writes:
    seen: Writes = []
    pwrite = os.pwrite

    def note(descriptor: int, data: bytes, offset: int) -> int:
        seen.append((offset, len(data)))
        return pwrite(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", note)
    return seen


def test_zeros_are_written_ahead_of_a_log(tmp_path: Path, writes: Writes) -> None:
    size = 8 * ZEROS_AHEAD_MAX
    file = RealStorage().open(str(tmp_path / "log"), create=True)
    file.allocate(size)
    end = 0
    while end < size:
        record = b"r" * min(100_000, size - end)
        file.pwrite(record, end)
        end += len(record)
    zeros = [(offset, count) for offset, count in writes if count != 100_000]
    assert zeros[0] == (100_000, 100_704)  # as many bytes as the file has, up to the end of a page
    assert all(ZEROS_AHEAD_MAX <= count < ZEROS_AHEAD_MAX + 4096 for _, count in zeros[4:-2])
    assert len(zeros) < 14
    assert file.pread(size, 0) == b"r" * size
    assert file.size() == size


@pytest.mark.parametrize("seed", range(20))
def test_zeros_replace_nothing(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte is the one that was written last, in a file that was allocated, cut and opened again.

    Writes go anywhere; some are short, and some fail after that.
    """
    random = Random(seed)
    size = 200_000
    storage, path = RealStorage(), str(tmp_path / "file")
    file = storage.open(path, create=True)
    file.allocate(size)
    expected = bytearray(size)
    pwrite = os.pwrite
    fails = [False]

    def some(descriptor: int, data: bytes, offset: int) -> int:
        """Write a part of it now and then, as before a signal; the next call may fail."""
        if fails[0]:
            fails[0] = False
            raise OSError(errno.EIO, "EIO")
        if seed % 2 and random.random() < 0.1:
            data = data[: random.randrange(1, len(data) + 1)]
            fails[0] = random.random() < 0.5
        return pwrite(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", some)
    end = 0
    for _ in range(60):
        move = random.random()
        if move < 0.03:
            file.truncate(end := random.randrange(size))
            if random.random() < 0.5:
                file.allocate(size)
            else:
                file.truncate(size)
            expected[end:] = bytes(size - end)
        elif move < 0.06:
            file.close()
            file = storage.open(path)
        else:
            if move < 0.06 + 0.2 * (seed % 4):  # not at the end: none in every fourth seed
                end = random.randrange(size)
            data = random.randbytes(min(random.randrange(1, 6000), size - end))
            try:
                file.pwrite(data, end)
            except OSError:  # the bytes may be there or not, but no other byte has changed
                before = expected[end : end + len(data)]
                found = file.pread(len(data), end)
                assert all(new in pair for new, *pair in zip(found, data, before, strict=True))
                data = found
            expected[end : end + len(data)] = data
            end = (end + len(data)) % size
        assert file.pread(size, 0) == expected
        assert file.size() == size


def test_no_zeros_are_written_into_a_file_that_is_not_written_from_its_beginning(
    tmp_path: Path, writes: Writes
) -> None:
    file = RealStorage().open(str(tmp_path / "index"), create=True)
    file.allocate(1_000_000)
    file.pwrite(b"h" * 40, 0)
    file.pwrite(b"slot", 500_000)
    file.pwrite(b"e" * 10_000, 4_000)
    assert writes == [(0, 40), (40, 4_056), (500_000, 4), (4_000, 10_000)]


def test_no_zeros_are_written_into_a_file_that_has_content(tmp_path: Path, writes: Writes) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"old")
    file = RealStorage().open(str(path))
    file.allocate(100_000)
    file.pwrite(b"new", 0)
    assert writes == [(0, 3)]
