"""Writes the columns of a history in a thread of its own, so that no client waits for a disk.

The JSON lines are written before any process acts on an op; the columns hold the same history for checkers that read
whole queues. An error in writing columns never ends a run: the columns are marked as torn, and `check` reads the lines.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

from staticfire.checkers.formats.columnar.manifest import Lines
from staticfire.checkers.formats.columnar.recording import ColumnarRecorder
from staticfire.checkers.model.history import HistoryError, Op, encode_op

FLUSH_S = 30.0  # a crash of the harness loses at most this much of the columns
CHUNK = 1 << 13  # rows at a time: the thread shares the interpreter with the run


class ColumnKeeper:
    """Takes each op with its JSON line as it is recorded, from one thread."""

    def __init__(self, folder: Path, run_id: str, *, flush_s: float = FLUSH_S) -> None:
        self._folder, self._run_id, self._flush_s = folder, run_id, flush_s
        self._queue: SimpleQueue[tuple[Op, bytes] | None] = SimpleQueue()
        self._failure: str | None = None
        self._thread = Thread(target=self._work, name="columns", daemon=True)
        self._thread.start()

    def add(self, op: Op, line: bytes) -> None:
        """Queue the op for the thread. Never raises, never waits."""
        self._queue.put((op, line))

    def close(self) -> str | None:
        """Write the rest; return why the columns are incomplete, or None. Waits for the disk."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()
        return self._failure

    def finished(self) -> Path | None:
        """Close; return the folder of the columns, or None if they are incomplete."""
        return self._folder if self.close() is None else None

    def _work(self) -> None:
        try:
            with ColumnarRecorder(self._folder, self._run_id, chunk=CHUNK) as recorder:
                self._write(recorder)
        except HistoryError as error:
            self._failure = str(error)
        except OSError as error:
            self._failure = f"{error.filename or self._folder} cannot be written: {error.strerror}"
        while self._failure is not None and self._queue.get() is not None:
            pass  # from now on ops are kept as lines alone

    def _write(self, recorder: ColumnarRecorder) -> None:
        lines = Lines()
        flush_at = time.monotonic() + self._flush_s
        while True:
            left_s = flush_at - time.monotonic()
            if left_s <= 0:
                recorder.flush()
                flush_at = time.monotonic() + self._flush_s
                continue
            try:
                item = self._queue.get(timeout=left_s)
            except Empty:
                continue
            if item is None:
                recorder.finish(source=lines)
                return
            op, line = item
            recorder.add(op)
            lines = lines.plus(line)


def write_columns(folder: Path, run_id: str, ops: Iterable[Op]) -> None:
    """Write the columns of a run that is over. Raises HistoryError, OSError."""
    lines = Lines()
    with ColumnarRecorder(folder, run_id) as recorder:
        for op in ops:
            recorder.add(op)
            lines = lines.plus(encode_op(op))
        recorder.finish(source=lines)
