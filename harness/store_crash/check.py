"""Compares the files and the answers of a recovered store with the model of a storage crash cycle."""

from __future__ import annotations

import struct

from staticfire.harness.simulation.disk.disk import SimDisk
from staticfire.harness.store_crash.model import LogModel, PromiseBroken, QueueKey
from staticfire.harness.store_crash.plan import LOG_FOLDERS, QUEUES, ROOT
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.index.key_search import KeyFound, KeyQuery
from staticfire.system_under_test.store.reading.reading import GetStatus

_LOG_FOLDERS = tuple(f"{folder}/" for folder in LOG_FOLDERS)
_QUEUE_FOLDER = f"{ROOT}/consumequeue/"
_INDEX_FOLDER = f"{ROOT}/index/"
_INDEX_HEADER = struct.Struct(">qqqqii")  # times, offsets, slots used, number of the next entry
_END_OF_TIME_MS = (1 << 63) - 1


class StoreComparison:
    """Compares a store with the model. It reads the store's files, since the store's own view is no evidence."""

    def __init__(self, disk: SimDisk, model: LogModel, log_file_size: int) -> None:
        self._disk = disk
        self._model = model
        self._log_file_size = log_file_size

    def check(self, store: MessageStore) -> None:
        """Check that the log holds what was put, and that queues and answers agree with it. Raises PromiseBroken."""
        end = store.end_offset
        if store.flushed_offset != end:
            raise PromiseBroken(f"recovered to {end}, but flushed only {store.flushed_offset}")
        self._model.check_log(end, self.read_log)
        self._check_nothing_beyond(end)
        for queue in QUEUES:
            self._check_queue_file(queue)
            self._check_queue_answers(queue, store)
        self._check_keys(store)

    def check_index_files(self) -> None:
        """Check the headers of the index files that a clean close has left: RocketMQ searches a file by its times.

        After the clock was set back the last time may be that of an earlier message. Of deleted messages only
        the order of the times matters.
        """
        stored_ms = {put.physical_offset: put.stored_ms for put in self._model.kept}
        latest_ms = max((put.stored_ms for put in self._model.puts), default=0)
        for path, content in self._disk.snapshot().items():
            if not path.startswith(_INDEX_FOLDER):
                continue
            begin_ms, end_ms, begin, end, _, next_number = _INDEX_HEADER.unpack_from(content)
            if next_number <= 1:
                continue
            first_ms, last_ms = stored_ms.get(begin, begin_ms), stored_ms.get(end, begin_ms)
            if begin_ms != first_ms or not last_ms <= end_ms <= max(latest_ms, begin_ms):
                raise PromiseBroken(
                    f"{path} is of {begin_ms} to {end_ms}; its messages are of {first_ms} to {last_ms}"
                )

    def files(self) -> dict[str, bytes]:
        """Log and queue files, without those that hold nothing: they may be made and dropped at will."""
        return {
            path: content
            for path, content in self._disk.snapshot().items()
            if path.startswith((*_LOG_FOLDERS, _QUEUE_FOLDER)) and content.strip(b"\0")
        }

    def read_log(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes of the commit-log file that holds `offset`; b"" if there is none."""
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
        expected = self._model.entries(queue)[int(names[0]) if names else 0 :]
        if content[: len(expected)] != expected:
            raise PromiseBroken(f"consume queue {queue} does not agree with the log")
        if content[len(expected) :].strip(b"\0"):
            raise PromiseBroken(f"consume queue {queue} has stale entries beyond its end")

    def _check_queue_answers(self, queue: QueueKey, store: MessageStore) -> None:
        expected = self._model.records(queue)
        first, end = self._model.first(queue), self._model.count(queue)
        bounds = store.queue_bounds(*queue)
        if bounds != (first, end):
            raise PromiseBroken(f"consume queue {queue} is {bounds}, not {(first, end)}")
        found: list[bytes] = []
        while len(found) < len(expected):
            offset = first + len(found)
            answer = store.get(*queue, offset, 32, None)
            if answer.status is not GetStatus.FOUND or answer.next_offset <= offset:
                raise PromiseBroken(f"{queue} offset {offset} answers {answer.status}")
            found += answer.records
        if found != expected:
            raise PromiseBroken(f"{queue} does not give back what was put")

    def _check_keys(self, store: MessageStore) -> None:
        """Every message is found by each of its keys, once, and nothing else is."""
        expected: dict[tuple[str, str], list[bytes]] = {}
        for put in self._model.kept:
            for key in put.keys:
                expected.setdefault((put.queue[0], key), []).append(put.raw)
        for (topic, key), records in expected.items():
            found = store.find_by_key(KeyQuery(topic, key, len(records) + 1, 0, _END_OF_TIME_MS))
            if found.records != records:
                raise PromiseBroken(
                    f"key {key} of {topic} leads to {len(found.records)} messages, not the {len(records)} put"
                )
            self._check_end_of_index(found)

    def _check_end_of_index(self, found: KeyFound) -> None:
        """An answer says up to which message the index reaches, and when that was stored.

        The clock may have been set back since: then it says a time of an earlier message.
        """
        last = next(put for put in reversed(self._model.kept) if put.keys)
        if found.last_update_offset != last.physical_offset:
            raise PromiseBroken(
                f"the index reaches up to {found.last_update_offset}, not {last.physical_offset}"
            )
        latest_ms = max(put.stored_ms for put in self._model.puts)
        if not last.stored_ms <= found.last_update_ms <= latest_ms:
            raise PromiseBroken(
                f"the index reaches up to a message of {found.last_update_ms};"
                f" it was stored at {last.stored_ms}, and none after {latest_ms}"
            )
