"""`export` refuses in one sentence what it cannot write, and leaves nothing half-done."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.cli.conftest import Staticfire, without_checksums


def test_a_file_must_be_named(run_folder: Path, staticfire: Staticfire) -> None:
    said = staticfire("export", run_folder)
    assert said.status == 254
    assert "give at least one of --perfetto, --otlp and --shiviz" in said.err


def test_all_files_are_written_at_once(
    run_folder: Path, staticfire: Staticfire, tmp_path: Path
) -> None:
    files = [tmp_path / name for name in ("a", "b", "c")]
    options = [
        text
        for pair in zip(("--perfetto", "--otlp", "--shiviz"), files, strict=True)
        for text in pair
    ]
    assert staticfire("export", run_folder, *options).status == 0
    assert all(path.stat().st_size > 1000 for path in files)
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--from", "3", "--to", "2"), "--from is 3; allowed: less than --to, 2"),
        (("--from", "-1"), "-1.0 is out of range"),
        (("--to", "nan"), "nan is out of range"),
    ],
)
def test_a_window_that_is_none_is_refused(
    options: tuple[str, ...], said: str, run_folder: Path, staticfire: Staticfire, tmp_path: Path
) -> None:
    got = staticfire("export", run_folder, "--otlp", tmp_path / "out", *options)
    assert got.status == 254
    assert said in got.err
    assert not (tmp_path / "out").exists()


def test_what_is_no_run_is_refused(tmp_path: Path, staticfire: Staticfire) -> None:
    for folder, said in ((tmp_path, "holds no history"), (tmp_path / "x", "is no folder")):
        got = staticfire("export", folder, "--otlp", tmp_path / "out")
        assert got.status == 254
        assert said in got.err


def test_a_folder_that_is_not_there_is_refused(
    run_folder: Path, staticfire: Staticfire, tmp_path: Path
) -> None:
    said = staticfire("export", run_folder, "--otlp", tmp_path / "none" / "out")
    assert said.status == 254
    assert "its folder is not there" in said.err


def test_an_edited_run_is_refused(run_folder: Path, staticfire: Staticfire, tmp_path: Path) -> None:
    path = run_folder / "history.jsonl"
    path.write_bytes(path.read_bytes().replace(b"SEND_OK", b"SEND_KO", 1))
    said = staticfire("export", run_folder, "--otlp", tmp_path / "out")
    assert said.status == 254
    assert "history.jsonl" in said.err


@pytest.mark.parametrize("name", ["observations.jsonl", "faults.jsonl", "history.jsonl"])
@pytest.mark.parametrize("line", [b"{", b"[]\n", b'{"a": 1}\n', b"\xff\n"])
def test_damaged_lines_are_one_sentence(
    name: str, line: bytes, run_folder: Path, staticfire: Staticfire, tmp_path: Path
) -> None:
    path = without_checksums(run_folder) / name
    path.write_bytes(line + path.read_bytes())
    out = tmp_path / "out"
    for option in ("--perfetto", "--otlp", "--shiviz"):
        said = staticfire("export", run_folder, option, out)
        assert said.status == 254 or (option, name) == ("--shiviz", "observations.jsonl")
        if said.status:
            assert said.err.count("\n") == 1
            assert not out.exists()


def test_a_torn_history_is_exported_and_said(
    run_folder: Path, staticfire: Staticfire, tmp_path: Path
) -> None:
    path = without_checksums(run_folder) / "history.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    said = staticfire("export", run_folder, "--otlp", tmp_path / "out")
    assert said.status == 0
    assert "is torn" in said.err


def test_a_run_that_did_not_finish_is_exported(
    run_folder: Path, staticfire: Staticfire, tmp_path: Path
) -> None:
    (run_folder / "verdict.json").unlink()
    assert staticfire("export", run_folder, "--perfetto", tmp_path / "out").status == 0


def test_perfetto_without_its_library_is_one_sentence(
    run_folder: Path, staticfire: Staticfire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("staticfire.harness.cli.extras.find_spec", lambda name: None)
    said = staticfire("export", run_folder, "--perfetto", tmp_path / "out")
    assert said.status == 254
    assert "pip install 'staticfire[perfetto]' adds it" in said.err
