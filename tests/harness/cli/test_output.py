"""Output that cannot be written is a harness error: status 1 would read as "invalid"."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from staticfire.harness.cli import TRACEBACK, lists
from staticfire.harness.cli.status import BadInput, HarnessError, of_a_file
from staticfire.harness.run_folder.run_folder import RunFolder
from tests.harness.cli.conftest import Staticfire


@pytest.mark.parametrize("number", [errno.EPIPE, errno.ENOSPC])
def test_a_closed_output_is_a_harness_error(
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
            PermissionError(13, "Permission denied", "private/x"),
            254,
            "private/x cannot be used: Permission denied",
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


FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("error", "kind", "sentence"),
    [
        (FULL, HarnessError, "out/x cannot be used: No space left on device"),
        (
            PermissionError(13, "Permission denied", "y"),
            BadInput,
            "y cannot be used: Permission denied",
        ),
        (
            shutil.Error([("a", "b", "[Errno 28] No space left on device: 'b'"), ("c", "d", "x")]),
            HarnessError,
            "out/x cannot be used: [Errno 28] No space left on device: 'b'",
        ),
        (
            shutil.Error([("a", "b", "[Errno 13] Permission denied: 'a'")]),
            BadInput,
            "out/x cannot be used: [Errno 13] Permission denied: 'a'",
        ),
    ],
)
def test_a_full_disk_is_the_machine_and_a_wrong_name_is_input(
    error: OSError, kind: type[Exception], sentence: str
) -> None:
    reported = of_a_file(error, Path("out/x"))
    assert type(reported) is kind
    assert str(reported) == sentence


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "patched"),
    [
        ("analyze {run} --out {out}/x", "staticfire.harness.cli.analyze.command.write_analysis"),
        ("synthesize {out}/x", "staticfire.harness.cli.synthesize.synthesize"),
        ("history named {run} {out}/x", "staticfire.harness.cli.history.naming.write_named"),
        (
            "history merge {run} --out {out}/x",
            "staticfire.harness.cli.history.converting.write_manifest",
        ),
    ],
)
def test_a_command_says_what_could_not_be_written(
    command: str,
    patched: str,
    staticfire: Staticfire,
    kept_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise FULL

    monkeypatch.setattr(patched, fail)
    said = staticfire(*command.format(run=kept_run, out=tmp_path).split())
    assert said.status == 255
    assert said.err == f"staticfire: {tmp_path}/x cannot be used: No space left on device\n"


def test_a_full_disk_is_no_bad_argument_of_run(
    staticfire: Staticfire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise FULL

    monkeypatch.setattr(Path, "write_text", fail)
    said = staticfire("run", "--seed", "1", "--time", "1", "--runs", tmp_path)
    assert said.status == 255
    assert "cannot write into" in said.err
