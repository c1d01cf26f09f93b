"""A file of this machine, as nodes use it."""

from __future__ import annotations

import errno
import fcntl
import os
import sys

ZEROS_AHEAD_MAX = 1 << 20  # bytes
_PAGE_SIZE = 4096
_ZEROS = bytes(ZEROS_AHEAD_MAX + _PAGE_SIZE)
_UNKNOWN = 1 << 62  # behind the end of every file
# Never a valid descriptor: every call raises EBADF; for -1 some would raise ValueError.
_CLOSED = (1 << 31) - 1


class RealFile:
    """An open file. Its lock belongs to this descriptor: closing another one of the same file does not drop it.

    A sync after the first write to an allocated block has to wait for the journal of the file system, because the block
    becomes a written one. So a write that reaches such blocks also writes zeros to those that come next, as databases
    do with their logs, and most syncs write data alone. This happens only in a file that was allocated when it was
    empty, so that everything behind the last byte written is known to be zeros. Nothing else may write to the file
    meanwhile, neither another handle nor another thread.
    """

    __slots__ = ("_allocated", "_descriptor", "_zeros_from")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        # bytes from here to `_allocated` have never been written; _UNKNOWN: some may have been, or no zeros are wanted
        self._zeros_from = _UNKNOWN
        self._allocated = _UNKNOWN

    def pread(self, size: int, offset: int) -> bytes:
        data = os.pread(self._descriptor, size, offset)
        if len(data) == size or not data:
            return data
        return data + self.pread(size - len(data), offset + len(data))

    def pwrite(self, data: bytes | bytearray | memoryview, offset: int) -> None:
        try:
            written = os.pwrite(self._descriptor, data, offset)
        except OSError:
            self._zeros_from = _UNKNOWN
            raise
        # after a signal, or before a full disk: the next call says which
        if written < len(data):
            self._zeros_from = _UNKNOWN
            self.pwrite(memoryview(data)[written:], offset + written)
        elif offset + written > self._zeros_from:
            self._write_zeros_after(offset, offset + written)

    def _write_zeros_after(self, start: int, end: int) -> None:
        """Write zeros behind a write from `start` to `end`: as many bytes as the file has, up to ZEROS_AHEAD_MAX."""
        if start > self._zeros_from:  # not written from beginning to end: an index, for example
            self._zeros_from = _UNKNOWN
            return
        ahead = end + min(end, ZEROS_AHEAD_MAX)
        self._zeros_from = min(ahead + -ahead % _PAGE_SIZE, self._allocated)
        if end < self._zeros_from:
            self.pwrite(memoryview(_ZEROS)[: self._zeros_from - end], end)
        else:
            self._zeros_from = _UNKNOWN  # nothing is left to write

    def allocate(self, size: int) -> None:
        was_empty = not self.size()
        os.posix_fallocate(self._descriptor, 0, size)
        self._zeros_from, self._allocated = (0, size) if was_empty else (_UNKNOWN, _UNKNOWN)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)
        self._zeros_from = _UNKNOWN

    def fsync(self) -> None:
        os.fsync(self._descriptor)

    def fdatasync(self) -> None:
        os.fdatasync(self._descriptor)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def content_ranges(self, offset: int) -> list[tuple[int, int]]:
        size = self.size()
        ranges = []
        while offset < size:
            try:
                offset = os.lseek(self._descriptor, offset, os.SEEK_DATA)
                end = os.lseek(self._descriptor, offset, os.SEEK_HOLE)
            except OSError as error:
                if error.errno == errno.ENXIO:  # a hole up to the end
                    break
                if error.errno != errno.EINVAL:
                    raise
                end = size  # a file system that does not know its holes
            ranges.append((offset, end))
            offset = end
        return ranges

    def forget_cache(self) -> None:
        if sys.platform == "linux":
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def try_lock(self) -> bool:
        """Take both kinds of lock: one of the open file description, and a record lock on the first byte as Java does.

        The kernel drops a process's record locks when it closes any descriptor of the file; the first lock stays.
        """
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except (BlockingIOError, PermissionError):  # POSIX allows either answer
            return False
        return True

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        if self._descriptor != _CLOSED:
            descriptor, self._descriptor = self._descriptor, _CLOSED
            os.close(descriptor)
