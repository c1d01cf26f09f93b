"""History files that are not regular files, or too large: one sentence, and no byte is read."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from staticfire.checkers.formats.columnar import reader
from staticfire.checkers.formats.columnar.events import read_events
from staticfire.checkers.formats.columnar.files import crc_of_file
from staticfire.checkers.formats.columnar.manifest import (
    Dictionaries,
    Lines,
    Manifest,
    Part,
    read_manifest,
    write_manifest,
)
from staticfire.checkers.formats.columnar.reader import ColumnarHistory
from staticfire.checkers.formats.columnar.schema import EVENTS, MANIFEST
from staticfire.checkers.model import history_lines
from staticfire.checkers.model.history import HistoryError, read_observations
from staticfire.checkers.model.history_lines import HistoryLines
from staticfire.checkers.model.plain_files import plain_size, read_plain
from staticfire.harness.histories import sources
from staticfire.harness.histories.sources import EdnSource, LineSource
from staticfire.harness.run_folder.run_folder import RunFolder, RunFolderError


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_link_to_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


NO_FILES = [make_pipe, make_link_to_device, Path.mkdir]
READERS: list[Callable[[Path], object]] = [
    plain_size,
    read_plain,
    read_observations,
    lambda path: crc_of_file(path, 10),
    LineSource,
    EdnSource,
]


@pytest.mark.parametrize("make", NO_FILES)
@pytest.mark.parametrize("read", READERS)
def test_what_is_no_plain_file_is_not_opened(
    tmp_path: Path, make: Callable[[Path], None], read: Callable[[Path], object]
) -> None:
    path = tmp_path / "file"
    make(path)
    with pytest.raises(HistoryError, match=r"file is no plain file; a history is made of plain"):
        read(path)


def test_a_plain_file_is_read_up_to_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    assert read_plain(path, 10) == b"0123456789"
    with pytest.raises(HistoryError, match=r"has 10 bytes; at most 9 are read$"):
        read_plain(path, 9)


def test_a_line_without_an_end_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_lines, "LINE_BYTES_MAX", 10)
    endless = io.BytesIO(b"x" * 1000)
    with pytest.raises(HistoryError, match=r"^h line 1: longer than the 10 bytes of an op$"):
        list(HistoryLines(endless, "h"))
    assert endless.tell() == 10


@pytest.mark.parametrize("make", NO_FILES)
@pytest.mark.parametrize("name", ["campaign.toml", "history.jsonl"])
def test_a_run_of_pipes_is_refused(tmp_path: Path, make: Callable[[Path], None], name: str) -> None:
    (tmp_path / "campaign.toml").touch()
    (tmp_path / name).unlink(missing_ok=True)
    make(tmp_path / name)
    with pytest.raises(RunFolderError, match=f"{name} is no plain file"):
        RunFolder(tmp_path).read_campaign()


def test_a_verdict_that_is_a_pipe_is_refused(tmp_path: Path) -> None:
    make_pipe(tmp_path / "verdict.json")
    with pytest.raises(RunFolderError, match=r"verdict.json is no plain file"):
        RunFolder(tmp_path).read_verdict()


def part(rows: int, size: int, path: str = "message_events/part.parquet") -> Part:
    return Part(path=path, queue=0, rows=rows, bytes=size, crc32=0, first=0, last=0, low=0, high=0)


def history_of(folder: Path, reported: Part) -> ColumnarHistory:
    nothing = Dictionaries(topics=["t"])
    manifest = Manifest(
        run_id="r",
        complete=True,
        ops=1,
        dictionaries=nothing,
        message_events=[reported],
        op_parts=[],
    )
    write_manifest(folder, manifest)
    return ColumnarHistory(folder, verify=False)


def bomb(folder: Path, rows: int) -> int:
    """A part of that many equal rows; returns its size."""
    path = folder / "message_events" / "part.parquet"
    path.parent.mkdir()
    column = pa.array(np.zeros(rows, dtype=np.int64))
    pq.write_table(pa.table({"op_index": column}), path, compression="zstd")
    return path.stat().st_size


@pytest.mark.parametrize(
    ("limit", "value", "refusal"),
    [
        ("PART_ROWS_MAX", 99_999, "has 100000 rows; a part has at most 99999"),
        ("UNPACKED_BYTES_MAX", 10, "bytes unpacked; a part has at most 10"),
    ],
)
def test_a_parquet_bomb_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, refusal: str
) -> None:
    monkeypatch.setattr(reader, limit, value)
    reported = part(100_000, bomb(tmp_path, 100_000))
    monkeypatch.setattr(pq.ParquetFile, "read", None)
    with pytest.raises(HistoryError, match=refusal):
        history_of(tmp_path, reported).table(reported)


def test_a_part_with_more_rows_than_the_manifest_says_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported = part(10, bomb(tmp_path, 100_000))
    monkeypatch.setattr(pq.ParquetFile, "read", None)
    with pytest.raises(HistoryError, match="has 100000 rows; the manifest says 10"):
        history_of(tmp_path, reported).table(reported)


def test_columns_that_are_pipes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "message_events").mkdir()
    make_pipe(tmp_path / "message_events" / "part.parquet")
    history = history_of(tmp_path, part(1, 1))
    with pytest.raises(HistoryError, match="is no plain file"):
        history.queue(0)
    make_pipe(tmp_path / EVENTS)
    with pytest.raises(HistoryError, match="is no plain file"):
        read_events(tmp_path, history.manifest)
    (tmp_path / MANIFEST).unlink()
    make_pipe(tmp_path / MANIFEST)
    with pytest.raises(HistoryError, match="is no plain file"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("path", ["../part.parquet", "message_events/../../x", "/etc/passwd"])
def test_a_manifest_leads_nowhere_else(tmp_path: Path, path: str) -> None:
    with pytest.raises(HistoryError, match="lies outside of the history"):
        history_of(tmp_path, part(1, 1, path))


def test_events_of_another_size_are_damaged(tmp_path: Path) -> None:
    (tmp_path / EVENTS).write_bytes(b"12345")
    manifest = Manifest(
        run_id="r",
        complete=True,
        ops=1,
        dictionaries=Dictionaries(),
        message_events=[],
        op_parts=[],
        events=Lines(rows=1, bytes=4, crc32=0),
    )
    with pytest.raises(HistoryError, match="has 5 bytes; the manifest says 4"):
        read_events(tmp_path, manifest)


@pytest.mark.slow
@pytest.mark.parametrize("opening", ["[", "{:a ", "#{", "("])
def test_edn_of_a_million_brackets_is_refused(tmp_path: Path, opening: str) -> None:
    path = tmp_path / "h.edn"
    path.write_text(opening * 100_000)
    with pytest.raises(HistoryError, match="never closed, and no op is before it"):
        list(EdnSource(path).ops())


def test_a_line_of_edn_without_an_end_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "EDN_LINE_BYTES_MAX", 10)
    path = tmp_path / "h.edn"
    path.write_text("[" * 1000)
    with pytest.raises(HistoryError, match=r"h.edn line 1: longer than 10 bytes$"):
        list(EdnSource(path).ops())
