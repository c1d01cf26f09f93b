"""Resources of servers: measured before the clients start, and after their end until no value grows."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from staticfire.harness.clients.names import ADMIN
from staticfire.harness.clients.port import Outcome
from staticfire.harness.environments.environment import Environment
from staticfire.harness.environments.resources import Resources
from staticfire.harness.observers import resource_watch
from staticfire.harness.observers.resource_watch import ResourceWatch

PLAIN = Resources(1, tasks=7, threads=None, sockets=5, surplus_files=0, memory_bytes=None)
LEAKY = PLAIN._replace(tasks=30)
ALONE = PLAIN._replace(tasks=3, sockets=1)


class Servers:
    """Two servers, two clients, and a clock that goes on a second with each question."""

    def __init__(self, *measured: Resources | None) -> None:
        self.topology = SimpleNamespace(
            servers=("ns-1", "broker-a-0"), coordinators=("ns-1",), clients=("p", "c")
        )
        self.recorder = SimpleNamespace(acknowledged=9, observe=self._observe)
        self.seen: list[dict[str, Any]] = []
        self.ended: list[str] = []
        self.lost: set[str] = set()
        self.tables: dict[str, int] | None = {"heldPulls": 0}
        self._measured = list(measured)
        self._now_ns = 0

    def _observe(self, kind: str, **fields: Any) -> None:
        assert kind == "resources"
        self.seen.append(fields)

    def now_ns(self) -> int:
        self._now_ns += 1_000_000_000
        return self._now_ns

    def is_lost(self, node: str) -> bool:
        return node in self.lost

    async def end_client(self, node: str) -> None:
        self.ended.append(node)

    def server_address(self, node: str) -> str:
        return f"{node}:10911"

    async def request(self, node: str, request: dict[str, Any]) -> Outcome:
        assert (node, request["f"]) == (ADMIN, "table_sizes")
        if self.tables is None:
            return Outcome("info", {}, f"{request['address']} does not answer")
        return Outcome("ok", {"tables": self.tables})

    async def resources(self, node: str) -> Resources | None:
        if node == "ns-1" or len(self._measured) == 1:
            return self._measured[0] if node != "ns-1" else PLAIN
        return self._measured.pop(0)


def watch(servers: Servers) -> list[tuple[str, str, int | None]]:
    """(node, when, tasks) of each observation of a run."""

    async def run() -> None:
        watch = ResourceWatch(cast(Environment, servers))
        await watch.begin()
        assert servers.ended == []
        await watch.end()

    asyncio.run(run())
    return [(seen["node"], seen["when"], seen["tasks"]) for seen in servers.seen]


BEGIN = [("ns-1", "begin", 7), ("broker-a-0", "begin", 7)]


@pytest.fixture(autouse=True)
def _no_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_watch, "LOOK_AGAIN_S", 0)
    monkeypatch.setattr(resource_watch, "CONNECT_POLL_S", 0)


def test_a_server_that_has_not_connected_yet_is_measured_again() -> None:
    servers = Servers(ALONE, ALONE, PLAIN, PLAIN)

    assert watch(servers) == [*BEGIN, ("ns-1", "end", 7), ("broker-a-0", "end", 7)]


def test_a_server_that_never_connects_is_measured_as_it_is() -> None:
    servers = Servers(ALONE)

    assert watch(servers)[1] == ("broker-a-0", "begin", 3)
    assert servers.now_ns() > resource_watch.CONNECT_BOUND_S * 1e9


def test_what_is_still_winding_down_is_measured_again() -> None:
    servers = Servers(PLAIN, LEAKY, LEAKY, PLAIN)

    assert watch(servers) == [*BEGIN, ("ns-1", "end", 7), ("broker-a-0", "end", 7)]
    assert servers.ended == ["p", "c"]


def test_what_stays_is_written_down_when_the_bound_is_over() -> None:
    servers = Servers(PLAIN, LEAKY)

    assert watch(servers)[-1] == ("broker-a-0", "end", 30)
    assert servers.now_ns() > resource_watch.SETTLE_BOUND_S * 1e9


def test_a_server_that_is_lost_or_down_has_no_end() -> None:
    lost = Servers(PLAIN, PLAIN)
    lost.lost.add("broker-a-0")

    assert watch(lost) == [*BEGIN, ("ns-1", "end", 7)]
    assert watch(Servers(PLAIN, None)) == [*BEGIN, ("ns-1", "end", 7)]


def test_where_nothing_can_be_measured_clients_are_left_alone() -> None:
    servers = Servers(None)
    servers.topology.servers = ("broker-a-0",)

    assert watch(servers) == []
    assert servers.ended == []


def test_tables_are_those_of_brokers_that_answer() -> None:
    servers = Servers(PLAIN)
    watch(servers)
    assert [(seen["node"], seen["tables"]) for seen in servers.seen[:2]] == [
        ("ns-1", None),
        ("broker-a-0", {"heldPulls": 0}),
    ]
    silent = Servers(PLAIN)
    silent.tables = None
    watch(silent)
    assert [seen["tables"] for seen in silent.seen] == [None] * 4
