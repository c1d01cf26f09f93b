"""Suggestions for mistyped names, from every part of the project."""

from __future__ import annotations

from pathlib import Path

import pytest

from staticfire.harness.cli.suggestions import LISTED_MAX, did_you_mean, near, with_suggestion
from tests.harness.cli.conftest import Staticfire


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("snyc", ["sync", "async"]),
        ("SYNC", ["sync", "async"]),
        ("skew", ["clock-skew"]),
        ("nothing", []),
        ("", []),
    ],
)
def test_near_names(name: str, found: list[str]) -> None:
    assert near(name, ["sync", "async", "none", "clock-skew"]) == found


def test_a_refusal_keeps_a_short_list_and_leaves_out_a_long_one() -> None:
    assert with_suggestion("flush is 'snyc'; allowed: sync, never") == (
        "flush is 'snyc'; did you mean sync? allowed: sync, never"
    )
    names = ", ".join(f"fault-{number}" for number in range(LISTED_MAX + 4))
    assert with_suggestion(f"unknown fault 'fault-1x'; there are: kill, {names}").startswith(
        "unknown fault 'fault-1x'; did you mean fault-1"
    )
    assert "there are" not in with_suggestion(f"unknown fault 'fault-1x'; there are: {names}")
    cut = with_suggestion(f"unknown fault 'y'; there are: {names}")
    assert cut.endswith("fault-14, fault-15, and 4 more")


@pytest.mark.parametrize(
    "sentence",
    [
        "slaves is 'a,b'; allowed: whole numbers with commas, such as 2,1",
        "--budget is nan; allowed: more than 0 and up to 1000000 seconds",
        "NAME is 'b'; allowed: a, b",
        "No such option '--strategy'.",
        "",
    ],
)
def test_other_sentences_stay_as_they_are(sentence: str) -> None:
    assert with_suggestion(sentence) == sentence


def test_a_choice_of_click_gets_one_too() -> None:
    said = with_suggestion("Invalid value for '--layout': 'rav' is not one of 'raw', 'both'.")
    assert (
        said == "Invalid value for '--layout': 'rav' is not one of 'raw', 'both'; did you mean raw?"
    )


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ("run --workload quue", "queue"),
        ("run --flush snyc", "sync"),
        ("run --environment proceses", "processes"),
        ("run --faults kil", "kill"),
        ("run --faults kill,clock-scew", "clock-skew"),
        ("run --consumer-kind psh", "push"),
        ("run --defect ack-before-fsinc", "ack-before-fsync"),
        ("run --campaign defalt", "default"),
        ("run --mode faithful --policies store.cutlog", "store.cut_log"),
        ("run --file-system xts", "xfs"),
        ("hunt --seeds 0 --until-found --anomaly lst", "lost"),
        ("hunt --seeds 0 --workload queue,orderd", "ordered"),
        ("bugs ack-before-fsinc", "ack-before-fsync"),
        ("bugs --checker los", "loss"),
        ("reproduce ack-before-fsinc", "ack-before-fsync"),
        ("crash-store --defect recovery-ignores-cr", "recovery-ignores-crc"),
        ("promises --anomaly lst", "lost"),
        ("promises --profile sync/sinc", "sync/sync/hardened"),
        ("conform --profile broker-cor", "broker-core"),
        ("conform --select RMQ-SDN-01", "RMQ-SND-01"),
        ("conform --mode hardend", "hardened"),
        ("table --out {out}/t.jsonl --environments proceses", "processes"),
        ("table --out {out}/t.jsonl --campaigns defalt", "default"),
        ("table --out {out}/t.jsonl --target apche", "apache"),
        ("analyze --engine sprk /tmp", "spark"),
        ("synthesize {out}/x --layout per-que", "per-queue"),
        ("runn", "run"),
        ("history statz x", "stats"),
        ("admin clusterLst", "clusterList"),
        ("run --sede 3", "--seed"),
    ],
)
def test_a_command_suggests(
    arguments: str, wanted: str, staticfire: Staticfire, tmp_path: Path
) -> None:
    said = staticfire(*arguments.format(out=tmp_path).split())
    assert said.status == 254
    assert "id you mean" in said.err
    assert wanted in said.err.partition("id you mean")[2]
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    "command", ["check", "replay", "explain", "shrink", "report", "history stats", "analyze"]
)
def test_a_run_that_is_not_there_has_neighbours(
    command: str, staticfire: Staticfire, tmp_path: Path
) -> None:
    (tmp_path / "20261126-040945-queue-1").mkdir()
    said = staticfire(*command.split(), tmp_path / "20261126-04095-queue-1")
    assert said.status == 254
    assert said.err.endswith(f"; did you mean {tmp_path}/20261126-040945-queue-1?\n")


def test_a_campaign_file_that_is_not_there_has_neighbours(
    staticfire: Staticfire, tmp_path: Path
) -> None:
    (tmp_path / "orders.toml").write_text("[campaign]\n")
    said = staticfire("run", "--campaign", tmp_path / "order.toml")
    assert f"did you mean {tmp_path}/orders.toml?" in said.err


def test_nothing_near_is_nothing_said() -> None:
    assert did_you_mean("zzz", ["sync"]) == ""


def test_a_file_is_not_suggested_for_itself(tmp_path: Path) -> None:
    (tmp_path / "runs").touch()
    refusal = f"{tmp_path / 'runs'} is not a folder; give the folder of a run"
    assert with_suggestion(refusal) == refusal
    (tmp_path / "runs-1").mkdir()
    assert with_suggestion(refusal) == f"{refusal}; did you mean {tmp_path / 'runs-1'}?"


def test_a_second_run_may_come_from_a_pattern(tmp_path: Path) -> None:
    refusal = f"Got unexpected extra argument ({tmp_path})"
    assert with_suggestion(refusal).endswith("; a pattern such as runs/* must match one run here")
    other = "Got unexpected extra argument (no-file)"
    assert with_suggestion(other) == other
