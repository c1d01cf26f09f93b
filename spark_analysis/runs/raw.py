"""Raw histories: `raw.parquet/`, rows of all queues in the order of time, for recorders other than the harness's.

manifest.json        as of a history in columns, except for its format; the queue of all parts is -2
message_events/part-<n>.parquet, ops/part-<n>.parquet, events.jsonl
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import orjson
import pyarrow as pa

from staticfire.checkers.formats.columnar.files import write_durably
from staticfire.checkers.formats.columnar.manifest import Dictionaries, Lines, Manifest, Part
from staticfire.checkers.formats.columnar.schema import EVENTS, FORMAT, MANIFEST
from staticfire.checkers.formats.columnar.writer import write_part
from staticfire.checkers.model.history import HistoryError
from staticfire.checkers.model.plain_files import read_plain

RAW_FOLDER = "raw.parquet"
RAW_FORMAT = "staticfire-raw-history"
ALL_QUEUES = -2
PART_ROWS = 1 << 21


class RawWriter:
    """Writes a raw history. Add chunks in order, each sorted by op. Methods raise OSError."""

    def __init__(self, folder: Path, run_id: str) -> None:
        """Begin a history. Raises HistoryError if the folder already has one."""
        if (folder / MANIFEST).exists():
            raise HistoryError(f"{folder} holds a history already; choose another folder")
        (folder / "message_events").mkdir(parents=True, exist_ok=True)
        (folder / "ops").mkdir(exist_ok=True)
        self._folder, self._run_id = folder, run_id
        self._held: list[pa.Table] = []
        self._held_ops: list[pa.Table] = []
        self._message_events: list[Part] = []
        self._ops: list[Part] = []
        self._events: BinaryIO = (folder / EVENTS).open("wb")
        self._lines = Lines()

    def add(self, table: pa.Table) -> None:
        self._held.append(table)
        if sum(map(len, self._held)) >= PART_ROWS:
            self._close_events()

    def add_ops(self, table: pa.Table) -> None:
        self._held_ops.append(table)
        if sum(map(len, self._held_ops)) >= PART_ROWS:
            self._close_ops()

    def add_event(self, line: bytes) -> None:
        self._events.write(line)
        lines = self._lines
        self._lines = Lines(
            rows=lines.rows + 1, bytes=lines.bytes + len(line), crc32=zlib.crc32(line, lines.crc32)
        )

    def finish(self, dictionaries: Dictionaries, ops: int) -> None:
        self._close_events()
        self._close_ops()
        self._events.close()
        manifest = Manifest(
            run_id=self._run_id,
            complete=True,
            ops=ops,
            dictionaries=dictionaries,
            message_events=self._message_events,
            op_parts=self._ops,
            events=self._lines,
        )
        document = {**manifest.to_json(), "format": RAW_FORMAT}
        write_durably(self._folder / MANIFEST, orjson.dumps(document))

    def _close_events(self) -> None:
        if self._held:
            path = f"message_events/part-{len(self._message_events)}.parquet"
            table = pa.concat_tables(self._held)
            self._message_events.append(write_part(self._folder, path, ALL_QUEUES, table))
            self._held = []

    def _close_ops(self) -> None:
        if self._held_ops:
            path = f"ops/part-{len(self._ops)}.parquet"
            self._ops.append(write_part(self._folder, path, -1, pa.concat_tables(self._held_ops)))
            self._held_ops = []


def is_raw(folder: Path) -> bool:
    """Whether the manifest in `folder` is that of a raw history. Raises HistoryError, OSError."""
    try:
        document = orjson.loads(read_plain(folder / MANIFEST))
    except orjson.JSONDecodeError as error:
        raise HistoryError(f"{folder / MANIFEST} is not JSON ({error.msg})") from error
    return isinstance(document, dict) and document.get("format") == RAW_FORMAT


def read_raw_manifest(folder: Path) -> Manifest:
    """Read the manifest of a raw history. Raises HistoryError, OSError."""
    path = folder / MANIFEST
    try:
        document: Mapping[str, object] = orjson.loads(read_plain(path))
        return Manifest.from_json({**document, "format": FORMAT})
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise HistoryError(f"{path} is no manifest of a raw history: {error}") from error
