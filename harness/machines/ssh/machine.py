"""A node as a process on an SSH host that lets root in."""

from __future__ import annotations

import asyncio
import io
import shlex
import tarfile
from collections.abc import Mapping
from pathlib import Path

from staticfire.harness.machines.machine import LaunchSpec
from staticfire.harness.machines.options import MachineOptions, SshHost
from staticfire.harness.machines.shielded_launch import launched_wholly
from staticfire.harness.machines.ssh.connection import SshExecutor, SshProcess, connect

READ_TIMEOUT_S = 120.0
# Writes the file so that after a power cut it is there as a whole or not at all.
WRITE_IF_MISSING = """\
[ -e "$1" ] && exit
mkdir -p "$(dirname "$1")" && cat > "$1.new" && sync "$1.new" && mv "$1.new" "$1" && sync "$(dirname "$1")"
"""

# tar ends with status 1 if a file has changed or gone meanwhile, as files of a running node may.
READ_FOLDER = 'tar --create --directory "$1" . || [ $? = 1 ]'


class SshMachine:
    """Implements `staticfire.harness.machines.machine.Machine`."""

    def __init__(
        self,
        node: str,
        address: str,
        folder: str,
        log: Path,
        *,
        host: SshHost,
        options: MachineOptions,
        executor: SshExecutor,
        variables: Mapping[str, str],
    ) -> None:
        self.node = node
        self.address = address
        self.folder = folder
        self.log = log
        self._host = host
        self._options = options
        self._executor = executor
        self._variables = variables

    async def launch(self, launch_spec: LaunchSpec) -> SshProcess:
        return await launched_wholly(self._launch(launch_spec))

    async def _launch(self, launch_spec: LaunchSpec) -> SshProcess:
        for path, data in launch_spec.files.items():
            script = 'mkdir -p "$(dirname "$1")" && cat > "$1"'
            await self._executor.run(["sh", "-c", script, "sh", path], input=data)
        for path, data in launch_spec.kept.items():
            await self._executor.run(["sh", "-c", WRITE_IF_MISSING, "sh", path], input=data)
        variables = [
            f"{name}={value}"
            for name, value in {**launch_spec.variables, **self._variables}.items()
        ]
        command = shlex.join(["env", *variables, *launch_spec.argv])
        process = await asyncio.to_thread(self._start, command)
        process.listen()
        return process

    def _start(self, command: str) -> SshProcess:
        return SshProcess(connect(self._host, self._options), command, self.log, self._executor)

    async def read_files(self, folder: str) -> dict[str, bytes]:
        archive = await self._executor.run(
            ["sh", "-c", READ_FOLDER, "sh", folder], timeout_s=READ_TIMEOUT_S
        )
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            found = (
                (member.name.removeprefix("./"), files.extractfile(member)) for member in files
            )
            return {f"{folder}/{name}": file.read() for name, file in found if file is not None}
