"""Commands that are interrupted: they end at once, leave no process and nothing that looks whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.real
ENDLESS = (
    "--seeds",
    "0-9999",
    "--time",
    "1",
    "--faults",
    "none",
)  # each seed prints that it is unknown


def running(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_until_ended(pids: list[int]) -> None:
    deadline = time.monotonic() + 60
    while any(map(running, pids)):
        assert time.monotonic() < deadline, f"still running: {pids}"
        time.sleep(0.01)


@pytest.fixture
def hunt(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A hunt in two processes that has come to its first result."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "staticfire",
            "hunt",
            *ENDLESS,
            "--jobs",
            "2",
            "--out",
            tmp_path / "out",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("seed ")
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("whole_group", [True, False])
def test_a_hunt_that_is_interrupted_takes_its_workers_along(
    hunt: subprocess.Popen[str], tmp_path: Path, number: signal.Signals, whole_group: bool
) -> None:
    workers = children(hunt.pid)
    if whole_group:  # what a terminal does
        os.killpg(hunt.pid, number)
    else:
        hunt.send_signal(number)
    out, err = hunt.communicate(timeout=60)
    assert hunt.returncode == 255
    assert "seeds     " in out
    assert "Traceback" not in err
    assert "interrupted after" in err.splitlines()[-1]
    assert not (tmp_path / "out").exists()
    assert len(workers) == 2
    wait_until_ended(workers)


def test_a_hunt_that_is_killed_leaves_no_worker(hunt: subprocess.Popen[str]) -> None:
    workers = children(hunt.pid)
    hunt.kill()
    wait_until_ended(workers)


def test_a_pipe_that_is_closed_is_no_verdict(tmp_path: Path) -> None:
    run = f"{sys.executable} -m staticfire run --seed 1 --time 60 --verbose --runs {tmp_path}"
    command = f"{run} | head -n 1"
    ended = subprocess.run(
        ["bash", "-c", f"{command}; exit ${{PIPESTATUS[0]}}"], capture_output=True, text=True
    )
    assert ended.returncode == 255
    assert ended.stderr == "staticfire: the output cannot be written: Broken pipe\n"


def test_ctrl_c_in_crash_store_ends_its_processes_without_a_traceback() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "staticfire", "crash-store", "--cycles", "9999999", "--jobs", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    deadline = time.monotonic() + 60
    while len(workers := children(process.pid)) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 255
    assert err.split() == ["staticfire:", "interrupted"]
    wait_until_ended(workers)


def test_ctrl_c_while_modules_are_imported_is_no_traceback() -> None:
    program = (
        "import sys, staticfire.__main__ as command\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'staticfire.harness.cli': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "command.main()\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (255, "", "staticfire: interrupted\n")


@pytest.mark.parametrize(
    "command", ["promises --profile all", "conform --list", "bugs", "--version"]
)
@pytest.mark.parametrize("stderr", ["", "2>&-", "2>&1"])
def test_a_pipe_without_a_reader_is_never_status_1(command: str, stderr: str) -> None:
    """Click and rich end with that; a closed standard error is not replaced by the standard output."""
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m staticfire {command} {stderr}"],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(write)
    assert ended.returncode == 255
    said = "" if stderr else "staticfire: the output cannot be written: Broken pipe\n"
    assert ended.stderr == said
