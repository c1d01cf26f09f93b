"""Brokers and name servers as functions: what each address answers to a request, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import cast

from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.bodies import BrokerData, QueueData, TopicRouteData
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting import (
    RemotingClient,
    RemotingClosed,
    RemotingConnectError,
    RemotingError,
    RemotingTimeout,
)
from staticfire.system_under_test.runtime.env import Env, Storage
from tests.system_under_test.client.virtual_time import now_s
from tests.system_under_test.remoting.manual_loop import MemoryLog

LATENCY_S = 0.001
Answer = RemotingCommand | RemotingError | None  # None: no answer, ever
Script = Callable[[RemotingCommand], Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    at_s: float
    address: str
    command: RemotingCommand


class ScriptedConnection:
    def __init__(self, remoting: ScriptedRemoting, address: str) -> None:
        self._remoting = remoting
        self._address = address

    def invoke_oneway(self, command: RemotingCommand) -> None:
        self._remoting.note(self._address, command)

    def has_answered_after(self, _opaque: int) -> bool:
        return self._address in self._remoting.have_answered


class ScriptedRemoting:
    """Stands in for RemotingClient. Addresses without a script refuse connections."""

    def __init__(self) -> None:
        self.scripts: dict[str, Script] = {}
        self.calls: list[Call] = []
        self.on_request: object = None
        self.have_answered: set[str] = set()  # addresses that have answered whatever they were sent
        self.disconnected: set[str] = set()  # until the next request connects again
        self._open: list[tuple[str, asyncio.Future[RemotingCommand]]] = []
        self._connections: dict[str, ScriptedConnection] = {}

    @property
    def client(self) -> RemotingClient:
        return cast(RemotingClient, self)

    def note(self, address: str, command: RemotingCommand) -> None:
        self.calls.append(Call(at_s=now_s(), address=address, command=command))

    def calls_to(self, address: str, code: int) -> list[Call]:
        return [c for c in self.calls if c.address == address and c.command.code == code]

    def invoke_nowait(
        self,
        address: str,
        command: RemotingCommand,
        timeout_s: float,
        *,
        close_on_timeout: bool = False,
    ) -> asyncio.Future[RemotingCommand]:
        self.note(address, command)
        self.disconnected.discard(address)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[RemotingCommand] = loop.create_future()
        self._open.append((address, future))
        script = self.scripts.get(address, refuse_connection)
        answer = script(command)
        if answer is None:
            loop.call_later(timeout_s, end, future, RemotingTimeout("no answer"))
        else:
            loop.call_later(LATENCY_S, end, future, answer)
        return future

    async def invoke(
        self,
        address: str,
        command: RemotingCommand,
        timeout_s: float,
        *,
        close_on_timeout: bool = False,
    ) -> RemotingCommand:
        return await self.invoke_nowait(address, command, timeout_s)

    def connection(self, address: str) -> ScriptedConnection | None:
        if address not in self.scripts or address in self.disconnected:
            return None
        return self._connections.setdefault(address, ScriptedConnection(self, address))

    def replace_connection(self, address: str) -> None:
        """End the connection, and make another one at once."""
        self._connections[address] = ScriptedConnection(self, address)

    def close_connection(self, address: str) -> None:
        for peer, future in self._open:
            if peer == address:
                end(future, RemotingClosed("closed"))

    async def close(self) -> None:
        for _, future in self._open:
            end(future, RemotingClosed("closed"))


def end(future: asyncio.Future[RemotingCommand], answer: RemotingCommand | RemotingError) -> None:
    if future.done():
        return
    if isinstance(answer, RemotingError):
        future.set_exception(answer)
    else:
        future.set_result(answer)


# Scripts


def refuse_connection(_: RemotingCommand) -> Answer:
    return RemotingConnectError("connection refused")


def stay_silent(_: RemotingCommand) -> Answer:
    return None


def answer_code(code: int, **ext: str) -> Script:
    return lambda request: RemotingCommand.response(request, code, "as scripted", dict(ext))


def answer_route(route: TopicRouteData) -> Script:
    body = json_dialect.dumps(route.to_json())
    return lambda request: RemotingCommand.response(request, ResponseCode.SUCCESS, body=body)


def by_code(**scripts: Script) -> Script:
    """A script that looks at the request code: by_code(c310=..., other=...)."""

    def script(request: RemotingCommand) -> Answer:
        return scripts.get(f"c{int(request.code)}", scripts["other"])(request)

    return script


def route_of(*brokers: str, queues: int = 2, slaves: bool = False) -> TopicRouteData:
    """A route with these broker names; the master of `a` is at `a:0`, its slave at `a:1`."""
    return TopicRouteData(
        queue_datas=[
            QueueData(
                broker_name=name,
                read_queue_nums=queues,
                write_queue_nums=queues,
                perm=6,
                topic_sys_flag=0,
            )
            for name in brokers
        ],
        broker_datas=[
            BrokerData(
                cluster="c",
                broker_name=name,
                broker_addrs={0: f"{name}:0", 1: f"{name}:1"} if slaves else {0: f"{name}:0"},
            )
            for name in brokers
        ],
    )


class VirtualClock:
    def wall_ms(self) -> int:
        return 1_600_000_000_000 + self.monotonic_ns() // 1_000_000

    def monotonic_ns(self) -> int:
        return int(now_s() * 1e9)


def make_env() -> Env:
    return Env(
        name="client",
        storage=cast(Storage, None),
        clock=VirtualClock(),
        random=Random("client"),
        log=MemoryLog(),
    )
