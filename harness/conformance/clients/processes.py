"""Clients under test as processes on this machine that speak the line protocol (docs/client-protocol.md)."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from staticfire.harness.clients.cpp.client import LOG_FOLDER
from staticfire.harness.clients.port import Outcome, Request
from staticfire.harness.clients.process_port import ClientBroken, ProcessPort
from staticfire.harness.conformance.client import (
    ADMINISTRATOR,
    CONSUMER,
    PRODUCER,
    ClientUnusable,
    Emit,
)
from staticfire.harness.targets.interpreter import PYTHON_OPTIONS, code_folders

STOP_S = 15.0
SHOWN_MAX = 300  # characters of the last line that a client wrote on standard error
OUR_ADMINISTRATOR = "staticfire.harness.conformance.clients.administrator"
MODULES = {"own": "staticfire.harness.clients", "cpp": "staticfire.harness.clients.cpp.client"}


class ProcessClients:
    """Starts clients by a command, to which the role is appended.

    Use it as a context manager: the logs of the processes are in a temporary folder.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        takes_log_folder: bool = False,
        administrator: Sequence[str] = (),
    ) -> None:
        """Prepare to start clients.

        Args:
            takes_log_folder: the first line names a folder for the client's logs, removed with the processes.
            administrator: the command of administrators, if the library has any.
        """
        self.name = name
        self.broken = ""
        self._commands = dict.fromkeys((PRODUCER, CONSUMER), tuple(command))
        if administrator:
            self._commands[ADMINISTRATOR] = tuple(administrator)
        self.roles = tuple(self._commands)
        self._takes_log_folder = takes_log_folder
        self._folder = tempfile.TemporaryDirectory(prefix="staticfire-clients-")
        self._count = 0
        self._started: list[ClientInProcess] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._started:
            if client.is_running:  # the suite was interrupted
                client.kill()
        self._folder.cleanup()

    async def start(
        self, role: str, configuration: Mapping[str, object], emit: Emit
    ) -> ClientInProcess:
        """Start a client process. Raises ClientUnusable."""
        self._count += 1
        own = Path(self._folder.name) / f"{role}-{self._count}"
        log = own.with_suffix(".log")
        if self._takes_log_folder:
            configuration = {**configuration, LOG_FOLDER: str(own)}
        try:
            with log.open("wb") as errors:
                process = await asyncio.create_subprocess_exec(
                    *self._commands[role],
                    role,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=errors,
                    start_new_session=True,
                    env={**os.environ, **_variables()},
                )
        except OSError as error:
            raise ClientUnusable(
                f"the client {self._commands[role][0]} cannot be started: {error.strerror}"
            ) from None
        client = ClientInProcess(self, process, log, configuration, emit)
        self._started.append(client)
        return client


class ClientInProcess:
    """One client process. Implements RunningClient."""

    def __init__(
        self,
        owner: ProcessClients,
        process: asyncio.subprocess.Process,
        log: Path,
        configuration: Mapping[str, object],
        emit: Emit,
    ) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.ended = ""
        self._owner = owner
        self._process = process
        self._stdin = process.stdin
        self._log = log
        self._port = ProcessPort(
            str(configuration["node"]),
            lambda type, f, value, error, _stamp: emit(type, f, value, error),
            process.stdout,
            self._stdin.write,
            configuration,
        )
        self._is_silent = False  # no more output follows
        self._reading = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        """Read the output of the process to its end."""
        try:
            await self._port.run()
        except ClientBroken as error:
            self.ended = self._owner.broken = str(error)
            self.kill()
            await self._process.wait()
            return
        self._is_silent = True
        try:
            async with asyncio.timeout(STOP_S):
                status = await self._process.wait()
        except TimeoutError:
            self.kill()
            self.ended = "the client closed its standard output"
            await self._process.wait()
            return
        how = f"with status {status}" if status >= 0 else f"by {signal.Signals(-status).name}"
        self.ended = f"the client ended {how}{self._last_words()}"

    def _last_words(self) -> str:
        """Return the last line on standard error, for an error message."""
        with suppress(OSError):
            lines = self._log.read_text(encoding="utf-8", errors="replace").split("\n")
            said = [line.strip() for line in lines if line.strip()]
            return f" ({said[-1][:SHOWN_MAX]})" if said else ""
        return ""

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    async def request(self, request: Request) -> Outcome:
        outcome = await self._port.request(request)
        if self._is_silent:
            await self.gone()
        return outcome

    async def gone(self) -> None:
        """Wait until the process has ended."""
        await asyncio.wait([self._reading], timeout=STOP_S)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def stop(self) -> None:
        self._stdin.close()
        await self.gone()
        if not self._reading.done():
            self.kill()
            await self.gone()


def _variables() -> dict[str, str]:
    return {"PYTHONPATH": ":".join(code_folders()), "PYTHONDONTWRITEBYTECODE": "1"}


def our_clients(python: str, client: str) -> ProcessClients:
    """Return the maker of a bundled client: "own" or "cpp"."""
    start = (python, *PYTHON_OPTIONS)
    return ProcessClients(
        client,
        (*start, MODULES[client]),
        takes_log_folder=client == "cpp",
        administrator=(*start, OUR_ADMINISTRATOR) if client == "own" else (),
    )
