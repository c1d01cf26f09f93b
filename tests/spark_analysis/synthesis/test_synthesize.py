"""Synthetic histories: one seed, the same bytes; size and shape as asked; nothing found that is not planted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from staticfire.checkers.formats.columnar.reader import ColumnarHistory
from staticfire.checkers.model.columns import Outcome
from staticfire.checkers.verdicts.compose import ALL_CHECKERS
from staticfire.spark_analysis.engine.engines import InProcess
from staticfire.spark_analysis.results.verdicts import judge_runs
from staticfire.spark_analysis.runs.raw import RAW_FOLDER
from staticfire.spark_analysis.synthesis.synthesize import TRUTH_FILE
from staticfire.spark_analysis.synthesis.workload_profile import ShapeError, WorkloadProfile
from tests.support.synthetic import disagreements, small, truth_of

PROFILES = [
    {},
    {"skew": 0.0, "fan_out": 1, "groups": 1},
    {"groups": 10, "fan_out": 10, "ops": 20_000},
    {"groups": 7, "fan_out": 3, "topics": 3, "brokers": 1, "queues": 5, "batch": 4},
    {"first_offset": 10**12, "outages": 3, "seed": 5},
    {"plant": 3, "ops": 40_000, "seed": 9},
    {"semantics": 0, "outages": 0},
]


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES, ids=str)
def test_what_was_planted_is_found_and_nothing_else(
    profile: dict[str, Any], tmp_path: Path
) -> None:
    runs = small(tmp_path, **profile)
    [verdict] = judge_runs(runs, InProcess())
    assert disagreements(tmp_path, verdict) == []
    assert verdict.valid is False


@pytest.mark.slow
@pytest.mark.parametrize("plant", [1, 3])
def test_every_kind_is_planted_when_there_is_room(plant: int, tmp_path: Path) -> None:
    """Each as often as asked, at least; of the hot key there can be one."""
    small(tmp_path, ops=30_000, rows_a_chunk=50_000, plant=plant)
    planted = Counter(finding["anomaly"] for finding in truth_of(tmp_path)["findings"])
    known = {anomaly for checker in ALL_CHECKERS for anomaly in checker.anomalies}
    assert set(planted) == known
    drained = {"hot_key", "commit_beyond_end", "commit_behind"}
    assert [kind for kind in planted if planted[kind] < plant and kind not in drained] == []


@pytest.mark.slow
def test_a_plant_that_is_not_made_is_missed(tmp_path: Path) -> None:
    """The comparison with the truth detects a finding that is not there, one that is missing, and a wrong verdict."""
    [run] = small(tmp_path)
    [verdict] = judge_runs([run], InProcess())
    truth = truth_of(tmp_path)
    for change in (
        lambda reported: reported[:-1],
        lambda reported: [*reported, reported[-1]],
        lambda reported: [
            *reported[:-1],
            {**reported[-1], "explained": not reported[-1]["explained"]},
        ],
        lambda reported: [*reported[:-1], {**reported[-1], "key": "p1-1"}],
        lambda reported: [{**reported[0], "physical_offset": 7}, *reported[1:]],
    ):
        changed = {**truth, "findings": change(truth["findings"])}
        (tmp_path / TRUTH_FILE).write_bytes(orjson.dumps(changed))
        assert disagreements(tmp_path, verdict)


def test_nothing_planted_is_valid(tmp_path: Path) -> None:
    [verdict] = judge_runs(small(tmp_path, plant=0), InProcess())
    assert [of.checker for of in verdict.verdicts if of.valid is not True] == []
    assert verdict.valid is True


@pytest.mark.slow
def test_one_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    files = []
    for name in ("a", "b"):
        small(tmp_path / name, layout="both")
        below = sorted((tmp_path / name).rglob("*.*"))
        files.append(
            [(p.relative_to(tmp_path / name), p.read_bytes()) for p in below if p.is_file()]
        )
    assert files[0] == files[1]
    small(tmp_path / "c", seed=2)
    assert truth_of(tmp_path / "a")["findings"] != truth_of(tmp_path / "c")["findings"]


def test_the_shape_is_as_asked(tmp_path: Path) -> None:
    profile: dict[str, Any] = {
        "groups": 4,
        "fan_out": 4,
        "skew": 1.0,
        "first_offset": 10**12,
        "semantics": 0,
    }
    [run] = small(tmp_path, ops=20_000, **profile)
    columns = ColumnarHistory(run.history).columns()
    assert abs(truth_of(tmp_path)["counts"]["ops"] - 20_000) < 1500  # commits and failed sends
    assert len(columns.deliveries) == pytest.approx(4 * len(columns.sends), rel=0.03)
    sizes = np.bincount(columns.sends.log[columns.sends.log >= 0])
    assert sizes[0] > 5 * sizes[-1]
    offsets = columns.sends.queue_offset[columns.sends.outcome == Outcome.OK]
    assert offsets.min() >= 10**12


@pytest.mark.slow
def test_raw_rows_are_those_of_the_queues_in_the_order_of_time(tmp_path: Path) -> None:
    small(tmp_path, layout="both")
    [queued], [raw] = (small(tmp_path / name, layout=name) for name in ("per-queue", "raw"))
    assert raw.raw
    assert raw.history.name == RAW_FOLDER
    assert raw.manifest.rows == queued.manifest.rows
    lasts = [part.last for part in raw.manifest.message_events]
    assert lasts == sorted(lasts)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"ops": 0}, "ops is 0; allowed are 1 to 100000000000"),
        ({"fan_out": 3}, "fan_out is 3; there are only 2 groups"),
        ({"queues": 7}, "queues is 7; each topic has one on each broker: 8"),
        ({"batch": 33}, "batch is 33; allowed are 1 to 32"),
    ],
)
def test_impossible_shapes_are_refused(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ShapeError, match=f"^{sentence}$"):
        WorkloadProfile(**wrong)


@pytest.mark.slow
@pytest.mark.parametrize("ops", [1, 2, 50, 300])
def test_tiny_ones_have_no_room_for_anomalies_and_are_histories_all_the_same(
    ops: int, tmp_path: Path
) -> None:
    [verdict] = judge_runs(small(tmp_path, ops=ops), InProcess())
    assert disagreements(tmp_path, verdict) == []
