"""The checkpoint: up to which store time log and consume queues are known to be durable (RocketMQ, StoreCheckpoint).

One 4096-byte page; its three int64 lie in one sector, so a power cut leaves the old or the new values, never a mixture.
Recovery rebuilds everything from the log file that holds this time. So the times may be too early, never too late: the
store reads them before it begins the fsync that they stand for.
"""

from __future__ import annotations

import struct

from staticfire.system_under_test.runtime.env import File, Storage

CHECKPOINT_SIZE = 4096
# minTimestamp lies this far before the times in the file (RocketMQ, StoreCheckpoint.getMinTimestamp).
REWIND_MS = 3000
_TIMES = struct.Struct(">qqq")


class Checkpoint:
    """physicMsgTimestamp, logicsMsgTimestamp and indexMsgTimestamp of the file, in ms since 1970."""

    __slots__ = ("_file", "_path", "_storage", "index_ms", "logics_ms", "physic_ms")

    def __init__(self, storage: Storage, path: str) -> None:
        self._storage = storage
        self._path = path
        self._file: File | None = None
        self.physic_ms = 0
        self.logics_ms = 0
        self.index_ms = 0

    def open(self, *, forgets: bool = False) -> None:
        """Read the times; a missing or short file yields zero for all of them.

        `forgets`: drop the page cache first. Times whose fsync failed exist only there; by them recovery could cut a
        file that is whole by the times on the disk.
        """
        self._file = self._storage.open(self._path, create=True)
        if forgets:
            self._file.forget_cache()
        data = self._file.pread(_TIMES.size, 0)
        if len(data) == _TIMES.size:
            self.physic_ms, self.logics_ms, self.index_ms = _TIMES.unpack(data)
        if self._file.size() < CHECKPOINT_SIZE:
            self._file.allocate(CHECKPOINT_SIZE)

    @property
    def min_timestamp_ms(self) -> int:
        """Records stored up to this time are durable, and so are their queue entries."""
        return max(0, min(self.physic_ms, self.logics_ms) - REWIND_MS)

    def write(self, *, physic_ms: int, logics_ms: int, index_ms: int) -> None:
        """Write the times; durable after the next `sync`. Until then the times on disk are older, which is safe."""
        assert self._file is not None
        self._file.pwrite(_TIMES.pack(physic_ms, logics_ms, index_ms), 0)
        self.physic_ms = physic_ms
        self.logics_ms = logics_ms
        self.index_ms = index_ms

    def sync(self) -> None:
        """Make what was written durable; may run in another thread."""
        assert self._file is not None
        self._file.fsync()

    def lower_to(self, time_ms: int) -> None:
        """Lower all times to at most `time_ms`, durably: the log is about to end there."""
        index_ms = min(self.index_ms, max(time_ms - 1, 0))
        if max(self.physic_ms, self.logics_ms) > time_ms or self.index_ms > index_ms:
            self.write(
                physic_ms=min(self.physic_ms, time_ms),
                logics_ms=min(self.logics_ms, time_ms),
                index_ms=index_ms,
            )
            self.sync()

    def lower_index_to(self, time_ms: int) -> None:
        """Lower the time of the index to at most `time_ms`, durably: index files that end later are about to be cut."""
        if self.index_ms > time_ms:
            self.write(physic_ms=self.physic_ms, logics_ms=self.logics_ms, index_ms=time_ms)
            self.sync()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
