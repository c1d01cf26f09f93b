"""Runs that a harness with version 1 of the columns recorded: every reader reads them, and the verdict is the same."""

from __future__ import annotations

import tarfile
from pathlib import Path

import orjson
import pytest

from staticfire.checkers.formats.columnar.manifest import read_manifest
from staticfire.checkers.formats.columnar.op_reader import read_ops
from staticfire.checkers.formats.columnar.reader import ColumnarHistory
from staticfire.checkers.model.history import read_history
from tests.harness.cli.conftest import Staticfire

DATA = Path(__file__).parents[2] / "data" / "version-1"
RUNS = ("bulk", "transactional")
FORMER = {"bulk": b'"stretches"', "transactional": b'"told"'}
NOW = {"bulk": "ranges", "transactional": "end_sent"}


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    name: str = request.param
    folder = tmp_path / name
    with tarfile.open(DATA / f"{name}.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    return folder


def test_lines_and_columns_hold_the_same_ops_under_the_current_names(run: Path) -> None:
    assert FORMER[run.name] in (run / "history.jsonl").read_bytes()
    assert b'"touches"' in (run / "history.parquet" / "manifest.json").read_bytes()
    lines = read_history(run / "history.jsonl").ops
    columns = list(read_ops(ColumnarHistory(run / "history.parquet")))
    assert columns == lines
    assert any(NOW[run.name] in op.value for op in lines)
    manifest = read_manifest(run / "history.parquet")
    assert len(manifest.message_events) > 1


@pytest.mark.parametrize("kept", ["history.jsonl", "history.parquet"])
def test_the_verdict_is_the_recorded_one(run: Path, kept: str, staticfire: Staticfire) -> None:
    recorded = orjson.loads((run / "verdict.json").read_bytes())["verdict"]
    other = {"history.jsonl": "history.parquet", "history.parquet": "history.jsonl"}[kept]
    (run / other).rename(run.parent / f"left-out-{other}")
    said = staticfire("check", run, "--json")
    assert said.status == 0
    judged = orjson.loads(said.out)
    assert judged["checkers"] == {one["checker"]: one["valid"] for one in recorded["verdicts"]}
    counts = recorded["verdicts"][0]["counts"]
    assert judged["counts"]["acked"] == counts["acked"] > 50
    assert judged["counts"]["unknown"] == counts["unknown"]
