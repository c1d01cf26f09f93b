"""Damaged, foreign and hostile histories: one sentence or a history, no other exception, no silent change."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.checkers.formats.columnar.manifest import Part, read_manifest, write_manifest
from staticfire.checkers.formats.columnar.op_reader import read_ops
from staticfire.checkers.formats.columnar.reader import ColumnarHistory
from staticfire.checkers.formats.columnar.recording import ColumnarRecorder
from staticfire.checkers.formats.columnar.statistics import of_columns
from staticfire.checkers.formats.columnar.writer import write_part
from staticfire.checkers.model.history import HistoryError, Op
from staticfire.checkers.verdicts.compose import check_columns
from tests.support.history_language import facts, history
from tests.support.semantic_histories import FACTS

STEADY = settings(max_examples=40)
OPS = history(
    "1 ok open node=c1",
    "0 invoke send a",
    "0 ok send a",
    "0 ok send b@1:7",
    "0 ok send p3-1@1:8",
    "2 invoke send c",
    "1 ok consume a",
    "1 ok consume b p3-1",
    "1 ok commit 0:1 1:9",
    "9 ok drain",
)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history that is read; not to be changed."""
    folder = tmp_path_factory.mktemp("good") / "h"
    with ColumnarRecorder(folder, "run") as recorder:
        for op in OPS:
            recorder.add(op)
        recorder.finish()
    return folder


