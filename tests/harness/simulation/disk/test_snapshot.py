"""The files of a disk at one moment."""

from __future__ import annotations

import sys

import pytest

from staticfire.harness.simulation.disk.inode import Content
from staticfire.harness.simulation.disk.snapshot import Snapshot


def content(data: bytes, size: int) -> Content:
    made = Content()
    made.write(data, 0)
    made.extend(size)
    return made


def test_files_are_as_they_were_then() -> None:
    file = content(b"then", 4)
    snapshot = Snapshot([("/file", file)])
    file.write(b"later", 0)
    assert snapshot == {"/file": b"then"}
    assert "/file" in snapshot
    assert "/other" not in snapshot
    with pytest.raises(KeyError):
        snapshot["/other"]


def test_unwritten_zeros_take_no_memory_until_they_are_read() -> None:
    snapshot = Snapshot([(f"/{number}", content(b"ab", 1 << 20)) for number in range(3)])
    assert sum(sys.getsizeof(data) for data, _ in snapshot._files.values()) < 1000
    assert snapshot["/1"] == b"ab".ljust(1 << 20, b"\0")
    assert list(snapshot) == ["/0", "/1", "/2"]
