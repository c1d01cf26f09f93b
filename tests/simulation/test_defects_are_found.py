"""Planted bugs are found by their own recipes, by what clients saw alone, and a found run can be repeated bit by bit.

Any change of the system or of the simulation deals the seeds anew, so the first seed that shows a defect is looked for.
A defect must be planted before the system is imported, so each run of one has a process of its own. Without the defect
the same recipe must be valid: it is the bug that is found.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from staticfire.faults.defects import DEFECTS
from staticfire.harness.cli.options import given_options
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.runs.simulated_runner import run_simulated
from tests.support.sample import sample_of

ROOT = Path(__file__).parents[2]
SEEDS = "0-19"  # the rarest defect shows in every third run
TIMEOUT_S = 300

# What clients alone cannot see: they send to the queues that the route names, and read those; and what a broker holds.
ONLY_OBSERVED = frozenset(
    {"route-keeps-queue-numbers", "metadata-file-left-open", "held-pulls-outlive-clients"}
)
BY_STORE_CRASHES = ["recovery-ignores-crc"]
# Those that clients alone see within twenty seeds. The step museum of CI takes its samples from all pieces.
REPEATED = (
    "ack-before-fsync",
    "ack-before-replica",
    "ack-when-flush-begins",
    "any-signature-passes",
    "async-failure-is-certain",
    "broadcast-offset-lost",
    "changed-options-drop-pulls",
    "check-back-never",
    "circle-leaves-remainder",
    "cleaning-takes-half-messages",
    "client-never-leaves-name-server",
    "clone-without-offsets",
    "commit-loses-compression",
    "dead-letter-drops-tag",
    "delay-too-early",
    "deleted-topic-comes-back",
    "enforcing-takes-plain-text",
    "failed-pull-rests",
    "filter-by-hash-alone",
    "group-keeps-offsets",
    "half-message-is-delayed",
    "half-visible",
    "held-pull-never-woken",
    "held-pulls-outlive-clients",
    "lite-pull-commits-fetched",
    "lock-given-twice",
    "long-properties-are-cut",
    "metadata-file-left-open",
    "new-expression-ignored",
    "offsets-not-read-at-start",
    "ordered-retry-goes-behind",
    "rebalance-forgets-queue",
    "registers-only-changes",
    "retry-born-anew",
    "retry-loses-properties",
    "retry-without-limit",
    "rotten-record-served",
    "route-keeps-queue-numbers",
    "withdrawn-right-stays",
    "wrong-correlation-id",
)

each_defect = pytest.mark.parametrize("name", sample_of(REPEATED, 3))


def found_by(*arguments: object) -> None:
    """Run the command line in a new process; it must find something invalid."""
    command = [sys.executable, "-m", "staticfire", *map(str, arguments)]
    ran = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr


def first_found(name: str, folder: Path) -> dict[str, Any]:
    """The row of the first seed in which clients alone see the defect, where they can."""
    rows = folder / "rows.jsonl"
    hunt = ("hunt", "--defect", name, "--seeds", SEEDS, "--jobs", 1)
    alone = () if name in ONLY_OBSERVED else ("--client-only",)
    found_by(*hunt, *alone, "--until-found", "--out", rows)
    row: dict[str, Any] = json.loads(rows.read_text().splitlines()[-1])
    return row


@each_defect
def test_a_defect_is_found_and_the_run_can_be_repeated(name: str, tmp_path: Path) -> None:
    row = first_found(name, tmp_path)
    assert row["valid"] is False

    found_by("run", "--defect", name, "--seed", row["seed"], "--runs", tmp_path / "runs")
    [kept] = (tmp_path / "runs").iterdir()
    document = json.loads((kept / "verdict.json").read_bytes())
    assert document["digest"] == row["digest"]
    verdicts = document["verdict"]["verdicts"]
    fired = {verdict["checker"] for verdict in verdicts if verdict["valid"] is False}
    assert DEFECTS[name].checkers[0] in fired
    assert fired <= set(DEFECTS[name].checkers)


@pytest.mark.parametrize("name", BY_STORE_CRASHES)
def test_crashes_of_the_store_find_what_campaigns_cannot(name: str) -> None:
    cycles = DEFECTS[name].store_crashes
    found_by("crash-store", "--cycles", cycles, "--seed", 1, "--defect", name)


@each_defect
def test_without_the_defect_its_recipe_is_valid(name: str) -> None:
    options = given_options(campaign=None, followers=None, leaders=None, faults=None, defect=name)
    result = run_simulated(draw_campaign(0, {**options, "defect": ""}))
    assert result.verdict.valid is True, result.verdict.findings()
