"""The fault that sealed a failure, and how far the jump of its continuations lies from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from staticfire.faults.model.fault import PlannedFault
from staticfire.harness.museum.figures import read_figures, write_figures
from staticfire.harness.museum.inevitable import Jump, line_of, main
from staticfire.harness.museum.inevitable_worker import Fails, sealing_fault
from staticfire.harness.recording.nemesis import FaultRecord

JUMP = Jump(
    seed=0,
    end_ns=1000,
    before_ns=400,
    after_ns=420,
    is_complete=True,
    continuations=9,
    cpu_s=3.0,
    wall_s=4.0,
    kind="kill",
    cause_ns=410,
)


def fired(*kinds: str) -> list[FaultRecord]:
    plan = [
        PlannedFault(fault_id=number, kind=kind, at_s=number, duration_s=1.0, targets=("a",))
        for number, kind in enumerate(kinds)
    ]
    return [FaultRecord(planned=planned, fired_ns=planned.fault_id) for planned in plan]


def fails_from(count: int) -> Fails:
    """A run that fails with so many faults, or more."""

    def fails(last: FaultRecord) -> bool:
        return last.planned.fault_id + 1 >= count

    return fails


def id_of(found: FaultRecord | None) -> int | None:
    return None if found is None else found.planned.fault_id


@pytest.mark.parametrize(
    ("kinds", "from_count", "expected"),
    [
        (["kill"], 1, 0),
        (["kill"], 2, 2),  # the one between is of another kind
        (["kill"], 5, None),
        (["pause", "kill"], 1, 2),  # not the kill before the pause
        (["pause|eio", "kill|eio"], 1, 2),
        (["eio"], 1, None),
    ],
)
def test_the_first_fault_behind_the_others_with_which_the_run_fails(
    kinds: list[str], from_count: int, expected: int | None
) -> None:
    faults = fired("kill", "pause", "kill", "pause")
    assert id_of(sealing_fault(faults, kinds, fails_from(from_count))) == expected


@pytest.mark.parametrize(
    ("cause_ns", "off", "is_near"),
    [
        (400, 0.0, True),
        (420, 0.0, True),
        (391, 0.009, True),
        (431, 0.011, False),
        (None, None, False),
    ],
)
def test_a_jump_is_near_within_a_hundredth_of_the_run(
    cause_ns: int | None, off: float | None, is_near: bool
) -> None:
    jump = replace(JUMP, cause_ns=cause_ns)
    assert (jump.off, jump.is_near) == (off, is_near)
    assert not replace(jump, is_complete=False).is_near


def test_what_was_inevitable_from_the_start_needs_no_fault() -> None:
    jump = replace(JUMP, before_ns=None, after_ns=0, cause_ns=0, kind="")
    assert jump.off == 0.0
    assert line_of("name", jump).startswith("name: start at 0; jump None - 0 ns; off by 0.00%")


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    write_figures(path, {"b": JUMP, "a": replace(JUMP, seed=2)})
    assert read_figures(path, Jump) == {"a": replace(JUMP, seed=2), "b": JUMP}
    assert read_figures(tmp_path / "none.json", Jump) == {}
    assert list(tmp_path.iterdir()) == [path]


def test_a_piece_without_a_cause_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no-such"]) == 254
    said = capsys.readouterr().err
    assert said.startswith("NAME is no-such; allowed: pieces whose files have `cause`: ack-before-")


@pytest.mark.parametrize("options", [["--jobs", "0"], ["--budget", "-1"], ["--budget", "nan"]])
def test_bounds_of_options(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(options) == 254
    assert f"{options[0]} is {options[1]}; allowed: " in capsys.readouterr().err
