"""A wall clock that is wrong for the processes of one node, by libfaketime (Debian: `libfaketime`).

A process must be started with `FakeClock.environment`; from then on its offset is what a file says. Monotonic clocks,
and so timers, sleeps and time-outs, do not notice: measured with CPython 3.11 and Java 17, where Debian's library needs
FAKETIME_FORCE_MONOTONIC_FIX=0, or Object.wait() returns at once.
"""

from __future__ import annotations

import glob
from collections.abc import Sequence

from staticfire.faults.errors import FaultError
from staticfire.faults.linux.executor import CommandFailed
from staticfire.faults.linux.machine import LinuxMachine

PACKAGE = "libfaketime"
# The thread-safe one: it reads the file at each call, from whatever thread.
LIBRARY = "libfaketimeMT.so.1"
FOLDERS = (
    "/usr/lib/*/faketime",
    "/usr/lib64/faketime",
    "/usr/lib/faketime",
    "/usr/local/lib/faketime",
)
_FIND = f"""
for folder in {" ".join(FOLDERS)}; do
  [ -e "$folder/{LIBRARY}" ] && {{ echo "$folder/{LIBRARY}"; exit 0; }}
done
true
"""


class ClockError(FaultError):
    """The clock of a node cannot be changed."""


async def library_path(machine: LinuxMachine) -> str:
    """Where libfaketime is on the machine. Raises ClockError with what to install."""
    path = (await machine.run(["sh", "-c", _FIND])).strip()
    if not path:
        raise ClockError(f"there is no {LIBRARY} on this machine; install the package {PACKAGE}")
    return path


def local_library() -> str | None:
    """Where it is on this machine, if it is."""
    found = (path for folder in FOLDERS for path in glob.glob(f"{folder}/{LIBRARY}"))
    return next(found, None)


def offset_text(milliseconds: int) -> str:
    """As libfaketime reads it: a sign, seconds with a fraction."""
    sign = "-" if milliseconds < 0 else "+"
    seconds, rest = divmod(abs(milliseconds), 1000)
    return f"{sign}{seconds}.{rest:03}s"


class FakeClock:
    """The wall clock of one node; `file` is an absolute path on the machine, in a folder that is there.

    The library reads the file at every look at the clock, about 8 us each, so that a step is seen at once.
    """

    def __init__(self, machine: LinuxMachine, file: str, library: str) -> None:
        self._machine = machine
        self.file = file
        self.library = library
        self._offset_ms = 0

    @property
    def environment(self) -> dict[str, str]:
        """What a process must be started with."""
        return self.environment_for(self.file)

    def environment_for(self, file: str) -> dict[str, str]:
        """The same for a process that sees the file under another name."""
        return {
            "LD_PRELOAD": self.library,
            "FAKETIME_TIMESTAMP_FILE": file,
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",
            "NO_FAKE_STAT": "1",  # a file keeps the time at which it was written
            "FAKETIME_NO_CACHE": "1",
        }

    async def create(self) -> None:
        """Write the file, with an offset of 0: before the first process is started."""
        await self._write(0)

    async def step(self, milliseconds: int) -> int:
        """Move the clock by this much. Returns how far it has moved for a process that looks, in milliseconds."""
        before_ms = await self.offset_ms()
        await self._write(self._offset_ms + milliseconds)
        return await self.offset_ms() - before_ms

    async def reset(self) -> None:
        """Set the clock right again."""
        await self._write(0)

    async def offset_ms(self) -> int:
        """How far the clock of the node is ahead, as a process with this environment sees it.

        Two commands are needed for that, so it may be a few milliseconds wrong.
        """
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        faked = await self._now_ms(["env", *variables])
        return faked - await self._now_ms([])

    async def _now_ms(self, prefix: Sequence[str]) -> int:
        said = (await self._machine.run([*prefix, "date", "+%s%3N"])).strip()
        if not said.isdecimal():
            raise ClockError(f"date says {said!r} for milliseconds; needed: the one of coreutils")
        return int(said)

    async def _write(self, offset_ms: int) -> None:
        """In one step: a process that looks meanwhile sees the old or the new one."""
        script = 'printf "%s\\n" "$2" > "$1.new" && mv "$1.new" "$1"'
        argv = ["sh", "-c", script, "sh", self.file, offset_text(offset_ms)]
        try:
            await self._machine.run(argv)
        except CommandFailed as error:
            raise ClockError(f"{self.file} cannot be written: {error.stderr}") from error
        self._offset_ms = offset_ms
