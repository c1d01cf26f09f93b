"""What one simulated file holds: its content in the page cache and on the platter, and what lies between.

A file is a sparse byte string: `Content.data` ends at the last byte ever written, everything up to `Content.size`
reads as zeros, so that a commit log of 1 GiB costs only what was put into it. The inode keeps two of them, and the
ordered list of changes that no fsync has covered yet; a power cut (`disk_crash`) decides what becomes of those.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

BLOCK_SIZE = 4096  # space is reserved in blocks, as ext4 and XFS do


class ChangeKind(IntEnum):
    WRITE = 0
    TRUNCATE = 1
    EXTEND = 2  # allocate: the size grows, the content stays


class Change(NamedTuple):
    """One change of a file that is not durable yet."""

    kind: ChangeKind
    at: int  # WRITE: offset of the data; TRUNCATE and EXTEND: the new size
    data: bytes = b""


class Content:
    """A sparse byte string: bytes beyond `data` and below `size` are zeros."""

    __slots__ = ("data", "size")

    def __init__(self) -> None:
        self.data = bytearray()
        self.size = 0

    def read(self, size: int, offset: int) -> bytes:
        end = min(offset + size, self.size)
        if end <= offset:
            return b""
        return bytes(self.data[offset:end]).ljust(end - offset, b"\0")

    def write(self, data: bytes, offset: int) -> None:
        stored = self.data
        end = offset + len(data)
        if offset == len(stored):
            stored += data
        else:
            if offset > len(stored):
                stored.extend(bytes(offset - len(stored)))
            stored[offset:end] = data
        if end > self.size:
            self.size = end

    def truncate(self, size: int) -> None:
        del self.data[size:]
        self.size = size

    def extend(self, size: int) -> None:
        if size > self.size:
            self.size = size

    def apply(self, change: Change) -> None:
        kind, at, data = change
        if kind == ChangeKind.WRITE:
            self.write(data, at)
        elif kind == ChangeKind.TRUNCATE:
            self.truncate(at)
        else:
            self.extend(at)

    def copy(self) -> Content:
        twin = Content()
        twin.data = self.data[:]
        twin.size = self.size
        return twin

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Content):
            return NotImplemented
        return self.size == other.size and self.data.rstrip(b"\0") == other.data.rstrip(b"\0")

    __hash__ = None  # type: ignore[assignment]  # mutable


class Inode:
    """A file apart from its name: content, unsynced changes, reserved space, links and lock."""

    __slots__ = (
        "allocated_bytes",
        "cached",
        "changes",
        "dirty_bytes",
        "durable",
        "is_cache_stale",
        "links",
        "lock_holder",
        "modified_ns",
        "open_files",
        "sync_failures",
        "unwritable",
    )

    def __init__(self, now_ns: int) -> None:
        self.cached = Content()
        self.durable = Content()
        self.changes: list[Change] = []
        self.dirty_bytes = 0  # bytes of the WRITE changes
        self.allocated_bytes = 0  # whole blocks, counted from the start of the file
        self.is_cache_stale = (
            False  # a failed fsync: the cache differs from the platter without a change to sync
        )
        # After a failed fsync whose pages stayed in the cache: what is written to these ranges again goes nowhere else.
        self.unwritable: list[tuple[int, int]] = []
        self.sync_failures = 0  # so far; each open file is told once (Linux: errseq_t)
        self.links = 0
        self.open_files = 0
        self.lock_holder: object | None = None
        self.modified_ns = now_ns

    def sync(self) -> int:
        """Make everything durable; return how many bytes went to the platter."""
        durable = self.durable
        for change in self.changes:
            durable.apply(change)
        synced = self.dirty_bytes
        self.changes.clear()
        self.dirty_bytes = 0
        return synced

    def drop_dirty_pages(self, *, keep_cache: bool) -> int:
        """Forget unsynced writes as Linux does after a failed fsync; return the bytes lost.

        The next fsync succeeds without a word (the "fsyncgate" of PostgreSQL, 2018). Size changes are journalled
        metadata and stay, so the lost part of a grown file reads as zeros. With `keep_cache` processes go on reading
        what was written, although it will never reach the platter; in new blocks not even when it is written again:
        ext4 takes the page for one whose blocks are there, and a remount shows zeros (seen with Linux 6.18).
        """
        if keep_cache:
            self.unwritable += self._new_blocks()
        metadata = [change for change in self.changes if change.kind != ChangeKind.WRITE]
        metadata.append(Change(ChangeKind.EXTEND, self.cached.size))
        if not keep_cache:
            self.cached = self.durable.copy()
            for change in metadata:
                self.cached.apply(change)
        lost = self.dirty_bytes
        self.changes = metadata
        self.dirty_bytes = 0
        self.is_cache_stale = True
        return lost

    def _new_blocks(self) -> list[tuple[int, int]]:
        """Where unsynced writes go that the platter has never had anything of."""
        known = whole_blocks(len(self.durable.data))
        writes = [change for change in self.changes if change.kind == ChangeKind.WRITE]
        ranges = [
            (write.at - write.at % BLOCK_SIZE, write.at + len(write.data)) for write in writes
        ]
        return [(max(start, known), whole_blocks(end)) for start, end in ranges if end > known]

    def writable_parts(self, start: int, end: int) -> list[tuple[int, int]]:
        """The parts of a range that a write brings on its way to the platter."""
        parts = [(start, end)]
        for lost_start, lost_end in self.unwritable:
            parts = [
                part
                for begin, stop in parts
                for part in ((begin, min(stop, lost_start)), (max(begin, lost_end), stop))
                if part[0] < part[1]
            ]
        return parts

    def cut_unwritable(self, size: int) -> None:
        """The pages behind a new end are gone."""
        limit = whole_blocks(size)
        self.unwritable = [(at, min(end, limit)) for at, end in self.unwritable if at < limit]

    def forget_cache(self) -> None:
        """Read from the platter again whatever is not on its way there."""
        if not self.is_cache_stale:
            return
        self.cached = self.durable.copy()
        for change in self.changes:
            self.cached.apply(change)
        self.is_cache_stale = False
        self.unwritable.clear()


def whole_blocks(size: int) -> int:
    """Round `size` bytes up to whole blocks."""
    return -(-size // BLOCK_SIZE) * BLOCK_SIZE
