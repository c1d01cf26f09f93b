"""`staticfire synthesize` and `analyze` as commands: files, 25 lines, exit statuses, sentences."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from spark_analysis.inputs import FACTS_FILE
from tests.harness.cli.conftest import Said

Staticfire = Callable[..., Said]
SMALL = ("--ops", "8000", "--queues", "12", "--rows-a-chunk", "6000")


def test_a_synthetic_history_is_analysed(staticfire: Staticfire, tmp_path: Path) -> None:
    said = staticfire("synthesize", tmp_path, *SMALL, "--plant", "1")
    assert said.status == 0
    assert "anomalies planted, told in truth.json" in said.out
    said = staticfire("analyze", tmp_path)
    assert said.status == 1
    lines = said.out.splitlines()
    assert lines[1] == "verdict   INVALID"
    assert "memory at most about" in lines[0]
    assert len(lines) <= 25
    out = tmp_path / "analysis"
    document = orjson.loads((out / "verdict.json").read_bytes())
    assert document["valid"] is False
    witnesses = [orjson.loads(line) for line in (out / "witnesses.jsonl").read_bytes().splitlines()]
    assert {"lost", "phantom"} <= {finding["anomaly"] for finding in witnesses}
    assert b"<svg" in (out / "latency.svg").read_bytes()
    again = (out / "verdict.json").read_bytes()
    assert staticfire("analyze", tmp_path).status == 1  # what it wrote is no further run
    assert (out / "verdict.json").read_bytes() == again


def test_valid_and_unknown(staticfire: Staticfire, tmp_path: Path) -> None:
    assert staticfire("synthesize", tmp_path, *SMALL, "--plant", "0", "--layout", "raw").status == 0
    said = staticfire("analyze", tmp_path, "--out", tmp_path / "out")
    assert (said.status, said.out.splitlines()[1]) == (0, "verdict   VALID")
    facts = orjson.loads((tmp_path / FACTS_FILE).read_bytes())
    facts["floors"]["acked_min"] = 10**9
    (tmp_path / FACTS_FILE).write_bytes(orjson.dumps(facts))
    said = staticfire("analyze", tmp_path, "--out", tmp_path / "out")
    assert (said.status, said.out.splitlines()[1]) == (2, "verdict   UNKNOWN")


def test_several_versions(staticfire: Staticfire, tmp_path: Path) -> None:
    for name, plant in (("v1", "0"), ("v2", "1")):
        options = (*SMALL, "--semantics", "0", "--plant", plant)
        assert staticfire("synthesize", tmp_path / name / "run", *options).status == 0
    said = staticfire("analyze", tmp_path / "v1", tmp_path / "v2", "--out", tmp_path / "out")
    assert said.status == 1
    assert "regression lost: in 1 runs of v2, in none of v1" in said.out
    assert len(said.out.splitlines()) <= 25


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("nowhere",), "nowhere does not exist; give the folder of a run, or of many runs"),
        (("--engine", "in-process", "--master", "local[2]", "."), "--master is for --engine spark"),
        (("--engine", "duckdb", "."), "'duckdb' is not one of 'in-process', 'spark'"),
        ((), "Missing argument 'PATH...'"),
    ],
)
def test_bad_arguments(
    staticfire: Staticfire, arguments: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    said = staticfire("analyze", *arguments)
    assert said.status == 254
    assert sentence in said.err
    assert len(said.err.splitlines()) == 1


def test_a_history_that_is_there_is_not_overwritten(staticfire: Staticfire, tmp_path: Path) -> None:
    assert staticfire("synthesize", tmp_path, *SMALL).status == 0
    said = staticfire("synthesize", tmp_path, *SMALL)
    assert said.status == 254
    assert "holds a history already" in said.err
    said = staticfire("synthesize", tmp_path / "b", "--ops", "0")
    assert said.status == 254
    assert said.err == "staticfire: ops is 0; allowed are 1 to 100000000000\n"
