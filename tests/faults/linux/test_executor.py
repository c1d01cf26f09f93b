"""Commands on this machine: output, statuses, time-outs, and what is killed with a command."""

from __future__ import annotations

import asyncio
import gc
import time
from pathlib import Path

import pytest

from staticfire.faults.linux.executor import CommandFailed, CommandTimedOut, LocalExecutor

pytestmark = pytest.mark.real
WAIT_S = 30.0  # and the command would last for 60


def output(*argv: str, input: bytes = b"") -> bytes:
    return asyncio.run(LocalExecutor().run(argv, input=input))


def test_stdin_goes_in_and_stdout_comes_back() -> None:
    assert output("cat", input=b"a\0b") == b"a\0b"


def test_an_error_holds_command_status_and_stderr() -> None:
    with pytest.raises(CommandFailed) as caught:
        output("sh", "-c", "echo no such thing >&2; exit 3")
    assert caught.value.status == 3
    assert str(caught.value) == (
        "sh -c 'echo no such thing >&2; exit 3' ended with status 3: no such thing"
    )


def test_a_killed_command_says_by_what() -> None:
    with pytest.raises(CommandFailed, match="was killed by signal 9: it said nothing"):
        output("sh", "-c", "kill -9 $$")


def test_a_command_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with pytest.raises(CommandFailed, match="cannot be started: No such file") as caught:
        output("no-such-command")
    assert caught.value.status == 127


def test_administrators_commands_are_found_without_their_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert b"/sbin" in output("sh", "-c", "echo $PATH")


def test_a_late_command_is_killed_with_its_children(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = f"sleep 60 & echo $! > {pid_file}; wait"

    async def late() -> None:
        timeout_s = 0.25
        while not (pid_file.exists() and pid_file.read_text()):  # it may not have come so far
            timeout_s *= 2
            with pytest.raises(CommandTimedOut, match=f"had not ended after {timeout_s:g} s"):
                await LocalExecutor().run(["sh", "-c", script], timeout_s=timeout_s)

    asyncio.run(asyncio.wait_for(late(), 60))
    assert not is_running(int(pid_file.read_text()))


def test_a_cancelled_command_is_killed(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"

    async def cancelled() -> None:
        argv = ["sh", "-c", f"echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}; sleep 60"]
        task = asyncio.create_task(LocalExecutor().run(argv))
        while not pid_file.exists():
            await asyncio.sleep(0.005)
        await is_cancelled(task)

    asyncio.run(cancelled())
    assert not is_running(int(pid_file.read_text()))


@pytest.mark.slow
@pytest.mark.parametrize("turns", range(8))
def test_a_command_that_is_cancelled_while_it_starts_leaves_nothing(turns: int) -> None:
    """Turns of the loop; a pipe that stays open would be an error of the test, the wait for its end a late one."""

    async def cancelled() -> None:
        task = asyncio.create_task(LocalExecutor().run(["sh", "-c", "sleep 60; true"]))
        for _ in range(turns):
            await asyncio.sleep(0)
        await is_cancelled(task)

    asyncio.run(cancelled())
    gc.collect()


async def is_cancelled(task: asyncio.Task[bytes]) -> None:
    task.cancel()
    await asyncio.wait([task], timeout=WAIT_S)
    assert task.done(), "it goes on"
    assert task.cancelled()


def is_running(pid: int) -> bool:
    """Whether a process goes on for WAIT_S. A killed one closes its pipes before it ends, and init reaps it later."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False
        if stat.rpartition(")")[2].split()[0] == "Z":
            return False
        time.sleep(0.001)
    return True
