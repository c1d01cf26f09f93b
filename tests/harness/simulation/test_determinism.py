"""Determinism: one seed gives one run, for any hash seed, environment, memory addresses and order of runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.simulation.busy_world import digest

SCRIPT = Path(__file__).with_name("busy_world.py")
ROOT = Path(__file__).parents[3]


def digests(mode: str, seeds: list[int], hash_seed: str, ballast: int) -> dict[int, str]:
    """Run `seeds` in a fresh interpreter; `ballast` bytes of environment move everything in memory."""
    command = [sys.executable, str(SCRIPT), mode, ",".join(map(str, seeds))]
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "PYTHONHASHSEED": hash_seed,
        "BALLAST": "x" * ballast,
    }
    output = subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True
    ).stdout
    return dict(zip(seeds, output.split(), strict=True))


@pytest.mark.slow
def test_two_processes_agree() -> None:
    first = digests("clean", [1, 2, 3], hash_seed="1", ballast=0)
    second = digests("clean", [3, 2, 1], hash_seed="987654", ballast=3000)
    assert first == second
    assert len(set(first.values())) == 3


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["set-order", "clock"])
def test_what_no_seed_decides_is_seen(mode: str) -> None:
    first = digests(mode, [1, 2, 3], hash_seed="1", ballast=0)
    second = digests(mode, [1, 2, 3], hash_seed="987654", ballast=3000)
    assert first != second


@pytest.mark.slow
def test_a_world_leaves_no_trace_in_the_next_one() -> None:
    alone = digest(5, "clean")
    digest(6, "clean")
    assert digest(5, "clean") == alone
