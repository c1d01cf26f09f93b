"""Output that cannot be written is a harness error: status 1 would read as "invalid"."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from staticfire.harness.cli import TRACEBACK, lists
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


@pytest.mark.parametrize(
    ("error", "status", "sentence"),
    [
        (
            PermissionError(13, "Permission denied", "/root/x"),
            254,
            "/root/x cannot be used: Permission denied",
        ),
        (
            OSError(36, "File name too long", "n\x1b[2J"),
            254,
            "n\\x1b[2J cannot be used: File name too long",
        ),
        (
            FileNotFoundError(2, "No such file or directory", b"b"),
            254,
            "b cannot be used: No such file or directory",
        ),
        (
            OSError(5, "Input/output error", "/mnt/a"),
            255,
            "/mnt/a cannot be used: Input/output error",
        ),
        (OSError("no more ports"), 255, "the machine failed: no more ports"),
        (MemoryError(), 255, "there is not enough memory for this"),
        (
            ValueError("two\nlines \x1b[2J"),
            255,
            "this is an error of Staticfire: ValueError: two lines \\x1b[2J, at tests/harness/cli/test_output.py:",
        ),
        (RecursionError(), 255, "this is an error of Staticfire: RecursionError, at tests/"),
    ],
)
def test_an_unexpected_error_is_one_sentence(
    error: Exception,
    status: int,
    sentence: str,
    staticfire: Staticfire,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_rows: object) -> None:
        raise error

    monkeypatch.setattr(lists, "_print", fail)
    monkeypatch.delenv(TRACEBACK, raising=False)
    said = staticfire("faults")
    assert said.status == status
    assert said.err.startswith(f"staticfire: {sentence}")
    assert said.err.count("\n") == 1
    monkeypatch.setenv(TRACEBACK, "1")
    assert staticfire("faults").err.startswith("Traceback") is sentence.startswith("this is an")


def test_a_loop_of_links_is_no_history(staticfire: Staticfire, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    said = staticfire("history", "merge", tmp_path / "loop", "--out", tmp_path / "merged")
    assert said.status == 254
    assert said.err.count("\n") == 1
