"""Signals reach exactly the process that was meant, and say whether they did."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from staticfire.faults.linux.machine import LinuxMachine
from staticfire.faults.linux.processes import GONE, Processes, ProcessGone, ProcessId
from tests.support.sleeper import STUBBORN, sleeper

pytestmark = pytest.mark.real


def test_stop_and_go_and_kill(machine: LinuxMachine) -> None:
    async def scenario() -> None:
        processes = Processes(machine)
        with sleeper() as child:
            process = await processes.identify(child.pid)
            assert await processes.is_alive(process)
            assert await processes.pause(process)
            assert await processes.state(process) == "T"
            assert await processes.resume(process)
            assert await processes.state(process) in ("R", "S")  # it may not have run yet
            assert await processes.kill(process)
            assert await processes.state(process) == GONE  # nobody has waited for it: a zombie
            assert not await processes.kill(process)
            assert not await processes.pause(process)
            assert not await processes.resume(process)
            assert not await processes.terminate(process, 0.1)

    asyncio.run(scenario())


def test_kill_reaches_a_paused_process(machine: LinuxMachine) -> None:
    async def scenario() -> None:
        processes = Processes(machine)
        with sleeper() as child:
            process = await processes.identify(child.pid)
            await processes.pause(process)
            assert await processes.kill(process)

    asyncio.run(scenario())


def test_terminate(machine: LinuxMachine) -> None:
    async def scenario() -> None:
        processes = Processes(machine)
        with sleeper() as child:
            assert await processes.terminate(await processes.identify(child.pid), 60.0)
        with sleeper(STUBBORN) as child:
            process = await processes.identify(child.pid)
            assert not await processes.terminate(process, 0.1)
            assert await processes.is_alive(process)

    asyncio.run(scenario())


def test_a_pid_that_is_another_process_now_is_left_alone(machine: LinuxMachine) -> None:
    async def scenario() -> None:
        processes = Processes(machine)
        with sleeper() as child:
            found = await processes.identify(child.pid)
            earlier = ProcessId(pid=child.pid, start_ticks=str(int(found.start_ticks) - 1))
            assert not await processes.is_alive(earlier)
            assert not await processes.kill(earlier)
            assert await processes.is_alive(found)

    asyncio.run(scenario())


def test_nobody_has_this_pid(machine: LinuxMachine) -> None:
    pid = int(Path("/proc/sys/kernel/pid_max").read_text())
    with pytest.raises(ProcessGone, match=f"there is no process {pid}"):
        asyncio.run(Processes(machine).identify(pid))


def test_names_with_spaces_and_brackets(machine: LinuxMachine, tmp_path: Path) -> None:
    """/proc/PID/stat holds the name of the program in brackets, as it is."""
    program = tmp_path / "a) Z (b"
    program.symlink_to("/bin/sleep")
    child = os.spawnv(os.P_NOWAIT, program, ["a) Z (b", "60"])
    try:
        process = asyncio.run(Processes(machine).identify(child))
        assert asyncio.run(Processes(machine).is_alive(process))
        assert asyncio.run(Processes(machine).kill(process))
    finally:
        os.waitpid(child, 0)
