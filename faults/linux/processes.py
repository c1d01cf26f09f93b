"""Processes by pid and start time, so that a pid that was given away again is never hit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from staticfire.faults.errors import FaultError
from staticfire.faults.linux.executor import CommandFailed
from staticfire.faults.linux.machine import LinuxMachine

Signal = Literal["KILL", "TERM", "STOP", "CONT"]

ROUND_S = 0.02  # how often a state is looked at
KILL_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 5.0
STOPPED = "T"  # proc(5): stopped by a signal
GONE = ""

# Sets $state to the letter of proc(5), empty if the process is gone (a zombie is) or is another one.
_LOOK = """
look() {
  state=
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
  set -- "$1" "$2" ${stat##*) }
  [ "${22}" = "$2" ] && [ "$3" != Z ] && [ "$3" != X ] && state=$3
  return 0
}
look "$1" "$2"
"""
_IDENTIFY = """
stat=$(cat "/proc/$1/stat" 2>/dev/null) || exit 0
set -- ${stat##*) }
[ "$1" = Z ] || echo "${20}"
"""
_STATE = _LOOK + "echo $state"
_SIGNAL = _LOOK + '[ -n "$state" ] && kill -"$3" "$1" && echo done\ntrue'
# Until the state is "$3"; $4 rounds. Says the last state.
_WAIT = (
    _LOOK
    + f"""
for round in $(seq "$4"); do [ "$state" = "$3" ] && break; sleep {ROUND_S}; look "$1" "$2"; done
echo $state
"""
)


class ProcessGone(FaultError):
    """There is no process with this pid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    pid: int
    start_ticks: str  # field 22 of /proc/PID/stat: with the pid it names a process for good


class Processes:
    """The processes of a machine."""

    def __init__(self, machine: LinuxMachine) -> None:
        self._machine = machine

    async def identify(self, pid: int) -> ProcessId:
        """Raises ProcessGone."""
        ticks = (await self._machine.run(["sh", "-c", _IDENTIFY, "sh", str(pid)])).strip()
        if not ticks:
            raise ProcessGone(f"there is no process {pid}")
        return ProcessId(pid=pid, start_ticks=ticks)

    async def state(self, process: ProcessId) -> str:
        """The letter of proc(5), such as "S" or "T"; GONE for one that has ended, a zombie included."""
        return await self._run(_STATE, process)

    async def is_alive(self, process: ProcessId) -> bool:
        return await self.state(process) != GONE

    async def kill(self, process: ProcessId) -> bool:
        """SIGKILL, and wait until it is gone. Returns whether there was a process to kill.

        Raises FaultError if it does not die (it hangs in the kernel).
        """
        if not await self._signal(process, "KILL"):
            return False
        if await self._wait(process, GONE, KILL_TIMEOUT_S) != GONE:
            raise FaultError(
                f"process {process.pid} is not gone {KILL_TIMEOUT_S:g} s after its SIGKILL"
            )
        return True

    async def terminate(self, process: ProcessId, timeout_s: float) -> bool:
        """SIGTERM, and wait. Returns whether it ended by itself within the time; False also if it did not run."""
        if not await self._signal(process, "TERM"):
            return False
        return await self._wait(process, GONE, timeout_s) == GONE

    async def pause(self, process: ProcessId) -> bool:
        """SIGSTOP, and wait until it has stopped: sockets stay open, nothing answers. Returns whether it ran."""
        if not await self._signal(process, "STOP"):
            return False
        return await self._wait(process, STOPPED, STOP_TIMEOUT_S) == STOPPED

    async def resume(self, process: ProcessId) -> bool:
        """SIGCONT. Returns whether there was a process."""
        return await self._signal(process, "CONT")

    async def _signal(self, process: ProcessId, name: Signal) -> bool:
        try:
            return await self._run(_SIGNAL, process, name) == "done"
        except CommandFailed:
            if await self.is_alive(process):  # not ours to signal
                raise
            return False

    async def _wait(self, process: ProcessId, state: str, timeout_s: float) -> str:
        rounds = max(1, int(timeout_s / ROUND_S))
        return await self._run(_WAIT, process, state, str(rounds), timeout_s=2 * timeout_s + 10)

    async def _run(
        self, script: str, process: ProcessId, *more: str, timeout_s: float = 30.0
    ) -> str:
        argv = ["sh", "-c", script, "sh", str(process.pid), process.start_ticks, *more]
        return (await self._machine.run(argv, timeout_s=timeout_s)).strip()
