"""`staticfire history`: conversions between all forms, statistics, filters, merges; and malformed input."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from staticfire.checkers.formats.columnar.manifest import read_manifest
from staticfire.checkers.model.history import read_history
from staticfire.harness.cli.history import looking
from tests.harness.cli.conftest import Said, Staticfire, refused


def done(said: Said) -> bool:
    return said.status == 0 and "Traceback" not in said.err


def ops_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_columns_and_lines_are_the_same_history(
    kept_run: Path, tmp_path: Path, staticfire: Staticfire
) -> None:
    assert done(staticfire("history", "convert", kept_run, tmp_path / "h.parquet"))
    assert done(staticfire("history", "convert", tmp_path / "h.parquet", tmp_path / "h.jsonl"))

    assert ops_of(tmp_path / "h.jsonl") == ops_of(kept_run / "history.jsonl")
    assert read_manifest(tmp_path / "h.parquet").run_id == kept_run.name


def unnumbered(line: str) -> str:
    """An op without what depends on others: its index, and when a poll began."""
    polls = re.sub(r"(:type :invoke, :f :poll.*):time \d+", r"\1", line)
    return re.sub(r", :index \d+", "", polls)


def test_edn_comes_back_as_it_was(kept_run: Path, tmp_path: Path, staticfire: Staticfire) -> None:
    for source, target in (
        (kept_run, "a.edn"),
        ("a.edn", "b.parquet"),
        ("b.parquet", "c.jsonl"),
        ("c.jsonl", "d.edn"),
        ("d.edn", "e.edn"),
    ):
        assert done(staticfire("history", "convert", tmp_path / source, tmp_path / target))

    assert (tmp_path / "d.edn").read_bytes() == (tmp_path / "e.edn").read_bytes()
    first, again = ((tmp_path / name).read_text().splitlines() for name in ("a.edn", "d.edn"))
    assert sorted(map(unnumbered, first)) == sorted(map(unnumbered, again))


def test_what_another_form_does_not_know_is_said(
    kept_run: Path, tmp_path: Path, staticfire: Staticfire
) -> None:
    said = staticfire("history", "convert", kept_run, tmp_path / "a.edn")
    assert "left out" in said.err
    assert "1 probe" in said.err


@pytest.mark.parametrize("form", ["history.jsonl", "history.parquet", "torn.edn"])
def test_a_torn_history_stays_torn(
    form: str, run_folder: Path, tmp_path: Path, staticfire: Staticfire
) -> None:
    lines = run_folder / "history.jsonl"
    lines.write_bytes(lines.read_bytes()[:-20])
    source = tmp_path / form
    said = staticfire("history", "convert", lines, source)
    assert "torn" in said.err
    assert done(staticfire("history", "convert", source, tmp_path / "back.jsonl"))

    assert read_history(tmp_path / "back.jsonl").torn


def test_head(kept_run: Path, staticfire: Staticfire) -> None:
    said = staticfire("history", "head", "-n", 3, kept_run)
    assert len(said.out.splitlines()) == 3
    whole = staticfire("history", "head", "-n", 3, "--json", kept_run / "history.parquet")
    first = (kept_run / "history.jsonl").read_text().splitlines()[:3]
    assert list(map(json.loads, whole.out.splitlines())) == list(map(json.loads, first))


def test_names_do_nothing_to_a_terminal(tmp_path: Path, staticfire: Staticfire) -> None:
    """Neither control characters nor markup."""
    op = {"index": 0, "process": 1, "type": "info", "f": "drain", "value": {}, "time_ns": 0}
    text = json.dumps(op | {"error": "\x1b[2J\x7f"}) + "\n"
    (tmp_path / "history.jsonl").write_text(text)
    said = staticfire("history", "head", tmp_path / "history.jsonl")
    assert said.out.endswith(r"\x1b[2J\x7f" + "\n")
    assert looking._name("[red]\x9b2J").plain == r"[red]\x9b2J"


def test_stats_are_the_same_of_every_form(
    kept_run: Path, tmp_path: Path, staticfire: Staticfire
) -> None:
    (tmp_path / "lines").mkdir()
    lines = tmp_path / "lines" / "history.jsonl"
    lines.write_bytes((kept_run / "history.jsonl").read_bytes())
    of_lines = staticfire("history", "stats", lines).out.splitlines()
    of_columns = staticfire("history", "stats", kept_run).out.splitlines()

    assert of_lines[2:] == of_columns[2:]  # all but path and size
    assert "bytes a row" in of_columns[1]
    assert any(line.strip().startswith("send ") for line in of_columns)


def test_an_empty_history_has_nothing_in_it(tmp_path: Path, staticfire: Staticfire) -> None:
    (tmp_path / "empty.jsonl").write_bytes(b"")
    assert done(staticfire("history", "convert", tmp_path / "empty.jsonl", tmp_path / "e"))
    for form in ("empty.jsonl", "e"):
        assert done(staticfire("history", "stats", tmp_path / form))
        assert staticfire("history", "head", tmp_path / form) == Said(0, "", "")


def test_filter_by_key_keeps_the_whole_story(
    kept_run: Path, tmp_path: Path, staticfire: Staticfire
) -> None:
    out = tmp_path / "one.jsonl"
    assert done(staticfire("history", "filter", kept_run, out, "--key", "p0-1"))

    ops = ops_of(out)
    assert [op["index"] for op in ops] == list(range(len(ops)))
    assert {(op["f"], op["type"]) for op in ops} >= {
        ("send", "invoke"),
        ("send", "ok"),
        ("consume", "ok"),
    }
    assert all("p0-1" in json.dumps(op["value"]) for op in ops)
    looked = [op["value"]["messages"] for op in ops if op["f"] == "look_up"]
    assert all(len(messages) == 1 for messages in looked)


@pytest.mark.parametrize(
    ("options", "fits"),
    [
        (["--f", "send", "--f", "commit"], lambda op: op["f"] in ("send", "commit")),
        (["--process", "0"], lambda op: op["process"] == 0),
        (
            ["--group", "staticfire-group"],
            lambda op: op["value"].get("group") == "staticfire-group",
        ),
        (
            ["--queue", "StaticfireTopic@broker-a/0", "--f", "consume"],
            lambda op: (op["value"]["broker"], op["value"]["queue"]) == ("broker-a", 0),
        ),
    ],
)
def test_filter(
    options: list[str],
    fits: Callable[[Any], bool],
    kept_run: Path,
    tmp_path: Path,
    staticfire: Staticfire,
) -> None:
    columns, out = tmp_path / "h.parquet", tmp_path / "part.jsonl"
    assert done(staticfire("history", "filter", kept_run, columns, *options))
    assert done(staticfire("history", "convert", columns, out))

    ops = ops_of(out)
    assert ops
    assert all(map(fits, ops))
    everything = ops_of(kept_run / "history.jsonl")
    if "--queue" not in options:
        assert len(ops) == sum(map(fits, everything))


def test_filter_by_time_keeps_an_invocation_with_its_completion(
    kept_run: Path, tmp_path: Path, staticfire: Staticfire
) -> None:
    out = tmp_path / "part.jsonl"
    assert done(
        staticfire("history", "filter", kept_run, out, "--from", "3", "--to", "4", "--f", "send")
    )

    ops = ops_of(out)
    assert len(ops) < len(ops_of(kept_run / "history.jsonl"))
    ended = {op["value"]["key"] for op in ops if op["type"] != "invoke"}
    assert {op["value"]["key"] for op in ops} == ended
    assert any(3e9 <= op["time_ns"] < 4e9 for op in ops)


def test_merge(run_folder: Path, kept_run: Path, tmp_path: Path, staticfire: Staticfire) -> None:
    (run_folder / "history.parquet" / "manifest.json").unlink()  # its lines are converted
    out = tmp_path / "all"
    assert done(staticfire("history", "merge", run_folder, kept_run, "--out", out))

    for folder in (run_folder, kept_run):
        merged = out / f"run_id={folder.name}"
        manifest = read_manifest(merged / "history.parquet")
        assert (manifest.run_id, manifest.complete) == (folder.name, True)
        assert manifest.ops == len(ops_of(folder / "history.jsonl"))
        assert (merged / "verdict.json").read_bytes() == (folder / "verdict.json").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all", "run"]


def test_runs_of_one_name_are_not_merged(
    kept_run: Path, tmp_path: Path, staticfire: Staticfire
) -> None:
    said = staticfire("history", "merge", kept_run, kept_run, "--out", tmp_path / "all")
    assert refused(said, kept_run.name, "must differ")


@pytest.mark.parametrize("command", ["head", "stats"])
def test_no_history_is_refused(command: str, tmp_path: Path, staticfire: Staticfire) -> None:
    assert refused(staticfire("history", command, tmp_path / "nowhere"), "not there")
    assert refused(staticfire("history", command, tmp_path), "holds no history")
    (tmp_path / "text.jsonl").write_text("hello\n")
    assert refused(staticfire("history", command, tmp_path / "text.jsonl"), "line 1", "not JSON")
    (tmp_path / "text.edn").write_text("hello\n")
    assert refused(staticfire("history", command, tmp_path / "text.edn"), "line 1", "a map")


def test_what_is_there_is_not_overwritten(
    kept_run: Path, tmp_path: Path, staticfire: Staticfire
) -> None:
    (tmp_path / "h.jsonl").write_text("mine")
    assert refused(
        staticfire("history", "convert", kept_run, tmp_path / "h.jsonl"), "exists already"
    )
    assert (tmp_path / "h.jsonl").read_text() == "mine"


@pytest.mark.parametrize("form", ["h.jsonl", "h.edn", "h.parquet"])
def test_a_conversion_that_fails_leaves_nothing(
    form: str, run_folder: Path, tmp_path: Path, staticfire: Staticfire
) -> None:
    lines = run_folder / "history.jsonl"
    lines.write_bytes(lines.read_bytes() + b"nonsense\n")
    out = tmp_path / "out"
    out.mkdir()

    assert refused(staticfire("history", "convert", lines, out / form), "not JSON")
    assert list(out.iterdir()) == []


@pytest.mark.parametrize(
    "options",
    [
        ["--queue", "t"],
        ["--queue", "t@b/x"],
        ["--from", "-1"],
        ["--to", "nan"],
        ["--process", "x"],
        ["--from", "10", "--to", "5"],
        ["--f", "sned"],
        ["--f", "partition"],
    ],
)
def test_options_that_make_no_sense(
    options: list[str], kept_run: Path, tmp_path: Path, staticfire: Staticfire
) -> None:
    assert refused(staticfire("history", "filter", kept_run, tmp_path / "x", *options))
