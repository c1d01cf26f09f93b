"""`staticfire report`, and `--junit`, `--markdown`, `--json` of the judging commands: all give the same verdict."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import orjson
import pytest

from tests.harness.cli.conftest import SHORT, Staticfire, without_checksums

APACHE_RUNS = Path(__file__).parents[2] / "data" / "apache-runs"


def junit_says(path: Path) -> bool | str:
    """The verdict that a CI system reads from the file."""
    suite = ElementTree.fromstring(path.read_bytes())[0]
    if int(suite.attrib["failures"]):
        return False
    return "unknown" if int(suite.attrib["errors"]) else True


def test_a_run_has_its_report(kept_run: Path) -> None:
    page = (kept_run / "report.html").read_text(encoding="utf-8")
    assert "<title>VALID: " in page
    assert kept_run.name in page


def test_a_report_may_go_elsewhere(run_folder: Path, staticfire: Staticfire) -> None:
    out = run_folder.parent / "elsewhere.html"
    (run_folder / "report.html").unlink()
    said = staticfire("report", run_folder, "--out", out)
    assert (said.status, said.err) == (0, "")
    assert re.fullmatch(rf"report    {re.escape(str(out))}    \d+ KiB\n", said.out)
    assert out.exists()
    assert not (run_folder / "report.html").exists()


@pytest.mark.slow
def test_every_form_says_the_same(run_folder: Path, staticfire: Staticfire) -> None:
    for command in ("report", "check"):
        junit = run_folder.parent / f"{command}.xml"
        printed = orjson.loads(staticfire(command, run_folder, "--json", "--junit", junit).out)
        markdown = staticfire(command, run_folder, "--markdown").out
        assert printed["valid"] is junit_says(junit) is True
        assert (printed["word"], printed["exit_status"]) == ("VALID", 0)
        assert markdown.startswith("## ")
        assert markdown.splitlines()[0].endswith(": VALID")


@pytest.mark.parametrize("name", ["failed-fsync", "kills-valid"])
def test_forms_of_a_recorded_run_agree_with_its_exit_status(
    name: str, staticfire: Staticfire, tmp_path: Path
) -> None:
    junit = tmp_path / "junit.xml"
    said = staticfire("check", APACHE_RUNS / name, "--json", "--junit", junit)
    document = orjson.loads(said.out)
    assert junit_says(junit) == document["valid"]
    assert document["exit_status"] == said.status
    markdown = staticfire("check", APACHE_RUNS / name, "--markdown").out
    assert markdown.splitlines()[0].endswith(document["word"])


@pytest.mark.slow
def test_analyze_says_the_same_of_each_run(
    run_folder: Path, staticfire: Staticfire, tmp_path: Path
) -> None:
    where = ("analyze", run_folder, "--out", tmp_path / "of")
    said = staticfire(*where, "--json", "--junit", tmp_path / "junit.xml")
    document = orjson.loads(said.out)
    assert document["valid"] is junit_says(tmp_path / "junit.xml") is True
    assert [run["word"] for run in document["runs"]] == ["VALID"]
    assert said.status == document["exit_status"] == 0


@pytest.mark.slow
def test_a_hunt_has_a_case_a_seed(staticfire: Staticfire, tmp_path: Path) -> None:
    junit = tmp_path / "hunt.xml"
    options = ("--seeds", "1-2", *SHORT, "--faults", "kill", "--jobs", "1", "--junit", junit)
    said = staticfire("hunt", *options, "--json")
    document = orjson.loads(said.out)
    suite = ElementTree.fromstring(junit.read_bytes())[0]
    assert [case.attrib["name"] for case in suite] == ["seed 1", "seed 2"]
    assert float(suite.attrib["time"]) >= sum(float(case.attrib["time"]) for case in suite) > 0
    assert sum(document["answers"].values()) == document["seeds"] == 2
    assert said.status == document["exit_status"]


def test_a_run_in_json_prints_nothing_else(staticfire: Staticfire, tmp_path: Path) -> None:
    said = staticfire("run", "--seed", 1, *SHORT, "--faults", "kill", "--runs", tmp_path, "--json")
    document = orjson.loads(said.out)
    assert (document["exit_status"], document["word"]) == (said.status, "VALID")
    assert Path(document["facts"]["report"]).exists()


def test_two_forms_cannot_both_be_printed(kept_run: Path, staticfire: Staticfire) -> None:
    said = staticfire("check", kept_run, "--json", "--markdown")
    assert (said.status, said.out) == (254, "")
    assert said.err == (
        "staticfire: --markdown and --json both print to the standard output; give one of them\n"
    )


def test_a_junit_file_that_cannot_be_written_is_refused_before_the_work(
    kept_run: Path, staticfire: Staticfire, tmp_path: Path
) -> None:
    said = staticfire("check", kept_run, "--junit", tmp_path / "no" / "junit.xml")
    assert (said.status, said.out) == (254, "")
    assert "cannot be written: No such file or directory" in said.err


def test_a_report_that_fails_leaves_the_verdict(
    staticfire: Staticfire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_path: Path) -> Path:
        raise RuntimeError("no\x1broom")

    monkeypatch.setattr("staticfire.harness.html_report.report.report_of_folder", fail)
    said = staticfire("run", "--seed", 1, *SHORT, "--faults", "kill", "--runs", tmp_path)
    assert said.status == 0
    assert "staticfire: no report was written: no\\x1broom\n" in said.err
    assert "verdict   VALID" in said.out


def damage(folder: Path, name: str, data: bytes | None) -> None:
    without_checksums(folder)
    path = folder / name
    if data is None:
        path.unlink()
    else:
        path.write_bytes(data)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("verdict.json", None),
        ("verdict.json", b"{"),
        ("verdict.json", b'{"digest": "x", "facts": {}, "verdict": {}}'),
        ("verdict.json", b'{"version": 99, "digest": "x", "facts": {}, "verdict": {}}'),
        ("verdict.json", b'{"digest": [], "facts": [], "verdict": []}'),
        ("campaign.toml", None),
        ("campaign.toml", b"[campaign]\nseed = 1\n"),
        ("faults.jsonl", b"{}\n"),
        ("faults.jsonl", b'{"kind": 5}\n'),
        ("faults.jsonl", b"\xff\n"),
        ("observations.jsonl", b"[]\n"),
        ("observations.jsonl", b'{"kind": "recovery", "time_ns": 1, "node": 7}\n'),
        ("history.parquet/manifest.json", b"{}"),
    ],
)
def test_a_folder_that_is_no_run_is_one_sentence(
    name: str, data: bytes | None, run_folder: Path, staticfire: Staticfire
) -> None:
    damage(run_folder, name, data)
    (run_folder / "report.html").unlink()
    said = staticfire("report", run_folder)
    assert (said.status, said.out) == (254, "")
    assert re.fullmatch(r"staticfire: [^\n]+\n", said.err)
    assert not (run_folder / "report.html").exists()


def test_a_run_without_columns_is_read_from_its_lines(
    run_folder: Path, staticfire: Staticfire
) -> None:
    with_columns = (run_folder / "report.html").read_text(encoding="utf-8")
    without_checksums(run_folder)
    shutil.rmtree(run_folder / "history.parquet")
    assert staticfire("report", run_folder).status == 0
    lines = (run_folder / "report.html").read_text(encoding="utf-8")

    def numbers(page: str) -> str:
        return page.partition('id="values">')[2].partition("</script>")[0]

    assert numbers(lines) == numbers(with_columns)
