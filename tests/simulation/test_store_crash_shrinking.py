"""Failing cycles of the storage crash test become small, and repeat from their file."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from staticfire.harness.cli import status_of
from staticfire.harness.store_crash.cycle import Cycle
from staticfire.harness.store_crash.cycles import run_cycles, store_policy
from staticfire.harness.store_crash.script import MoveKind, Script, drawn_move, script_of
from staticfire.harness.store_crash.shrinking import Played, cause_of, drawn, played, shrink

CYCLES = Path(__file__).parents[1] / "data" / "cycles"  # of crash-store, which failed once
CUT_LOG = "store.cut_log"  # RocketMQ leaves the bytes behind a cut on the disk


def first_failing_seed(policies: str) -> int:
    return min(one.seed for one in run_cycles(0, 30, policy=store_policy([policies])).failures)


def test_a_cycle_repeats_from_its_moves() -> None:
    for seed in range(5):
        first = drawn(seed)
        assert not first.failure
        assert played(first.script) == first


def test_a_cycle_that_fails_becomes_small() -> None:
    policy = store_policy([CUT_LOG])
    first = drawn(first_failing_seed(CUT_LOG), policy)
    better: list[Played] = []

    best = shrink(first, policy, better.append)

    assert better[-1] is best
    assert cause_of(best.failure) == cause_of(first.failure)
    assert best.works <= 5
    assert best.faults <= 2
    assert first.works >= 20
    assert played(best.script, policy) == best
    assert played(best.script).failure == ""  # the hardened store keeps its promises in this cycle


def test_the_cause_of_a_failure_has_no_numbers_and_names() -> None:
    one = "PromiseBroken: record at 1,163 of ('TopicA', 0) is not what was put, at harness/x.py:9"
    other = "PromiseBroken: record at 40 of ('TopicB', 1) is not what was put, at harness/x.py:9"
    assert cause_of(one) == cause_of(other) != cause_of("PromiseBroken: no blank")


@pytest.mark.parametrize("kind", list(MoveKind))
def test_moves_that_the_state_forbids_do_nothing(kind: MoveKind) -> None:
    """Before the first start only starts do anything; after a start and a step of load, none does."""
    plan = drawn(1).script.plan
    start, work, move = (
        drawn_move(Random(5), one) for one in (MoveKind.START, MoveKind.WORK, kind)
    )
    starts = (MoveKind.START, MoveKind.BROKEN_START, MoveKind.FAILED_START)

    before, after = Cycle(0, plan=plan), Cycle(0, plan=plan)
    before.play([move])
    after.play([start, work, move])

    assert before.moves == ([move] if kind in starts else [])
    assert after.moves[2:] == ([] if kind in (*starts, MoveKind.START_AGAIN) else [move])


def test_the_command_writes_a_cycle_that_it_repeats(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, seed = tmp_path / "cycle.json", first_failing_seed(CUT_LOG)
    given = ["--cycles", "1", "--seed", str(seed), "--policies", CUT_LOG, "--shrink", str(path)]
    assert status_of(["crash-store", *given]) == 1
    shown = capsys.readouterr().out
    assert "shrunk: " in shown
    assert f"repeat with: staticfire crash-store --repeat {path}" in shown

    assert status_of(["crash-store", "--repeat", str(path)]) == 1
    again = capsys.readouterr().out.splitlines()
    assert again[-1].startswith("FAILED: PromiseBroken")
    assert set(again) <= set(shown.splitlines())

    script, texts = script_of(path.read_text())
    assert texts["policies"] == CUT_LOG
    path.write_text(script.to_text())
    assert status_of(["crash-store", "--repeat", str(path)]) == 0
    assert capsys.readouterr().out.endswith("valid: no promise is broken\n")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read"),
        ("[]", "not a cycle of crash-store"),
        ('{"format": 1, "policies": "store.no", "moves": [], "plan": {}}', "not a cycle"),
    ],
)
def test_a_wrong_cycle_exits_254(
    content: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cycle.json"
    if content is not None:
        path.write_text(content)
    assert status_of(["crash-store", "--repeat", str(path)]) == 254
    assert said in capsys.readouterr().err


def test_a_device_is_no_cycle(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["crash-store", "--repeat", "/dev/zero"]) == 254
    assert "is not a regular file" in capsys.readouterr().err


def test_a_cycle_with_an_unknown_policy_exits_254(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cycle.json"
    path.write_text(drawn(0).script.to_text(policies="store.no"))
    assert json.loads(path.read_text())["policies"] == "store.no"
    assert status_of(["crash-store", "--repeat", str(path)]) == 254
    assert "store.no" in capsys.readouterr().err


def test_a_cycle_of_a_file_takes_no_other_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--repeat", str(tmp_path / "cycle.json"), "--cycles", "5"]
    assert status_of(["crash-store", *given]) == 254
    assert "--cycles and --repeat" in capsys.readouterr().err


def test_the_moves_of_any_order_break_no_promise_of_a_sound_store() -> None:
    """The orders that the shrinker tries: else it would take a false alarm for the failure."""
    kinds = (*MoveKind, *[MoveKind.WORK] * 6)
    plans = [drawn(seed).script.plan for seed in range(5)]
    for seed in range(150):
        random = Random(seed)
        moves = [drawn_move(random, MoveKind.START)]
        moves += [drawn_move(random, random.choice(kinds)) for _ in range(20)]
        found = played(Script(plans[seed % 5], tuple(moves)))
        assert not found.failure, found


def test_a_folder_that_is_not_there_is_refused_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "none" / "cycle.json"
    assert status_of(["crash-store", "--cycles", "1", "--shrink", str(path)]) == 254
    assert "there is no folder" in capsys.readouterr().err


@pytest.mark.parametrize("path", sorted(CYCLES.glob("*.json")), ids=lambda path: path.stem)
def test_a_cycle_that_once_failed_is_valid(path: Path) -> None:
    found = played(script_of(path.read_text())[0])
    assert found.failure == ""
    assert found.faults >= 1
