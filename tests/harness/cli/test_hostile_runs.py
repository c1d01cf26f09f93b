"""Names and keys with terminal escapes, markup or formulas: shown as text or escaped."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.harness.cli.conftest import Staticfire, without_checksums

HOSTILE = "\x1b[31mE\x1b]0;t\x07\x9b2J\x7f\u202e<script>|`*_[x](y)\r\n=1+1\x00"
FILES = ("history.jsonl", "observations.jsonl")  # facts with other names are refused


@pytest.fixture
def hostile_run(run_folder: Path) -> Path:
    """A run whose topic, keys and groups end with terminal codes and markup."""
    without_checksums(run_folder)
    shutil.rmtree(run_folder / "history.parquet")
    make_hostile(run_folder, FILES)
    return run_folder


def make_hostile(run_folder: Path, names: tuple[str, ...]) -> None:
    end = json.dumps(HOSTILE)[1:-1]
    for name in names:
        text = (run_folder / name).read_text()
        for old in ("StaticfireTopic", "staticfire-group"):
            text = text.replace(f'"{old}"', f'"{old}{end}"')
        for number in range(1, 5):
            text = text.replace(f'"key":"p{number}-', f'"key":"{end}p{number}-')
        (run_folder / name).write_text(text)


@pytest.mark.parametrize(
    "arguments",
    [
        "check {run}",
        "check {run} --verbose",
        "check {run} --json",
        "check {run} --markdown --junit {out}/junit.xml",
        "report {run} --out {out}/report.html --markdown --junit {out}/junit.xml",
        "report {run} --out {out}/report.html --json",
        "explain {run}",
        "explain {run} --json",
        "history head {run} -n 200",
        "history head {run} -n 200 --json",
        "history stats {run}",
        "history convert {run} {out}/history.edn",
        "export {run} --shiviz {out}/life.log",
    ],
)
def test_no_control_character_reaches_a_terminal_or_a_file_for_people(
    arguments: str, staticfire: Staticfire, hostile_run: Path, tmp_path: Path
) -> None:
    said = staticfire(*arguments.format(run=hostile_run, out=tmp_path).split())
    assert said.status in (0, 1, 2, 254)
    assert "error of Staticfire" not in said.err
    for line in (said.out + said.err).splitlines():
        assert line.isprintable(), repr(line)
    if (tmp_path / "junit.xml").exists():
        text = (tmp_path / "junit.xml").read_text()
        ElementTree.fromstring(text)
        assert all(line.isprintable() for line in text.splitlines())


def test_the_hostile_names_are_there(staticfire: Staticfire, hostile_run: Path) -> None:
    assert "\\x1b[31mE" in staticfire("history", "stats", hostile_run).out
    ops = staticfire("history", "head", hostile_run, "-n", "200", "--json").out.splitlines()
    assert any(HOSTILE in str(json.loads(op)["value"].get("key")) for op in ops)


@pytest.mark.parametrize("command", ["check", "report", "explain", "analyze"])
def test_facts_with_hostile_names_are_refused_or_shown_as_escapes(
    command: str, staticfire: Staticfire, run_folder: Path, tmp_path: Path
) -> None:
    without_checksums(run_folder)
    make_hostile(run_folder, (*FILES, "verdict.json"))
    more = ["--out", str(tmp_path / "out")] if command in ("report", "analyze") else []
    said = staticfire(command, run_folder, *more)
    assert said.status in (0, 254)
    assert said.out + said.err
    assert "error of Staticfire" not in said.err
    for line in (said.out + said.err).splitlines():
        assert line.isprintable(), repr(line)