@contextmanager
def copied(folder: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as where:
        yield Path(shutil.copytree(folder, Path(where) / "h"))


def files_of(folder: Path) -> list[Path]:
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def read_all(folder: Path, *, verify: bool = True) -> list[Op]:
    read = ColumnarHistory(folder, verify=verify)
    run = check_columns(*read.whole(), [], facts(**FACTS))
    assert [of.reason for of in run.verdicts if "the checker failed" in (of.reason or "")] == []
    return list(read_ops(read))


def said_of(folder: Path, *, verify: bool = True) -> str:
    """What is wrong with a history; nothing if it is read."""
    try:
        read_all(folder, verify=verify)
    except HistoryError as error:
        return str(error)
    return ""


@pytest.mark.slow
@STEADY
@given(st.data())
def test_any_damage_is_noticed(good: Path, data: st.DataObject) -> None:
    """Whichever byte of whichever file changes, is cut off or is added."""
    name = data.draw(st.sampled_from(files_of(good)))
    content = bytearray((good / name).read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    match data.draw(st.sampled_from(["flip", "cut", "add", "remove"])):
        case "flip":
            content[at] ^= data.draw(st.integers(1, 255))
        case "cut":
            del content[at:]
        case "add":
            content.insert(at, data.draw(st.integers(0, 255)))
        case "remove":
            content.clear()
    with copied(good) as folder:
        if content:
            (folder / name).write_bytes(content)
        else:
            (folder / name).unlink()
        with pytest.raises(HistoryError) as reported:
            read_all(folder)
        assert "\n" not in str(reported.value)


@pytest.mark.slow
@STEADY
@given(st.data())
def test_damage_that_the_checksum_hides_is_a_sentence_or_a_history(
    good: Path, data: st.DataObject
) -> None:
    """A hostile writer made the file, and a checksum that fits it."""
    manifest = read_manifest(good)
    parts = [*manifest.message_events, *manifest.op_parts]
    part = data.draw(st.sampled_from(parts))
    content = bytearray((good / part.path).read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    with copied(good) as folder:
        (folder / part.path).write_bytes(content)
        assert "\n" not in said_of(folder, verify=False)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.slow
@STEADY
@given(st.data())
def test_a_manifest_of_other_values_is_a_sentence_or_a_history(
    good: Path, data: st.DataObject
) -> None:
    """Any value of the manifest replaced by any other, with a checksum that fits."""
    document = json.loads((good / "manifest.json").read_bytes())
    target: Any = document
    while True:
        keys = sorted(target) if isinstance(target, dict) else range(len(target))
        key = data.draw(st.sampled_from(list(keys)))
        inner = target[key]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
            break
        target = inner
    target[key] = data.draw(JSON)
    with copied(good) as folder:
        claim(folder, document)
        assert "\n" not in said_of(folder)


def claim(folder: Path, document: dict[str, Any]) -> None:
    """Write a manifest as our writer would, checksum included."""
    import zlib

    import orjson

    document.pop("crc32", None)
    try:
        rest = orjson.dumps(document)
    except TypeError:  # an integer of more than 64 bits
        rest = json.dumps(document).encode()
    text = {**document, "crc32": zlib.crc32(rest)}
    (folder / "manifest.json").write_text(json.dumps(text))


def with_rows(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Rewrite the first part of queue 1 with other columns."""
    read = ColumnarHistory(folder)
    part = read.manifest.parts_of(1)[0]
    table = read.table(part)
    columns = {name: table[name].to_numpy().copy() for name in table.schema.names}
    change(columns)
    replace_part(folder, part, pa.table(columns, schema=table.schema))


def replace_part(folder: Path, part: Part, table: pa.Table) -> None:
    manifest = read_manifest(folder)
    written = write_part(folder, part.path, part.queue, table)
    message_events = [written if other == part else other for other in manifest.message_events]
    write_manifest(folder, replace(manifest, message_events=message_events))


def put(name: str, value: int, row: int = 0) -> Callable[[dict[str, Any]], object]:
    def change(columns: dict[str, Any]) -> None:
        columns[name][row] = value

    return change


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (put("kind", 7), "kind is 7"),
        (put("outcome", -1), "outcome is -1"),
        (put("topic", 9), "topic is 9"),
        (put("queue", 0), "queue is 0"),
        (put("group", 5, -1), "group is 5"),
        (put("group", -1, -1), "group is -1"),
        (put("message", (1 << 62) + 99), "message is"),
        (put("message", -7), "message is -7"),
        (put("tag", 0), "tag is 0"),
        (put("op_index", 10**9), "op_index is"),
        (put("invoke_index", 9), "ended before it began"),
        (put("invoke_ns", 2**62), "ended before it began"),
        (put("time_ns", 2**62), "times that go back"),
        (put("op_index", 4), "op index 4 twice"),
    ],
)
def test_rows_that_cannot_be_are_refused(
    change: Callable[[dict[str, Any]], object], words: str, good: Path
) -> None:
    with copied(good) as folder:
        with_rows(folder, change)
        with pytest.raises(HistoryError, match=words):
            ColumnarHistory(folder).columns()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (put("kind", 7), "kind is 7"),
        (put("kind", -1), "kind is -1"),
        (put("group", 5, -1), "group is 5"),
        (put("group", -1, -1), "group is -1"),
    ],
)
def test_a_reader_of_some_columns_gets_the_same_refusal(
    change: Callable[[dict[str, Any]], object], words: str, good: Path
) -> None:
    with copied(good) as folder:
        with_rows(folder, change)
        with pytest.raises(HistoryError, match=words):
            of_columns(folder)


@pytest.mark.parametrize("columns", [None, ("time_ns", "invoke_ns")], ids=["all", "some"])
@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("time_ns", -5, "time_ns is -5"),
        ("invoke_ns", -5, "invoke_ns is -5"),
        ("invoke_ns", 2**62, "ended before it began"),
    ],
)
def test_ops_of_times_that_cannot_be_are_refused(
    columns: tuple[str, ...] | None, name: str, value: int, words: str, good: Path
) -> None:
    with copied(good) as folder:
        manifest = read_manifest(folder)
        part = manifest.op_parts[0]
        table = ColumnarHistory(folder).op_table(part)
        changed = pa.array([value, *table[name].to_pylist()[1:]])
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), changed)
        written = write_part(folder, part.path, part.queue, table)
        write_manifest(folder, replace(manifest, op_parts=[written]))
        with pytest.raises(HistoryError, match=words):
            ColumnarHistory(folder).op_table(written, columns)


def test_a_message_that_was_sent_twice_is_refused(good: Path) -> None:
    with copied(good) as folder:
        sends = ColumnarHistory(folder).queue(1).sends
        other = int(ColumnarHistory(folder).queue(0).sends.message[0])
        assert len(sends) == 2
        with_rows(folder, put("message", other))
        with pytest.raises(HistoryError, match="sent a second time"):
            ColumnarHistory(folder).columns()


def test_a_part_of_another_version_is_read(good: Path) -> None:
    """Formats grow: columns that are not there are not known, and unknown ones are not read."""
    with copied(good) as folder:
        read = ColumnarHistory(folder)
        part = read.manifest.parts_of(1)[0]
        table = read.table(part).drop_columns(["tag", "due_ns", "transaction", "physical_offset"])
        table = table.append_column("colour", pa.array(np.arange(len(table))))
        grown = pa.schema([*table.schema])
        manifest = read.manifest
        written = write_part(folder, part.path, 1, table.cast(grown))
        message_events = [written if other == part else other for other in manifest.message_events]
        write_manifest(folder, replace(manifest, message_events=message_events))

        sends = ColumnarHistory(folder).queue(1).sends
        assert sends.tag.tolist() == [-1, -1]
        assert sends.due_ns.tolist() == [-1, -1]
        assert sends.transaction.tolist() == [0, 0]
        assert sends.position.tolist() == [-1, -1]


def test_another_version_of_the_format_is_refused(good: Path) -> None:
    with copied(good) as folder:
        document = json.loads((folder / "manifest.json").read_bytes())
        claim(folder, {**document, "version": 3})
        with pytest.raises(HistoryError, match=r"version is 3; this reader knows 1 and 2"):
            ColumnarHistory(folder)


def test_a_part_outside_of_the_history_is_refused(good: Path) -> None:
    with copied(good) as folder:
        manifest = read_manifest(folder)
        first, *others = manifest.message_events
        outside = replace(first, path="../h/" + first.path)
        write_manifest(folder, replace(manifest, message_events=[outside, *others]))
        with pytest.raises(HistoryError, match="outside"):
            ColumnarHistory(folder)


def test_a_part_that_is_named_twice_is_refused(good: Path) -> None:
    with copied(good) as folder:
        manifest = read_manifest(folder)
        write_manifest(
            folder,
            replace(
                manifest, message_events=[*manifest.message_events, manifest.message_events[0]]
            ),
        )
        with pytest.raises(HistoryError, match="twice"):
            ColumnarHistory(folder)


def test_an_op_that_is_missing_is_noticed(good: Path) -> None:
    with copied(good) as folder:
        manifest = read_manifest(folder)
        write_manifest(folder, replace(manifest, op_parts=[]))
        with pytest.raises(HistoryError, match="lacks the op with index"):
            read_all(folder)
