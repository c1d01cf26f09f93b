"""A node as a container in the network of a pod, a second container that only holds the network namespace.

So the namespace, its address and its packet filter outlive the node's process, as on a machine.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import docker.errors
import docker.models.containers

import docker
from staticfire.harness.machines.all_ended import to_its_end
from staticfire.harness.machines.docker.health import health_check
from staticfire.harness.machines.local import read_files, write_if_missing
from staticfire.harness.machines.machine import LINE_MAX, LaunchSpec
from staticfire.harness.machines.shielded_launch import launched_wholly

FOLDER = "/node"  # of a node, in its container
HEAD = struct.Struct(
    ">BxxxL"
)  # of a frame of an attached container: stream, bytes (Docker Engine API, "attach")
STDOUT = 1

Answer = TypeVar("Answer")


class Engine:
    """The Docker engine. Its SDK blocks, so all calls are made in threads."""

    def __init__(self) -> None:
        """Raises docker.errors.DockerException if no engine answers."""
        self.client = docker.from_env(timeout=60)
        self.client.ping()
        self._threads = ThreadPoolExecutor(8, "docker")

    async def ask(self, question: Callable[[], Answer]) -> Answer:
        return await to_its_end(asyncio.get_running_loop().run_in_executor(self._threads, question))

    def close(self) -> None:
        self._threads.shutdown()
        self.client.close()


class ContainerProcess:
    """One process of a node: the container from one start to its end."""

    def __init__(self, engine: Engine, container: docker.models.containers.Container) -> None:
        self._engine = engine
        self._container = container
        self._ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._writer: asyncio.StreamWriter | None = None
        self._pump: asyncio.Task[None] | None = None
        self.output = asyncio.StreamReader(limit=LINE_MAX)
        self.pid = 0

    async def start(self, log: BinaryIO) -> None:
        """Attach to the container before its start, so that no output is lost."""
        attached = await self._engine.ask(self._attach)
        reader, self._writer = await asyncio.open_connection(sock=attached)
        self.pid = await self._engine.ask(self._start)
        self._pump = asyncio.create_task(self._read(reader, log))

    def _start(self) -> int:
        self._container.start()
        self._container.reload()
        return int(self._container.attrs["State"]["Pid"])

    def _attach(self) -> socket.socket:
        wanted = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
        attached: Any = self._container.attach_socket(params=wanted)
        # The SDK offers no other access to the socket. Detach it, so that the SDK does not close it.
        raw = socket.socket(fileno=attached._sock.detach())
        raw.setblocking(False)
        return raw

    async def _read(self, reader: asyncio.StreamReader, log: BinaryIO) -> None:
        """Separate the two output streams until the container has ended."""
        with log:
            try:
                while True:
                    stream, size = HEAD.unpack(await reader.readexactly(HEAD.size))
                    data = await reader.readexactly(size)
                    if stream == STDOUT:
                        self.output.feed_data(data)
                    else:
                        log.write(data)
                        log.flush()
            except (asyncio.IncompleteReadError, OSError):
                self.output.feed_eof()
        self._ended.set_result(await self._engine.ask(self._how_it_ended))
        assert self._writer is not None
        self._writer.close()

    def _how_it_ended(self) -> str:
        status = int(self._container.wait()["StatusCode"])
        return signal.Signals(status - 128).name if 128 < status < 160 else f"status {status}"

    @property
    def is_alive(self) -> bool:
        return not self._ended.done()

    def write(self, data: bytes) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(data)

    async def wait(self) -> str:
        return await asyncio.shield(self._ended)

    async def signal(self, number: int) -> bool:
        if not self.is_alive:
            return False
        try:
            await self._engine.ask(lambda: self._container.kill(signal.Signals(number).name))
        except docker.errors.APIError as error:
            if error.status_code == 409:  # it has ended meanwhile
                return False
            raise
        return True


class DockerMachine:
    """Implements `staticfire.harness.machines.machine.Machine`.

    `data` is the folder of this host that is mounted into the container. `ready` waits for the node's pod and disk.
    """

    def __init__(
        self,
        node: str,
        address: str,
        data: Path,
        log: Path,
        engine: Engine,
        options: Mapping[str, Any],
        variables: Mapping[str, str],
        python: str,
        ready: Callable[[], Awaitable[None]],
    ) -> None:
        self.node = node
        self.address = address
        self.folder = FOLDER
        self.log = log
        self._data = data
        self._engine = engine
        self._options = options
        self._variables = variables
        self._python = python
        self._ready = ready
        self._container: docker.models.containers.Container | None = None

    async def launch(self, launch_spec: LaunchSpec) -> ContainerProcess:
        await self._ready()
        return await launched_wholly(self._launch(launch_spec))

    async def _launch(self, launch_spec: LaunchSpec) -> ContainerProcess:
        for path, data in launch_spec.files.items():
            self._here(path).parent.mkdir(parents=True, exist_ok=True)
            self._here(path).write_bytes(data)
        for path, data in launch_spec.kept.items():
            write_if_missing(self._here(path), data)
        if self._container is None:  # its command never changes
            self._container = await self._engine.ask(lambda: self._create(launch_spec))
        process = ContainerProcess(self._engine, self._container)
        await process.start(self.log.open("ab"))
        return process

    def _create(self, launch_spec: LaunchSpec) -> docker.models.containers.Container:
        health = health_check(self._python, launch_spec.serving) if launch_spec.serving else None
        return self._engine.client.containers.create(
            command=list(launch_spec.argv),
            environment={**launch_spec.variables, **self._variables},
            healthcheck=health,
            **self._options,
        )

    def _here(self, path: str) -> Path:
        """Translate a path of the container into one of this host."""
        return self._data / Path(path).relative_to(FOLDER)

    async def read_files(self, folder: str) -> dict[str, bytes]:
        found = await asyncio.to_thread(read_files, self._here(folder))
        return {f"{FOLDER}/{Path(path).relative_to(self._data)}": found[path] for path in found}
