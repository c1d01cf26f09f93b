"""One simulated file: its content in the page cache and on the platter, and the writes between them.

A file is a sparse byte string: `Content.data` ends at the last byte ever written, and the rest up to `Content.size`
reads as zeros. A commit log of 1 GiB therefore takes only the memory of the bytes written to it. The inode keeps two of
them, and the ordered list of changes that are not durable yet. A sync takes time: it covers the changes made before it
began and makes them durable when it ends. A power cut (`crash`) decides what is left of all other changes.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Sequence, Set
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
    made_ns: int = 0


class Sync(NamedTuple):
    """A sync or a write-back of one file, begun and perhaps not ended."""

    begin_ns: int
    end_ns: int
    covered: int  # number of the file's changes, from the first, when the sync was called
    failed: Set[int] | None = None  # blocks that the device will not write; None: the sync succeeds
    keeps_cache: bool = False  # whether processes still read the lost bytes after the failure


def _end_of(sync: Sync) -> int:
    return sync.end_ns


class Content:
    """A sparse byte string: bytes beyond `data` and below `size` are zeros."""

    __slots__ = ("data", "size")

    def __init__(self) -> None:
        self.data = bytearray()
        self.size = 0

    def read(self, size: int, offset: int) -> bytes:
        end = offset + size
        if end > self.size:
            end = self.size
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
        kind, at, data, _ = change
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
        "in_flight",
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
        self.in_flight: list[Sync] = []  # in the order in which they end
        self.allocated_bytes = 0  # whole blocks, counted from the start of the file
        self.is_cache_stale = (
            False  # a failed fsync: the cache differs from the platter without a change to sync
        )
        # After a failed fsync whose pages stayed in the cache: later writes to these ranges stay in the cache, too.
        self.unwritable: list[tuple[int, int]] = []
        self.sync_failures = 0  # so far; each open file reports them once (Linux: errseq_t)
        self.links = 0
        self.open_files = 0
        self.lock_holder: object | None = None
        self.modified_ns = now_ns

    @property
    def in_flight_changes(self) -> int:
        """The number of changes, from the first one, that the syncs in flight cover."""
        return max((sync.covered for sync in self.in_flight), default=0)

    @property
    def waiting_bytes(self) -> int:
        """Bytes of the writes that no sync in flight covers."""
        if not self.in_flight:
            return self.dirty_bytes
        return sum(len(change.data) for change in self.changes[self.in_flight_changes :])

    def begin_sync(self, begin_ns: int, end_ns: int) -> None:
        """Begin a sync that makes all present changes durable at `end_ns`."""
        insort(self.in_flight, Sync(begin_ns, end_ns, len(self.changes)), key=_end_of)

    def settle(self, now_ns: int) -> None:
        """Apply the syncs that ended by `now_ns`: make the changes that they cover durable."""
        while self.in_flight and self.in_flight[0].end_ns <= now_ns:
            self._land(self.in_flight.pop(0))

    def _land(self, sync: Sync) -> None:
        """Apply one sync, without changes made after it began: a job lists all its changes at once."""
        durable = self.durable
        covered = self.changes[: sync.covered]
        arrived = [change for change in covered if change.made_ns <= sync.begin_ns]
        later = [change for change in covered if change.made_ns > sync.begin_ns]
        self.dirty_bytes -= sum(len(change.data) for change in arrived)
        if sync.failed is not None:
            arrived = self._lose(arrived, sync.failed, keep_cache=sync.keeps_cache)
        for change in arrived:
            durable.apply(change)
        self.changes[: sync.covered] = later
        landed = sync.covered - len(later)
        if self.in_flight:
            self.in_flight = [
                left._replace(covered=max(left.covered - landed, 0)) for left in self.in_flight
            ]
        if sync.failed is not None:
            self.sync_failures += 1
            self.is_cache_stale = True
            if not sync.keeps_cache:
                self._read_again()

    def _lose(
        self, changes: Sequence[Change], failed: Set[int], *, keep_cache: bool
    ) -> list[Change]:
        """Return the changes that survive a failed sync; a lost write leaves its size, which is journalled."""
        left, lost = [], []
        for change in changes:
            for part in split_at_blocks(change) if change.kind == ChangeKind.WRITE else (change,):
                if part.kind == ChangeKind.WRITE and part.at // BLOCK_SIZE in failed:
                    lost.append(part)
                    left.append(Change(ChangeKind.EXTEND, part.at + len(part.data)))
                else:
                    left.append(part)
        if keep_cache:
            self.unwritable += self._new_blocks(lost)
        return left

    def covered_blocks(self, begin_ns: int, end_ns: int) -> list[int]:
        """Return the numbers of written blocks that this sync covers and no earlier one does, in order."""
        before = 0
        for sync in self.in_flight:
            if (sync.begin_ns, sync.end_ns) == (begin_ns, end_ns):
                return blocks_of(self.changes[before : sync.covered])
            before = max(before, sync.covered)
        return []

    def fail_sync(self, begin_ns: int, end_ns: int, failed: Set[int], *, keep_cache: bool) -> int:
        """Make this sync in flight fail to write these blocks; return their number of written bytes."""
        self.in_flight = [
            sync._replace(failed=failed, keeps_cache=keep_cache)
            if (sync.begin_ns, sync.end_ns) == (begin_ns, end_ns)
            else sync
            for sync in self.in_flight
        ]
        covered = [sync.covered for sync in self.in_flight if sync.failed is failed]
        writes = [change for change in self.changes[: max(covered, default=0)] if change.data]
        return sum(
            len(part.data)
            for write in writes
            for part in split_at_blocks(write)
            if part.at // BLOCK_SIZE in failed
        )

    def cancel_sync(self, begin_ns: int, end_ns: int) -> None:
        """Remove this sync, as if it had not begun."""
        self.in_flight = [
            sync for sync in self.in_flight if (sync.begin_ns, sync.end_ns) != (begin_ns, end_ns)
        ]

    def move_sync(self, begin_ns: int, end_ns: int, new_begin_ns: int, new_end_ns: int) -> None:
        """Give this sync new times."""
        self.in_flight = sorted(
            (
                sync._replace(begin_ns=new_begin_ns, end_ns=new_end_ns)
                if (sync.begin_ns, sync.end_ns) == (begin_ns, end_ns)
                else sync
                for sync in self.in_flight
            ),
            key=_end_of,
        )

    def undo_after(self, now_ns: int) -> bool:
        """Drop the changes with a time after `now_ns`; return whether there were any."""
        made = [change for change in self.changes if change.made_ns <= now_ns]
        if len(made) == len(self.changes):
            return False
        self.changes = made
        self.dirty_bytes = sum(len(change.data) for change in made)
        return True

    def do_by(self, now_ns: int) -> None:
        """Move the time of later changes to `now_ns`."""
        if any(change.made_ns > now_ns for change in self.changes):
            self.changes = [
                change._replace(made_ns=min(change.made_ns, now_ns)) for change in self.changes
            ]

    def waiting_blocks(self) -> list[int]:
        """Return the numbers of written blocks that no sync in flight covers, in order."""
        return blocks_of(self.changes[self.in_flight_changes :])

    def drop_dirty_pages(self, failed: Set[int], *, keep_cache: bool) -> int:
        """Drop unsynced writes as Linux does after a failed fsync; return the number of bytes lost.

        `failed` holds the numbers of the blocks that the device did not take. The other writes stay in the list, and
        the fsync covers them. Changes that an earlier sync in flight covers stay as they are.

        The next fsync succeeds and reports no error (the "fsyncgate" of PostgreSQL, 2018). Size changes are journalled
        metadata and stay, so the lost part of a grown file reads as zeros. With `keep_cache` processes still read the
        lost bytes, which never reach the platter. In new blocks even a second write does not reach it: ext4 assumes
        that the page has its blocks, and a remount shows zeros (seen with Linux 6.18).
        """
        first = self.in_flight_changes
        kept = self.changes[:first]
        lost: list[Change] = []
        for change in self.changes[first:]:
            if change.kind != ChangeKind.WRITE:
                kept.append(change)
            else:
                for part in split_at_blocks(change):
                    (lost if part.at // BLOCK_SIZE in failed else kept).append(part)
        if keep_cache:
            self.unwritable += self._new_blocks(lost)
        kept.append(Change(ChangeKind.EXTEND, self.cached.size))
        self.changes = kept
        lost_bytes = sum(len(part.data) for part in lost)
        self.dirty_bytes -= lost_bytes
        self.is_cache_stale = True
        if not keep_cache:
            self._read_again()
        return lost_bytes

    def _new_blocks(self, writes: list[Change]) -> list[tuple[int, int]]:
        """Return the ranges of these writes, in whole blocks, beyond the end of the data on the platter."""
        known = whole_blocks(len(self.durable.data))
        ranges = [
            (write.at - write.at % BLOCK_SIZE, write.at + len(write.data)) for write in writes
        ]
        return [(max(start, known), whole_blocks(end)) for start, end in ranges if end > known]

    def writable_parts(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the parts of a range from which a write can reach the platter."""
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
        """Forget the unwritable pages beyond the new end of the file."""
        limit = whole_blocks(size)
        self.unwritable = [(at, min(end, limit)) for at, end in self.unwritable if at < limit]

    def forget_cache(self) -> None:
        """Drop clean pages of the cache, so that they are read from the platter again."""
        if not self.is_cache_stale:
            return
        self._read_again()
        self.is_cache_stale = False
        self.unwritable.clear()

    def _read_again(self) -> None:
        """Rebuild the page cache from the platter and the changes that are not durable yet."""
        self.cached = self.durable.copy()
        for change in self.changes:
            self.cached.apply(change)


def blocks_of(changes: Sequence[Change]) -> list[int]:
    """Return the numbers of the blocks that these changes write to, in order."""
    blocks = {
        block
        for change in changes
        if change.data
        for block in range(
            change.at // BLOCK_SIZE, (change.at + len(change.data) - 1) // BLOCK_SIZE + 1
        )
    }
    return sorted(blocks)


def split_at_blocks(write: Change) -> Iterator[Change]:
    """Yield the parts of a write, one for each block."""
    start, end = write.at, write.at + len(write.data)
    while start < end:
        stop = min(end, start - start % BLOCK_SIZE + BLOCK_SIZE)
        part = write.data[start - write.at : stop - write.at]
        yield Change(ChangeKind.WRITE, start, part, write.made_ns)
        start = stop


def whole_blocks(size: int) -> int:
    """Round `size` bytes up to whole blocks."""
    return -(-size // BLOCK_SIZE) * BLOCK_SIZE
