"""Records of the servers in the run folder: always logs, and files unless the run was valid."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from staticfire.harness.campaign.file import load_options
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.results.run_result import RunResult
from staticfire.harness.run_folder.run_folder import RunFolder
from staticfire.harness.runs.simulated_runner import run_simulated


@pytest.fixture(scope="module")
def result() -> RunResult:
    """A run too short for its floor: it is not valid, so the files of its nodes are kept."""
    options = {**load_options("default"), "faults": (), "time_s": 1.0, "acks_min": 10_000}
    return run_simulated(draw_campaign(1, options))


def keep(result: RunResult, root: Path) -> Path:
    folder = RunFolder.create(root, result.campaign, "now")
    folder.finish(result)
    return folder.path / "nodes"


@pytest.mark.slow
def test_logs_and_files_of_every_server_are_kept(result: RunResult, tmp_path: Path) -> None:
    nodes = keep(result, tmp_path)
    assert sorted(path.name for path in nodes.iterdir()) == sorted(
        result.campaign.topology().servers
    )
    first = orjson.loads((nodes / "broker-a-0" / "log.jsonl").read_bytes().splitlines()[0])
    assert first["event"] == "store opened"
    log_file = nodes / "broker-a-0" / "store" / "commitlog" / f"{0:020d}"
    assert log_file.stat().st_size == result.campaign.log_file_bytes


def test_a_valid_run_keeps_no_files(result: RunResult, tmp_path: Path) -> None:
    nodes = [replace(node, store={}) for node in result.nodes]
    kept = keep(replace(result, nodes=nodes), tmp_path)
    assert [path.name for path in (kept / "broker-a-0").iterdir()] == ["log.jsonl"]
