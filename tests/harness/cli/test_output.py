"""Output that cannot be written is a harness error: status 1 would read as "invalid"."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from staticfire.harness.cli import lists
from staticfire.harness.run_folder.run_folder import RunFolder
from tests.harness.cli.conftest import Said

Staticfire = Callable[..., Said]


@pytest.mark.parametrize("number", [errno.EPIPE, errno.ENOSPC])
def test_output_that_nobody_takes_is_a_harness_error(
    number: int, staticfire: Staticfire, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_rows: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(lists, "_print", refuse)
    said = staticfire("faults")
    assert said.status == 255
    assert said.err == f"staticfire: the output cannot be written: {os.strerror(number)}\n"


def test_hunt_says_when_its_rows_cannot_be_kept(staticfire: Staticfire) -> None:
    said = staticfire(
        *("hunt", "--seeds", "0-0", "--jobs", "1", "--time", "1", "--faults", "none"),
        *("--out", "/dev/full"),
    )
    assert said.status == 255
    assert "seeds     1:" in said.out
    assert said.err == "staticfire: --out /dev/full cannot be written: No space left on device\n"


def test_a_run_that_cannot_be_kept_is_a_harness_error(
    staticfire: Staticfire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunFolder, "history", Path("/dev/full"))
    said = staticfire("run", "--seed", "1", "--time", "1", "--faults", "none", "--runs", tmp_path)
    assert said.status == 255
    assert "/dev/full cannot be written" in said.err
