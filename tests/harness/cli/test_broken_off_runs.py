"""A run may break off at any moment. What its history shows by then is no violation if the whole run has none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from staticfire.checkers.model.history import NEMESIS
from staticfire.harness.cli import status_of
from staticfire.harness.cli.check.command import judge
from staticfire.harness.run_folder.run_folder import RunFolder

CUTS = 30
# Each was called invalid once, cut in the middle of a fault: its clock was wrong, its replicas were away.
RUNS = [
    pytest.param(["--workload", "retry", "--seed", "266", "--time", "10"], id="retry"),
    pytest.param(["--workload", "ordered", "--seed", "2"], id="ordered"),
    pytest.param(["--campaign", "default", "--seed", "3"], id="default"),
]


def cuts(history: list[bytes]) -> Iterator[int]:
    """How many lines are left: before and after each op of the nemesis, and now and then."""
    yield from range(len(history) // CUTS, len(history), len(history) // CUTS)
    for number, line in enumerate(history):
        if orjson.loads(line)["process"] == NEMESIS:
            yield from (number, number + 1)


@pytest.mark.slow
@pytest.mark.parametrize("options", RUNS)
def test_no_beginning_of_a_valid_run_is_invalid(options: list[str], tmp_path: Path) -> None:
    assert status_of(["run", *options, "--runs", str(tmp_path / "runs")]) == 0
    [whole] = (tmp_path / "runs").iterdir()
    history, observations = (
        (whole / name).read_bytes().splitlines(keepends=True)
        for name in ("history.jsonl", "observations.jsonl")
    )
    folder = tmp_path / "broken-off"
    folder.mkdir()
    (folder / "campaign.toml").write_bytes((whole / "campaign.toml").read_bytes())

    for length in sorted(set(cuts(history))):
        end_ns = orjson.loads(history[length])["time_ns"]
        seen = [line for line in observations if orjson.loads(line)["time_ns"] < end_ns]
        (folder / "history.jsonl").write_bytes(b"".join(history[:length]))
        (folder / "observations.jsonl").write_bytes(b"".join(seen))
        verdict = judge(RunFolder(folder), client_only=False)
        assert verdict.valid == "unknown", f"with {length} of {len(history)} ops"
