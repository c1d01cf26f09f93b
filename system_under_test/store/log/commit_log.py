"""The broker's log of records (RocketMQ, CommitLog): places records and writes their bytes to the files.

Offsets are physical offsets. `flushed_offset` <= `written_offset` <= `end_offset`: on the disk, in the page cache,
appended. Bytes between the last two wait in a buffer; a caller that wants to read them calls `write_out` first. With a
transient store pool they stay there until `commit`, or until enough of them wait, and cannot be read before.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator

from staticfire.system_under_test.protocol.message import MAGIC_BLANK
from staticfire.system_under_test.runtime.env import Storage
from staticfire.system_under_test.store.errors import NoBuffer
from staticfire.system_under_test.store.log_folders import LogFolders
from staticfire.system_under_test.store.mapped_file import MappedFile, MappedFileQueue
from staticfire.system_under_test.store.record_scan import BLANK_HEADER, BLANK_HEADER_SIZE
from staticfire.system_under_test.store.transient_pool import NO_POOL_BUFFERS, PAGE_SIZE, PoolConfig

BUFFER_SIZE_MAX = 256 << 10
# Distance in bytes between remembered record starts; between two of them, searches go from record to record.
MARK_DISTANCE = 16 << 10
# the log remembers the exact starts of at least so many newest records: 8 to 16 MiB
STARTS_MAX = 1 << 20


class CommitLog:
    """Appends, reads and cuts bytes. Of records it only knows where they start."""

    __slots__ = (
        "_buffer",
        "_cut_files",
        "_marks",
        "_pool",
        "_starts",
        "end_offset",
        "file_size",
        "files",
        "flushed_offset",
        "on_pool_empty",
        "written_offset",
    )

    def __init__(
        self,
        storage: Storage,
        folders: LogFolders,
        file_size: int,
        *,
        cut_files: Callable[[MappedFileQueue, int], None] = MappedFileQueue.cut,
        pool: PoolConfig | None = None,
    ) -> None:
        self._pool = pool
        self.on_pool_empty: Callable[[], None] = lambda: None
        self._cut_files = cut_files
        self.files = MappedFileQueue(
            storage, folders.all[0], file_size, folders=folders.all, choose=folders.for_file
        )
        self.file_size = file_size
        self.end_offset = 0
        self.written_offset = 0
        self.flushed_offset = 0
        self._buffer = bytearray()
        self._marks: list[int] = []  # some record starts, ascending
        self._starts = array("q")  # the starts of the newest records, ascending, without a gap

    @property
    def min_offset(self) -> int:
        return self.files.first_offset if self.files.files else self.end_offset

    def begin_at(self, offset: int) -> None:
        """Set the end of the log to `offset`, up to which the files are filled."""
        self.end_offset = self.written_offset = self.flushed_offset = offset

    # --- append ----------------------------------------------------------------------------------------------------

    def reserve(self, size: int) -> int:
        """Return where a record of `size` bytes will start, and make the file for it.

        Raises NoSpace or NoBuffer if the next file cannot be made; the log is then unchanged. Raises OSError.
        """
        end = self.end_offset
        if end >= self.files.end_of_files:
            self._create_next(end - end % self.file_size)
            return end
        room = self.file_size - end % self.file_size
        # A record never spans two files, and must leave room behind it for a blank.
        if size + BLANK_HEADER_SIZE <= room:
            return end
        if end + room >= self.files.end_of_files:
            self._create_next(end + room)
        return end + room

    def _create_next(self, base: int) -> None:
        pool = self._pool
        if pool is not None and not self.buffers_left:
            if pool.fails_fast:
                raise NoBuffer("create mapped file failed, server is busy or broken.")
            self.commit()  # RocketMQ goes on without a buffer
        self.files.create_next(base)
        if not self.buffers_left:
            self.on_pool_empty()

    @property
    def buffers_left(self) -> int:
        """How many more files may be begun before something is committed."""
        if self._pool is None:
            return NO_POOL_BUFFERS
        first = self.written_offset - self.written_offset % self.file_size
        return max(0, self._pool.buffers - (self.files.end_of_files - first) // self.file_size)

    def append(self, record: bytes | bytearray, offset: int) -> None:
        """Append a record at the offset that `reserve` returned. Raises OSError if a write fails."""
        if offset != self.end_offset:
            self._end_file()
        assert offset == self.end_offset
        self.mark(offset)
        self._buffer += record
        self.end_offset = offset + len(record)
        if len(self._buffer) > BUFFER_SIZE_MAX and self._pool is None:
            self.commit()

    def _end_file(self) -> None:
        room = self.file_size - self.end_offset % self.file_size
        self._buffer += BLANK_HEADER.pack(room, MAGIC_BLANK)
        if self._pool is not None:
            self._buffer += bytes(room - BLANK_HEADER_SIZE)
            self.end_offset += room
            return
        self.commit()
        self.end_offset += room
        self.written_offset = self.end_offset

    def append_raw(self, data: bytes | bytearray | memoryview) -> None:
        """Append bytes of another replica's log at the end; they may cross ends of files.

        Raises NoSpace, with the log unchanged, or OSError.
        """
        self.commit()
        end = self.end_offset + len(data)
        while end > self.files.end_of_files:
            self.files.create_next(self.files.end_of_files if self.files.files else self.end_offset)
        self.files.write(self.end_offset, data)
        self.end_offset = self.written_offset = end

    def write_out(self) -> None:
        """Commit, unless a pool waits for more bytes. Raises OSError; the store must stop then."""
        if self._pool is None or self._is_commit_due(self._pool):
            self.commit()

    def _is_commit_due(self, pool: PoolConfig) -> bool:
        """Whether enough pages wait, or a file is full (RocketMQ, MappedFile.isAbleToCommit)."""
        start, end = self.written_offset, self.end_offset
        if start // self.file_size != end // self.file_size:
            return True
        return end // PAGE_SIZE - start // PAGE_SIZE >= pool.commit_pages

    def commit(self) -> None:
        """Write the buffer to the page cache. Raises OSError; the store must stop then."""
        if self._buffer:
            self.files.write(self.written_offset, self._buffer)
            self.written_offset += len(self._buffer)
            self._buffer = bytearray()

    # --- read ------------------------------------------------------------------------------------------------------

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` written bytes from `offset`; never across the end of a file."""
        written = self.written_offset - offset
        if size > written:
            size = written
        return self.files.read(offset, size) if size > 0 else b""

    def mark(self, offset: int) -> None:
        """Remember that a record starts at `offset`."""
        self.note_start(offset)
        marks = self._marks
        if not marks or offset - marks[-1] >= MARK_DISTANCE:
            marks.append(offset)

    def note_start(self, offset: int) -> None:
        """Like `mark`, for a record whose size may be damaged, so that it does not lead to the next record."""
        starts = self._starts
        if starts and offset <= starts[-1]:  # recovery walks once more, from the first file
            del starts[bisect_left(starts, offset) :]
        starts.append(offset)
        if len(starts) > 2 * STARTS_MAX:
            del starts[:-STARTS_MAX]

    def may_start_at(self, offset: int) -> bool:
        """False if no record starts at `offset`; True if one does, or if the log does not know."""
        starts = self._starts
        number = bisect_right(starts, offset)
        return number == 0 or starts[number - 1] == offset

    def knows_starts_at(self, offset: int) -> bool:
        """Whether the answer of `may_start_at` for `offset` is certain.

        It is for the newest records that were appended, or walked by recovery, since the store was opened.
        """
        return bool(self._starts) and offset >= self._starts[0]

    def record_start_before(self, offset: int) -> int:
        """The last position at or before `offset` where a record or blank starts, or where the written bytes end."""
        start = max(self.min_offset, min(offset, self.written_offset))
        for position in self._starts_up_to(start):
            start = position
        return start

    def _starts_up_to(self, offset: int) -> Iterator[int]:
        position = max(self.min_offset, offset - offset % self.file_size)
        number = bisect_right(self._marks, offset)
        if number:
            position = max(position, self._marks[number - 1])
        while True:
            yield position
            header = self.read(position, BLANK_HEADER_SIZE)
            size = BLANK_HEADER.unpack(header)[0] if len(header) == BLANK_HEADER_SIZE else 0
            if size <= 0 or position + size > offset:
                return
            position += size

    # --- cut -------------------------------------------------------------------------------------------------------

    def cut(self, offset: int) -> None:
        """End the log at `offset`, durably; the store's policy decides what happens to the bytes beyond it."""
        self._cut_files(self.files, offset)
        self.files.sync_new_files()
        self._marks = [mark for mark in self._marks if mark < offset]
        del self._starts[bisect_left(self._starts, offset) :]
        self._buffer = bytearray()
        self.end_offset = self.written_offset = offset
        self.flushed_offset = min(self.flushed_offset, offset)

    def drop_first_file(self) -> MappedFile:
        """Let the log begin with its second file; return the first, which the caller removes from the disk."""
        dropped = self.files.drop_first()
        dropped.close()
        del self._marks[: bisect_left(self._marks, self.min_offset)]
        return dropped
