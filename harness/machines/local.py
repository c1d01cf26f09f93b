"""A node as a process of this machine, optionally started by a command that enters a namespace."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from staticfire.harness.machines.machine import LINE_MAX, LaunchSpec
from staticfire.harness.machines.shielded_launch import launched_wholly

INPUT_CLOSED_S = 1.0  # wait for the input to close; a child of the ended process may hold the pipe


class LocalProcess:
    """A child process in a session of its own: Ctrl-C reaches the harness alone, which ends its children in order."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        self._process = process
        self.output = process.stdout

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None

    def write(self, data: bytes) -> None:
        if self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(data)

    async def wait(self) -> str:
        status = await self._process.wait()
        await self._end_input()
        return signal.Signals(-status).name if status < 0 else f"status {status}"

    async def _end_input(self) -> None:
        """Close the input, and retrieve the error of a write to a process that has ended."""
        stdin = self._process.stdin
        if stdin is not None:
            stdin.close()
            with suppress(OSError, TimeoutError):
                await asyncio.wait_for(asyncio.shield(stdin.wait_closed()), INPUT_CLOSED_S)

    async def signal(self, number: int) -> bool:
        if not self.is_alive:
            return False
        try:
            if number == signal.SIGKILL:
                os.killpg(self.pid, number)  # a command may be a script around a client
            else:
                self._process.send_signal(number)
        except ProcessLookupError:
            return False
        return True


class LocalMachine:
    """This host as the machine of a node.

    Args:
        prefix: the words before each command, which enter a namespace; may be empty.
        variables: the environment variables of every process.
    """

    def __init__(
        self,
        node: str,
        address: str,
        folder: Path,
        log: Path,
        *,
        prefix: Sequence[str] = (),
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.node = node
        self.address = address
        self.folder = str(folder)
        self.log = log
        self._prefix = tuple(prefix)
        self._variables = variables

    async def launch(self, launch_spec: LaunchSpec) -> LocalProcess:
        for path, data in launch_spec.files.items():
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_bytes(data)
        for path, data in launch_spec.kept.items():
            write_if_missing(Path(path), data)
        return await launched_wholly(self._start(launch_spec))

    async def _start(self, launch_spec: LaunchSpec) -> LocalProcess:
        with self.log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *self._prefix,
                *launch_spec.argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **launch_spec.variables, **self._variables},
                start_new_session=True,
                limit=LINE_MAX,
            )
        return LocalProcess(process)

    async def read_files(self, folder: str) -> dict[str, bytes]:
        return await asyncio.to_thread(read_files, Path(folder))


def write_if_missing(path: Path, data: bytes) -> None:
    """Write the file unless it exists. After a power cut it exists as a whole or not at all."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".new").open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    path.with_suffix(".new").rename(path)
    for folder in (path.parent, path.parent.parent):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_files(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder by its path."""
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
