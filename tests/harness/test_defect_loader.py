"""Commands restarted with a planted defect, in a process that imports the patched copy of the system."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from staticfire.faults.defects import DefectError
from staticfire.harness.cli import status_of
from staticfire.harness.defect_loader import VARIABLE, DefectToPlant, planted, use_defect

DEFECT = "ack-before-fsync"
WHERE = "import staticfire.system_under_test as a, staticfire.harness as b; print(a.__file__); print(b.__file__)"


def test_a_command_goes_on_without_a_defect_or_with_the_one_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_defect("")
    monkeypatch.setenv(VARIABLE, DEFECT)
    use_defect(DEFECT)


def test_a_command_runs_again_for_a_defect_that_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(DefectToPlant, match=DEFECT):
        use_defect(DEFECT)
    with pytest.raises(
        DefectError, match=r"unknown defect 'none', .*; there are: ack-before-fsync"
    ):
        use_defect("none")


def test_the_copy_comes_first_and_the_harness_is_ours() -> None:
    with planted(DEFECT) as folders:
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
        command = [sys.executable, "-P", "-c", WHERE]
        said = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
        system, harness = said.stdout.split()
        assert Path(system).is_relative_to(folders[0])
        assert Path(harness).is_relative_to(folders[1])
    assert not Path(folders[0]).exists()


@pytest.mark.slow
def test_the_status_is_that_of_the_second_run(capfd: pytest.CaptureFixture[str]) -> None:
    assert status_of(["crash-store", "--cycles", "1", "--policies", "x", "--defect", DEFECT]) == 254
    assert "policies" in capfd.readouterr().err
