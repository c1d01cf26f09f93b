"""Mutations of the files of a run: detected; files of different runs are refused together."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from random import Random

import orjson
import pytest

from staticfire.checkers.model.history import HistoryError, write_history
from staticfire.harness.cli.check.command import judge
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.results.run_result import RunResult
from staticfire.harness.run_folder.run_folder import RunFolder
from staticfire.harness.runs.simulated_runner import run_simulated
from tests.checkers.mutations.model import Run
from tests.checkers.mutations.score import kinds_named

OPTIONS = {"workload": "queue", "time_s": 20.0, "think_ms": 400.0, "faults": ()}


@lru_cache(maxsize=1)
def result() -> RunResult:
    return run_simulated(draw_campaign(1, OPTIONS))


def planted(name: str) -> Run:
    (kind,) = kinds_named((name,))
    found = result()
    run = kind.plant(
        Run("queue", 1, found.ops, found.observations, found.facts), Random(name), "rest"
    )
    assert run is not None
    return run


def kept(root: Path, run: Run, *, lines: bool) -> RunFolder:
    """The folder of that run, as columns and, if asked, as lines too."""
    changed = replace(
        result(), ops=list(run.ops), observations=list(map(dict, run.observations)), facts=run.facts
    )
    folder = RunFolder.create(root, changed.campaign, "now")
    if lines:
        write_history(folder.history, run.ops)
    folder.observations.write_bytes(
        b"".join(orjson.dumps(seen) + b"\n" for seen in run.observations)
    )
    folder.finish(changed)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("lines", [True, False])
@pytest.mark.parametrize(
    ("name", "anomaly"),
    [
        ("acked_not_delivered", "lost"),
        ("body_damaged", "corrupt"),
        ("queue_hole", "queue_hole"),
        ("node_died", "node_died"),
        ("txn_g1a", "G1a"),
    ],
)
def test_a_wrong_in_the_files_is_detected(
    name: str, anomaly: str, lines: bool, tmp_path: Path
) -> None:
    verdict = judge(kept(tmp_path, planted(name), lines=lines), client_only=False)
    assert verdict.valid is False
    assert anomaly in {finding.anomaly for finding in verdict.findings()}


@pytest.mark.slow
def test_a_history_that_was_changed_after_its_run_is_refused(tmp_path: Path) -> None:
    folder = kept(tmp_path, planted("more_fields"), lines=True)
    write_history(folder.history, planted("body_damaged").ops)
    with pytest.raises(HistoryError, match=r"history\.jsonl"):
        judge(folder, client_only=False)


def test_the_facts_of_another_run_are_refused(tmp_path: Path) -> None:
    folder = kept(tmp_path / "one", planted("more_fields"), lines=True)
    other = kept(tmp_path / "other", planted("node_died"), lines=True)
    (folder.path / "verdict.json").write_bytes((other.path / "verdict.json").read_bytes())
    with pytest.raises(HistoryError):
        judge(folder, client_only=False)
