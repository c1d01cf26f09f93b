"""`explain` explains a planted loss, and refuses in one sentence what it cannot explain."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness.cli.conftest import Staticfire, without_checksums


@pytest.mark.slow
def test_a_planted_loss_is_explained_in_words_and_as_json(
    staticfire: Staticfire, tmp_path: Path
) -> None:
    options = ("--seed", 1, "--defect", "ack-before-fsync", "--runs", tmp_path)
    assert staticfire("run", *options).status == 1
    [folder] = tmp_path.iterdir()
    said = staticfire("explain", folder)
    assert said.status == 0
    lines = said.out.splitlines()
    assert len(lines) <= 25
    assert lines[0].startswith("cause     loss (lost): 7; with it ")
    assert "on disk of no node" in said.out
    assert "the message is gone" in said.out
    explained = json.loads(staticfire("explain", folder, "--json").out)
    assert explained["witness"]["anomaly"] == "lost"
    assert len(explained["events"]) >= 6


def test_a_run_that_is_not_invalid_is_refused(run_folder: Path, staticfire: Staticfire) -> None:
    said = staticfire("explain", run_folder)
    assert said.status == 254
    assert "cannot be explained: no promise was broken" in said.err
    assert "hunt --until-found" in said.err


def test_a_verdict_that_is_none_is_refused(run_folder: Path, staticfire: Staticfire) -> None:
    path = without_checksums(run_folder) / "verdict.json"
    document = json.loads(path.read_bytes())
    wrongs: tuple[object, ...] = ({"verdicts": 3}, [])
    for wrong in wrongs:
        path.write_text(json.dumps({**document, "verdict": wrong}))
        said = staticfire("explain", run_folder)
        assert said.status == 254
        assert "verdict.json holds no verdict" in said.err


def test_faults_that_are_none_are_refused(run_folder: Path, staticfire: Staticfire) -> None:
    without_checksums(run_folder)
    for line, what in (("{", "is no JSON"), ("{}", "is no fault")):
        (run_folder / "faults.jsonl").write_text(line + "\n")
        said = staticfire("explain", run_folder)
        assert said.status == 254
        assert f"faults.jsonl: line 1 {what}" in said.err


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path, staticfire: Staticfire) -> None:
    assert staticfire("explain", tmp_path / "none").status == 254
