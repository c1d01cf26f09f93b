"""Runs commands on a machine. The mechanisms of faults reach machines through this interface alone."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from staticfire.faults.errors import FaultError

TIMEOUT_S = 30.0
KILLED_TIMEOUT_S = 5.0  # for killed processes to end
NOT_FOUND = 127  # exit status of a shell for a command that does not exist
# Debian's folders of mkfs, losetup and nft, which are not on every PATH
SYSTEM_PATHS = "/usr/local/sbin:/usr/sbin:/sbin"


class CommandError(FaultError):
    """A command on a machine failed."""


class CommandFailed(CommandError):
    """A command ended with a status other than 0. The text has the command, the status and its standard error."""

    def __init__(self, argv: Sequence[str], status: int, stderr: str) -> None:
        self.argv = tuple(argv)
        self.status = status
        self.stderr = stderr.strip()
        ended = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        super().__init__(f"{shlex.join(argv)} {ended}: {self.stderr or 'it said nothing'}")


class CommandTimedOut(CommandError):
    """A command did not end in time, and was killed."""

    def __init__(self, argv: Sequence[str], timeout_s: float) -> None:
        self.argv = tuple(argv)
        self.timeout_s = timeout_s
        super().__init__(f"{shlex.join(argv)} had not ended after {timeout_s:g} s")


class Executor(Protocol):
    """Runs commands on one machine."""

    async def run(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = TIMEOUT_S
    ) -> bytes:
        """Run the command with `input` on stdin; return its stdout.

        Raises CommandFailed for a status other than 0 (127: the command does not exist), CommandTimedOut.
        """
        ...


class LocalExecutor:
    """Runs commands on this machine.

    Ctrl-C of a terminal does not reach the commands, since a heal must not be interrupted. A command that is cancelled
    or takes too long is killed together with its child processes.
    """

    def __init__(self) -> None:
        path = f"{os.environ.get('PATH', '/usr/bin:/bin')}:{SYSTEM_PATHS}"
        self._environment = {**os.environ, "LC_ALL": "C", "PATH": path}

    async def run(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = TIMEOUT_S
    ) -> bytes:
        process = await self._spawn_wholly(argv)
        try:
            async with asyncio.timeout(timeout_s):
                stdout, stderr = await process.communicate(input)
        except TimeoutError:
            raise CommandTimedOut(argv, timeout_s) from None
        finally:
            if process.returncode is None:
                await _kill(process)
        assert process.returncode is not None
        if process.returncode != 0:
            raise CommandFailed(argv, process.returncode, stderr.decode(errors="replace"))
        return stdout

    async def _spawn_wholly(self, command: Sequence[str]) -> asyncio.subprocess.Process:
        """Start the command so that cancellation cannot leak it: a start that is cancelled midway kills the process."""
        spawning = asyncio.ensure_future(self._spawn(command))
        try:
            return await asyncio.shield(spawning)
        except asyncio.CancelledError:
            with suppress(CommandFailed):
                await _kill(await spawning)
            raise

    async def _spawn(self, command: Sequence[str]) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self._environment,
                start_new_session=True,
            )
        except OSError as error:
            reason = error.strerror or str(error)
            raise CommandFailed(command, NOT_FOUND, f"cannot be started: {reason}") from error


async def _kill(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    # Reads the remaining output, so that the pipes close; a child outside the session may still hold them open.
    with suppress(TimeoutError):
        async with asyncio.timeout(KILLED_TIMEOUT_S):
            await process.communicate()
