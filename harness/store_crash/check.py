"""Compares the files of a recovered store with the model of a storage crash cycle."""

from __future__ import annotations

import struct

from staticfire.harness.simulation.disk.disk import SimDisk
from staticfire.harness.store_crash.answers import QueueFile
from staticfire.harness.store_crash.index_files import IndexShape, check_index
from staticfire.harness.store_crash.model import LogModel, PromiseBroken, QueueKey
from staticfire.harness.store_crash.plan import LOG_FOLDERS, QUEUES, ROOT
from staticfire.system_under_test.store.assembly.message_store import MessageStore

_LOG_FOLDERS = tuple(f"{folder}/" for folder in LOG_FOLDERS)
_QUEUE_FOLDER = f"{ROOT}/consumequeue/"
_INDEX_FOLDER = f"{ROOT}/index/"
ENTRY_SIZE = 20  # bytes of an entry of a consume queue
_FILLER = struct.pack(">qiq", 0, 0x7FFFFFFF, 0)  # fills a queue file before the queue's first entry


class StoreComparison:
    """Compares the files of a store with the model. The store's own view of them would prove nothing."""

    def __init__(
        self,
        disk: SimDisk,
        model: LogModel,
        *,
        log_file_size: int,
        queue_file_size: int,
        index_shape: IndexShape,
    ) -> None:
        self._disk = disk
        self._model = model
        self._log_file_size = log_file_size
        self._queue_file_size = queue_file_size
        self._index_shape = index_shape

    def check(self, store: MessageStore) -> None:
        """Check that the log holds all that was put, and that the queues agree with the log. Raises PromiseBroken."""
        end = store.end_offset
        if store.flushed_offset != end:
            raise PromiseBroken(f"recovered to {end}, but flushed only {store.flushed_offset}")
        self._model.check_log(end, self.read_log)
        self._check_nothing_beyond(end)
        for queue in QUEUES:
            self._check_queue_file(queue)
        self.check_checkpoint()

    def check_index_files(self) -> None:
        """Check that a clean close left the index files that follow from the log. Raises IndexWrong."""
        files = sorted(self._disk.snapshot().items())
        check_index(
            [(path, content) for path, content in files if path.startswith(_INDEX_FOLDER)],
            self._model.index_keys,
            self._model.min_offset,
            self._index_shape,
        )

    def files(self) -> dict[str, bytes]:
        """Return log and queue files by path, without empty ones, which the store may make and drop at any time."""
        return {
            path: content
            for path, content in self._disk.snapshot().items()
            if path.startswith((*_LOG_FOLDERS, _QUEUE_FOLDER)) and content.strip(b"\0")
        }

    def changed_since(self, before: dict[str, bytes]) -> list[str]:
        """Return the paths at which `files` differs, without queues with an entry that may lack its tag."""
        now = self.files()
        tagless = {put.queue for put in self._model.puts if put.may_lack_tags}
        folders = tuple(
            f"{_QUEUE_FOLDER}{topic}/{queue_id}/" for topic, queue_id in sorted(tagless)
        )
        return [
            path
            for path in sorted(before.keys() | now.keys())
            if before.get(path) != now.get(path) and not path.startswith(folders)
        ]

    def read_log(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes of the commit-log file that holds `offset`; b"" if there is no such file."""
        base = offset - offset % self._log_file_size
        for folder in _LOG_FOLDERS:
            path = f"{folder}{base:020d}"
            if self._disk.has(path):
                return self._disk.read_cached(path, offset - base, size)
        return b""

    def _check_nothing_beyond(self, end: int) -> None:
        base = end - end % self._log_file_size
        while rest := self.read_log(max(base, end), self._log_file_size):
            if rest.strip(b"\0"):
                raise PromiseBroken(f"bytes of an older record lie beyond the end {end}")
            base += self._log_file_size

    def _check_queue_file(self, queue: QueueKey) -> None:
        folder = f"{_QUEUE_FOLDER}{queue[0]}/{queue[1]}"
        names = sorted(self._disk.listdir(folder)) if self._disk.exists(folder) else []
        content = b"".join(self._disk.read_cached(f"{folder}/{name}") for name in names)
        begin = int(names[0]) if names else 0
        expected = self._expected_entries(queue, begin, content)
        if content[: len(expected)] != expected:
            raise PromiseBroken(f"consume queue {queue} does not agree with the log")
        if content[len(expected) :].strip(b"\0"):
            raise PromiseBroken(f"consume queue {queue} has stale entries beyond its end")

    def _expected_entries(self, queue: QueueKey, begin: int, content: bytes) -> bytes:
        """Return the entries from byte `begin` of the queue on. Entries of deleted messages may be fillers.

        The entry of a damaged message may lack its tag if all entries of the queue were lost meanwhile.
        """
        expected = bytearray(self._model.entries(queue)[begin:])
        gone = self._model.first(queue) * ENTRY_SIZE - begin
        for at in range(0, gone, ENTRY_SIZE):
            if content[at : at + ENTRY_SIZE] == _FILLER:
                expected[at : at + ENTRY_SIZE] = _FILLER
        for put in self._model.puts:
            if not put.may_lack_tags or put.queue != queue:
                continue
            at = put.queue_offset * ENTRY_SIZE - begin
            tagless = struct.pack(">qiq", put.physical_offset, put.size, 0)
            if at >= 0 and content[at : at + ENTRY_SIZE] == tagless:
                expected[at : at + ENTRY_SIZE] = tagless
        return bytes(expected)

    def check_checkpoint(self) -> None:
        """Check that no time in the checkpoint is later than that of the last record that must survive.

        An earlier time only makes the next start slower. With a later time, the next start would rely on records that
        may be missing.
        """
        times_ms = struct.unpack(">qqq", self._disk.read_cached(f"{ROOT}/checkpoint", 0, 24))
        vouched_ms = self._model.vouched_ms
        if max(times_ms) > vouched_ms:
            raise PromiseBroken(
                f"the checkpoint has the times {times_ms}; the last record that must survive is of {vouched_ms}"
            )

    def queue_files(self, queue: QueueKey) -> list[QueueFile]:
        """Return the files of a consume queue."""
        folder = f"{_QUEUE_FOLDER}{queue[0]}/{queue[1]}"
        names = sorted(self._disk.listdir(folder))
        size = self._queue_file_size // ENTRY_SIZE
        return [
            QueueFile(int(name) // ENTRY_SIZE, size, self._disk.modified_ms(f"{folder}/{name}"))
            for name in names
        ]

    def position_in_file(self, offset: int) -> int:
        """Return the position of `offset` in its file of the log."""
        return offset % self._log_file_size

    def log_path(self, offset: int) -> str:
        """Return the path of the log file that holds `offset`."""
        base = offset - offset % self._log_file_size
        paths = [f"{folder}{base:020d}" for folder in _LOG_FOLDERS]
        return next(path for path in paths if self._disk.has(path))
