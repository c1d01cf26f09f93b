"""A log server with one partition, and its clients: a second system for the harness, as small as it can be.

As a program: `node.py server ADDRESS FOLDER [forgetful]`, or `node.py producer|consumer|admin` with the line protocol.
A request is a JSON line on a connection, and so is its answer. A server that cannot write ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, cast

from staticfire.harness.clients.consumer import ListenerControl
from staticfire.harness.clients.line_client import MakeClient, run
from staticfire.harness.clients.port import ClientSide, Outcome, PortClosed, Request
from staticfire.system_under_test.runtime.env import Env
from staticfire.system_under_test.runtime.real_env import make_env

PORT = 7070
PARTITION = {"broker": "broker-a", "queue": 0}
ANSWER_S = 3.0
FORGETFUL_S = 0.5  # between two writes of a server that acknowledges what it only has in memory
POLL_S = 0.1
BATCH = 32


class LogServer:
    """Appends records to one file, and keeps the offset of each group in another.

    Args:
        env: its world.
        folder: of both files.
        forgetful: the planted bug: what is acknowledged is written `FORGETFUL_S` later.
    """

    def __init__(self, env: Env, folder: str, *, forgetful: bool) -> None:
        self._env = env
        self._folder = folder
        self._forgetful = forgetful
        env.storage.makedirs(folder)
        self._file = env.storage.open(f"{folder}/log", create=True)
        for path in (folder, folder.rpartition("/")[0] or "/"):
            env.storage.fsync_dir(path)
        self._lock = asyncio.Lock()
        self._unwritten = b""
        self._records: list[tuple[str, int]] = []  # key and position
        self._end = 0  # of the file
        self._offsets: dict[str, int] = {}
        self._recover()

    def _recover(self) -> None:
        data = self._file.pread(self._file.size(), 0)
        for line in data.splitlines(keepends=True):
            try:
                record = json.loads(line)
            except ValueError:
                break  # torn by a crash: it was not acknowledged
            self._records.append((record["key"], self._end))
            self._end += len(line)
        self._file.truncate(self._end)
        if self._env.storage.exists(f"{self._folder}/offsets"):
            file = self._env.storage.open(f"{self._folder}/offsets")
            self._offsets = json.loads(file.pread(file.size(), 0))
            file.close()

    async def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        match request["op"]:
            case "put":
                return await self._put(request)
            case "get":
                first = request["from"]
                rows = self._records[first : first + BATCH]
                numbered = enumerate(rows, first)
                return {"rows": [[key, offset, position] for offset, (key, position) in numbered]}
            case "commit":
                self._offsets[request["group"]] = request["offset"]
                await self._keep_offsets()
                return {}
        return {"end": len(self._records), "committed": self._offsets.get(request["group"], 0)}

    async def _put(self, request: dict[str, Any]) -> dict[str, Any]:
        record = {"key": request["key"], "body": "x" * request["size"]}
        line = json.dumps(record).encode() + b"\n"
        async with self._lock:
            position = self._end + len(self._unwritten)
            self._unwritten += line
            if not self._forgetful:
                await self.write()
            self._records.append((request["key"], position))
            return {"offset": len(self._records) - 1, "position": position}

    async def write(self) -> None:
        data, self._unwritten = self._unwritten, b""
        self._file.pwrite(data, self._end)
        self._end += len(data)
        await asyncio.get_running_loop().run_in_executor(None, self._file.fsync)

    async def write_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(FORGETFUL_S)
            async with self._lock:
                await self.write()

    async def _keep_offsets(self) -> None:
        async with self._lock:
            storage, path = self._env.storage, f"{self._folder}/offsets"
            file = storage.open(f"{path}.new", create=True)
            data = json.dumps(self._offsets).encode()
            file.truncate(0)
            file.pwrite(data, 0)
            await asyncio.get_running_loop().run_in_executor(None, file.fsync)
            file.close()
            storage.rename(f"{path}.new", path)
            storage.fsync_dir(self._folder)


class Lines(asyncio.Protocol):
    """One connection, read line by line; None after the last line."""

    def __init__(self, on_connection: Callable[[Lines], None] = lambda _: None) -> None:
        self.read: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._on_connection = on_connection
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._on_connection(self)

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self.read.put_nowait(line)

    def connection_lost(self, exc: Exception | None) -> None:
        self.read.put_nowait(None)

    def write(self, message: dict[str, Any]) -> None:
        self.transport.write(json.dumps(message).encode() + b"\n")


async def serve(env: Env, host: str, folder: str, *, forgetful: bool) -> None:
    """Serve until the process ends. Raises OSError if the disk fails."""
    loop = asyncio.get_running_loop()
    server = LogServer(env, folder, forgetful=forgetful)
    failed: asyncio.Future[None] = loop.create_future()
    tasks: dict[asyncio.Task[None], None] = {}

    async def converse(lines: Lines) -> None:
        while line := await lines.read.get():
            try:
                lines.write(await server.answer(json.loads(line)))
            except OSError as error:
                if not failed.done():
                    failed.set_exception(error)

    def begin(work: Coroutine[Any, Any, None]) -> None:
        task = loop.create_task(work)
        tasks[task] = None
        task.add_done_callback(tasks.pop)

    if forgetful:
        begin(server.write_now_and_then())
    listening = await loop.create_server(
        lambda: Lines(lambda lines: begin(converse(lines))), host, PORT
    )
    try:
        await failed
    finally:
        for task in list(tasks):
            task.cancel()
        listening.close()


class Connection:
    """Asks the server, one request at a time; connects when it has to."""

    def __init__(self, address: str) -> None:
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._lines: Lines | None = None

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Raises ConnectionRefusedError if nothing was sent, else OSError or TimeoutError."""
        try:
            async with asyncio.timeout(ANSWER_S):
                if self._lines is None:
                    loop = asyncio.get_running_loop()
                    _, self._lines = await loop.create_connection(Lines, self._host, self._port)
                self._lines.write(request)
                line = await self._lines.read.get()
                if line is None:
                    raise ConnectionResetError("the server closed the connection")
                answer: dict[str, Any] = json.loads(line)
                return answer
        except (OSError, TimeoutError):
            self.close()
            raise

    def close(self) -> None:
        if self._lines is not None:
            self._lines.transport.close()
            self._lines = None


