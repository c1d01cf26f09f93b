"""The one program of the parity tests: it obeys commands and reports what happens to it.

The same code is a simulated process (`simulated_world.py`) and a real one, `python -m tests.parity.node NAME`: there
commands are JSON lines on stdin, reports JSON lines on stdout. A command is `[name, arguments, options]`; its report is
`["answer", value]` or `["failed", name of the errno]`. Every other report is `[connection or timer, kind, detail]`.
"""

from __future__ import annotations

import asyncio
import errno
import json
import sys
from array import array
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any
from zlib import crc32

from staticfire.system_under_test.runtime.env import Env, File
from staticfire.system_under_test.runtime.real_env import make_env

Report = Callable[[list[Any]], None]
Command = tuple[str, list[Any], dict[str, Any]]

CHUNK = 64 * 1024


@cache
def pattern(size: int) -> bytes:
    """Bytes in which every loss, repetition and change of order shows."""
    return array("I", range(-(-size // 4))).tobytes()[:size]


def errno_name(error: BaseException | None) -> str | None:
    if error is None:
        return None
    number = getattr(error, "errno", None)
    return errno.errorcode.get(number or 0, type(error).__name__)


class Connection(asyncio.Protocol):
    """Reports `made`, `data` [bytes so far, their CRC], `eof`, `pause`, `resume`, `lost` with the errno or None."""

    def __init__(
        self,
        name: str,
        report: Report,
        *,
        half_open: bool = False,
        reading: bool = True,
        greeting: str = "",
        echo: bool = False,
    ) -> None:
        self.name = name
        self.transport: Any = None
        self.is_paused = False
        self._report = report
        self._half_open = half_open
        self._reading = reading
        self._greeting = greeting
        self._echo = echo
        self._size = self._crc = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        if not self._reading:
            self.transport.pause_reading()
        if self._greeting:
            self.transport.write(self._greeting.encode())
        self._report([self.name, "made", None])

    def data_received(self, data: bytes) -> None:
        self._size += len(data)
        self._crc = crc32(data, self._crc)
        if self._echo:
            self.transport.write(data)
        self._report([self.name, "data", [self._size, self._crc]])

    def eof_received(self) -> bool:
        self._report([self.name, "eof", None])
        return self._half_open

    def pause_writing(self) -> None:
        self.is_paused = True
        self._report([self.name, "pause", None])

    def resume_writing(self) -> None:
        self.is_paused = False
        self._report([self.name, "resume", None])

    def connection_lost(self, exc: Exception | None) -> None:
        self._report([self.name, "lost", errno_name(exc)])


class Node:
    """Its public coroutines and methods are the commands."""

    def __init__(self, env: Env, report: Report) -> None:
        self._env = env
        self._report = report
        self._connections: dict[str, Connection] = {}
        self._servers: dict[str, asyncio.Server] = {}
        self._files: dict[str, File] = {}

    async def obey(self, next_command: Callable[[], Awaitable[Command | None]]) -> None:
        """Until there is no command any more."""
        while (command := await next_command()) is not None:
            name, arguments, options = command
            try:
                answer = getattr(self, name)(*arguments, **options)
                if asyncio.iscoroutine(answer):
                    answer = await answer
            except OSError as error:
                self._report(["failed", errno_name(error)])
            else:
                self._report(["answer", answer])

    # --- connections --------------------------------------------------------------------------------

    async def listen(self, name: str, host: str, port: int, backlog: int = 100, **how: Any) -> None:
        """Connections that come in are called NAME.1, NAME.2, ..."""

        def accept() -> Connection:
            accepted = f"{name}.{sum(key.startswith(f'{name}.') for key in self._connections) + 1}"
            self._connections[accepted] = Connection(accepted, self._report, **how)
            return self._connections[accepted]

        loop = asyncio.get_running_loop()
        self._servers[name] = await loop.create_server(accept, host, port, backlog=backlog)

    def widen(self, name: str, backlog: int) -> None:
        """Let more connections wait than listen() said."""
        for bound in self._servers[name].sockets:
            with bound.dup() as listening:
                listening.listen(backlog)

    def stop_listening(self, name: str) -> None:
        self._servers.pop(name).close()

    async def connect(self, name: str, host: str, port: int, **how: Any) -> None:
        connection = Connection(name, self._report, **how)
        self._connections[name] = connection
        await asyncio.get_running_loop().create_connection(lambda: connection, host, port)

    def write(self, name: str, text: str) -> None:
        self._connections[name].transport.write(text.encode())

    def write_pattern(self, name: str, size: int) -> None:
        """All of it at once."""
        self._connections[name].transport.write(pattern(size))

    async def flood(self, name: str, limit: int) -> int:
        """Write the pattern until the transport says "pause" and nothing moves; returns how much that was."""
        connection, whole, size = self._connections[name], pattern(limit), 0
        while size < limit:
            if connection.is_paused:
                await asyncio.sleep(0.2)
                if connection.is_paused:
                    break
            connection.transport.write(whole[size : size + CHUNK])
            size = min(limit, size + CHUNK)
            await asyncio.sleep(0)
        return size

    def write_eof(self, name: str) -> None:
        self._connections[name].transport.write_eof()

    def close(self, name: str) -> None:
        self._connections[name].transport.close()

    def abort(self, name: str) -> None:
        self._connections[name].transport.abort()

    def pause_reading(self, name: str) -> None:
        self._connections[name].transport.pause_reading()

    def resume_reading(self, name: str) -> None:
        self._connections[name].transport.resume_reading()

    # --- time ---------------------------------------------------------------------------------------

    def start_timer(self, name: str, delay_s: float) -> None:
        asyncio.get_running_loop().call_later(delay_s, self._report, [name, "timer", None])

    def hello(self) -> None:
        """Do nothing: the answer shows that the process is there."""

    def end(self) -> None:
        """Leave main as a program does that has nothing more to do."""
        raise SystemExit(0)

    # --- files --------------------------------------------------------------------------------------

    def open(self, handle: str, path: str, create: bool = True) -> None:
        self._files[handle] = self._env.storage.open(path, create=create)

    def pwrite(self, handle: str, text: str, offset: int = 0) -> None:
        self._files[handle].pwrite(text.encode(), offset)

    def fill(self, handle: str, letter: str, size: int, offset: int = 0) -> None:
        """One write of this many of the letter."""
        self._files[handle].pwrite(letter.encode() * size, offset)

    async def fsync(self, handle: str) -> None:
        """In a thread, as nodes do."""
        await asyncio.get_running_loop().run_in_executor(None, self._files[handle].fsync)

    async def begin_fsync(self, handle: str) -> None:
        """Reports `synced` of the handle, with the errno or None, when the fsync has ended."""
        done = asyncio.get_running_loop().run_in_executor(None, self._files[handle].fsync)
        done.add_done_callback(
            lambda future: self._report([handle, "synced", errno_name(future.exception())])
        )

    def stamp(self, handle: str, letter: str, size: int, offsets: list[int]) -> None:
        """Many writes of this many of the letter."""
        for offset in offsets:
            self.fill(handle, letter, size, offset)

    async def fdatasync(self, handle: str) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._files[handle].fdatasync)

    def truncate(self, handle: str, size: int) -> None:
        self._files[handle].truncate(size)

    def allocate(self, handle: str, size: int) -> None:
        self._files[handle].allocate(size)

    def size(self, handle: str) -> int:
        return self._files[handle].size()

    def lock(self, handle: str) -> bool:
        return self._files[handle].try_lock()

    def shut(self, handle: str) -> None:
        self._files.pop(handle).close()

    def read(self, path: str) -> str | None:
        """The content in short, such as "a*4096 b*10"; None if there is no such file."""
        storage = self._env.storage
        if not storage.exists(path):
            return None
        file = storage.open(path)
        data = file.pread(file.size(), 0)
        file.close()
        return runs(data)

    def rename(self, source: str, target: str) -> None:
        self._env.storage.rename(source, target)

    def unlink(self, path: str) -> None:
        self._env.storage.unlink(path)

    def makedirs(self, path: str) -> None:
        self._env.storage.makedirs(path)

    def rmdir(self, path: str) -> None:
        self._env.storage.rmdir(path)

    def fsync_dir(self, path: str) -> None:
        self._env.storage.fsync_dir(path)

    def names(self, path: str) -> list[str]:
        return sorted(self._env.storage.listdir(path))

    def free_bytes(self, path: str) -> int:
        return self._env.storage.disk_usage(path).free_bytes


def runs(data: bytes) -> str:
    """ "aaab" is "a*3 b*1"; a zero byte is written as 0."""
    parts: list[str] = []
    start = 0
    while start < len(data):
        letter = data[start : start + 1]
        end = len(data) - len(data[start:].lstrip(letter))
        parts.append(f"{'0' if letter == bytes(1) else letter.decode()}*{end - start}")
        start = end
    return " ".join(parts)


async def main(name: str) -> None:
    """A real process."""
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)

    def report(message: list[Any]) -> None:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    async def next_command() -> Command | None:
        line = await lines.readline()
        return tuple(json.loads(line)) if line else None

    await Node(make_env(name), report).obey(next_command)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
