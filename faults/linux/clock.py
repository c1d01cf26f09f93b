"""Changes the wall clock for the processes of one node, with libfaketime (Debian: `libfaketime`).

A process must be started with the variables of `FakeClock.environment`. It then adds the offset in a file to the time.
Monotonic clocks are not affected, and so neither are timers, sleeps and time-outs (measured with CPython 3.11 and Java
17). In Java, Debian's library needs FAKETIME_FORCE_MONOTONIC_FIX=0; otherwise Object.wait() returns at once.
"""

from __future__ import annotations

import glob
from collections.abc import Sequence

from staticfire.faults.errors import FaultError
from staticfire.faults.linux.executor import CommandFailed
from staticfire.faults.linux.machine import LinuxMachine

PACKAGE = "libfaketime"
# The thread-safe library: it reads the file at each call, from any thread.
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
    """Return the path of libfaketime on the machine. Raises ClockError, which names the package to install."""
    path = (await machine.run(["sh", "-c", _FIND])).strip()
    if not path:
        raise ClockError(f"there is no {LIBRARY} on this machine; install the package {PACKAGE}")
    return path


def local_library() -> str | None:
    """Return the path of libfaketime on this machine; None if it is not installed."""
    found = (path for folder in FOLDERS for path in glob.glob(f"{folder}/{LIBRARY}"))
    return next(found, None)


def offset_text(milliseconds: int) -> str:
    """Format an offset for libfaketime: a sign, and seconds with a fraction."""
    sign = "-" if milliseconds < 0 else "+"
    seconds, rest = divmod(abs(milliseconds), 1000)
    return f"{sign}{seconds}.{rest:03}s"


class FakeClock:
    """The wall clock of one node. `file` is an absolute path on the machine, in an existing folder.

    The library reads the file whenever a process reads the clock, which takes about 8 us, so a step is visible at once.
    """

    def __init__(self, machine: LinuxMachine, file: str, library: str) -> None:
        self._machine = machine
        self.file = file
        self.library = library
        self._offset_ms = 0

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables with which a process must be started."""
        return self.environment_for(self.file)

    def environment_for(self, file: str) -> dict[str, str]:
        """Return the same variables for a process that sees the file at another path."""
        return {
            "LD_PRELOAD": self.library,
            "FAKETIME_TIMESTAMP_FILE": file,
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",
            "NO_FAKE_STAT": "1",  # a file keeps the time at which it was written
            "FAKETIME_NO_CACHE": "1",
        }

    async def create(self) -> None:
        """Write the file, with offset 0. Call this before the first process is started."""
        await self._write(0)

    async def step(self, milliseconds: int) -> int:
        """Move the clock by `milliseconds`; return how many milliseconds it moved for a process that reads it."""
        before_ms = await self.offset_ms()
        await self._write(self._offset_ms + milliseconds)
        return await self.offset_ms() - before_ms

    async def reset(self) -> None:
        """Set the clock right again."""
        await self._write(0)

    async def offset_ms(self) -> int:
        """Return how many milliseconds the node's clock is ahead, as a process with these variables sees it.

        It compares the output of two commands, so the result may be off by a few milliseconds.
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
        """Write the file atomically, so that a process reads either the old offset or the new one."""
        script = 'printf "%s\\n" "$2" > "$1.new" && mv "$1.new" "$1"'
        argv = ["sh", "-c", script, "sh", self.file, offset_text(offset_ms)]
        try:
            await self._machine.run(argv)
        except CommandFailed as error:
            raise ClockError(f"{self.file} cannot be written: {error.stderr}") from error
        self._offset_ms = offset_ms