async def produce(address: str, port: ClientSide) -> None:
    """Carry out sends until there are no more requests. Raises PortClosed then."""
    connection = Connection(address)
    port.emit("ok", "open", {}, None)
    while True:
        request, reply = await port.next()
        reply(await _sent(connection, request) if request["f"] == "send" else Outcome("ok", {}))


async def _sent(connection: Connection, request: Request) -> Outcome:
    try:
        put = {"op": "put", "key": request["key"], "size": request["size"]}
        answer = await connection.ask(put)
    except ConnectionRefusedError as error:
        return Outcome("fail", {}, str(error))
    except (OSError, TimeoutError) as error:
        return Outcome("info", {}, str(error) or "no answer in time")
    place = {"queue_offset": answer["offset"], "physical_offset": answer["position"]}
    return Outcome("ok", {**PARTITION, **place, "attempts": 1})


async def consume(
    address: str, topic: str, group: str, port: ClientSide, control: ListenerControl
) -> None:
    """Give the listener every record from the committed offset on. Raises PortClosed when the harness wants no more."""
    connection, scope = Connection(address), {"group": group, "topic": topic}

    async def follow() -> None:
        offset: int | None = None
        while True:
            try:
                if offset is None:
                    offset = (await connection.ask({"op": "state", "group": group}))["committed"]
                    port.emit("ok", "assign", {**scope, "queues": [[*PARTITION.values()]]}, None)
                    begin = {**scope, **PARTITION, "offset": offset, "broker_id": 0}
                    port.emit("ok", "begin", begin, None)
                rows = (await connection.ask({"op": "get", "from": offset}))["rows"]
                if not rows:
                    await asyncio.sleep(POLL_S)
                    continue
                value = {**scope, **PARTITION, "messages": [[*row, True, 0] for row in rows]}
                port.emit("invoke", "consume", value, None)
                if control.delay_s:
                    control.delayed += 1
                    await asyncio.sleep(control.delay_s)
                port.emit("ok", "consume", value, None)
                offset = rows[-1][1] + 1
                await connection.ask({"op": "commit", "group": group, "offset": offset})
                port.emit(
                    "ok", "commit", {**scope, "offsets": [[*PARTITION.values(), offset]]}, None
                )
            except (OSError, TimeoutError):
                await asyncio.sleep(POLL_S)

    port.emit(
        "ok", "open", {**scope, "expression": "*", "model": "clustering", "orderly": False}, None
    )
    following = asyncio.create_task(follow())
    try:
        while True:
            request, reply = await port.next()
            reply(control.apply(request))
    finally:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following


async def administer(port: ClientSide) -> None:
    """Answer `state` requests of the harness. Raises PortClosed when there are no more."""
    while True:
        request, reply = await port.next()
        connection = Connection(request["address"])
        try:
            answer = await connection.ask({"op": "state", "group": request["group"]})
            reply(Outcome("ok", answer))
        except (OSError, TimeoutError) as error:
            reply(Outcome("fail", {}, str(error) or "no answer in time"))
        finally:
            connection.close()


def roles() -> Mapping[str, MakeClient]:
    """Clients as processes, by role; the first line says where the server is."""
    return {
        "producer": lambda fields: (
            lambda _: None,
            lambda _, port: produce(fields["name_servers"][0], port),
        ),
        "consumer": lambda fields: (
            lambda _: None,
            lambda _, port: consume(
                fields["name_servers"][0],
                fields["topic"],
                fields["group"],
                port,
                ListenerControl(delay_s=fields.get("delay_s", 0.0)),
            ),
        ),
        "admin": lambda _: (lambda _: None, lambda _, port: administer(port)),
    }


def main(arguments: list[str]) -> int:
    if arguments[:1] != ["server"]:
        return run("toylog", arguments, roles(), __doc__)
    host, folder = arguments[1:3]
    with contextlib.suppress(PortClosed):
        asyncio.run(serve(make_env("toylog"), host, folder, forgetful="forgetful" in arguments))
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
