"""Hostile bytes on every port: that connection is closed with a log line, the node lives and serves."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from staticfire.system_under_test.runtime.env import Env
from tests.support.hostile_peers import ATTACKS, HA_ATTACKS, Attack
from tests.system_under_test.client.simulated_cluster import Cluster

PORTS = {"n1": 9876, "a": 10911}
HA_PORT = 10912
NODES = ["n1", "n2", "a", "b"]


class Attacker(asyncio.Protocol):
    """Sends chunks 10 ms apart and remembers when it was thrown out."""

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = list(reversed(chunks))
        self._loop = asyncio.get_running_loop()
        self.is_out = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send_next()

    def _send_next(self) -> None:
        if self._chunks and not self.is_out:
            self._transport.write(self._chunks.pop())
            self._loop.call_later(0.01, self._send_next)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_out = True


def attack(
    cluster: Cluster, address: str, port: int, chunks: list[bytes], attackers: list[Attacker]
) -> None:
    """Attack with three connections at once from a host of its own; they are added to `attackers`."""

    async def main(env: Env) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(3):
            _, attacker = await loop.create_connection(lambda: Attacker(chunks), address, port)
            attackers.append(attacker)
        await loop.create_future()

    cluster.world.hosts["attacker"].start("attacker", main)


def survive(node: str, port: int, made: Attack) -> None:
    """Attack one port of a running cluster for some seconds; then everything must still work."""
    cluster = Cluster()
    attackers: list[Attacker] = []
    alive: list[str] = []

    async def story() -> None:
        address = cluster.world.hosts[node].address
        attack(cluster, address, port, made.make(Random(7)), attackers)
        await asyncio.sleep(6.0)  # a dribble of several hundred bytes takes that long
        cluster.start_producer("p", until_s=cluster.now_s + 2.0, every_s=0.1)
        await asyncio.sleep(3.0)
        alive.extend(name for name in NODES if cluster.process(name).alive)

    cluster.run(story, "attacker", "p")
    assert alive == NODES
    assert {one.broker for one in cluster.sent} == {"a", "b"}
    assert cluster.failed == []
    assert [attacker.is_out for attacker in attackers] == [made.is_fatal] * 3
    warned = [line for line in cluster.process(node).log.lines if line.level == "warning"]
    errors = [line for line in cluster.process(node).log.lines if line.level == "error"]
    assert errors == []
    assert len(warned) >= 3 * made.is_fatal
    assert all(len(repr(line.fields)) < 1000 for line in warned)


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("node", PORTS)
def test_remoting_ports_bear(node: str, name: str) -> None:
    survive(node, PORTS[node], ATTACKS[name])


@pytest.mark.parametrize("name", HA_ATTACKS)
def test_the_replication_port_bears(name: str) -> None:
    survive("a", HA_PORT, HA_ATTACKS[name])
