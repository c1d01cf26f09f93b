"""Routes after the drain: compared with the masters' tables and the running brokers until they agree."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from staticfire.faults.model.topology import Topology
from staticfire.harness.clients.port import Outcome
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.environments.environment import Environment
from staticfire.harness.recording.recorder import Recorder
from staticfire.harness.rocketmq.observers import route_contents
from staticfire.harness.rocketmq.observers.route_contents import RouteContents

QUEUES = [4, 4, 6]


class Cluster:
    """A name server that names one broker more with each answer, and a master with one slave."""

    def __init__(self, *named: int) -> None:
        """`named`: how many brokers each answer names; the last one is repeated."""
        options = {"coordinators": 1, "followers": [1]}
        self.campaign = draw_campaign(1, options)
        self.topology: Topology = self.campaign.topology()
        self.recorder = Recorder(lambda: 0)
        self.down: set[str] = set()
        self.named = list(named)
        self.asked = 0

    def server_address(self, node: str) -> str:
        return f"at {node}"

    def is_external(self, node: str) -> bool:
        return False

    def states(self) -> dict[str, str]:
        return {b.node: "down" if b.node in self.down else "up" for b in self.topology.replicas}

    async def request(self, node: str, request: dict[str, Any]) -> Outcome:
        if request["f"] == "topic_queues":
            return Outcome("ok", {"queues": QUEUES})
        named = self.named[min(self.asked, len(self.named) - 1)]
        self.asked += 1
        nodes = [broker.node for broker in self.topology.replicas][:named]
        [replica_set] = self.topology.replica_sets
        addresses = {str(number): f"at {node}" for number, node in enumerate(nodes)}
        return Outcome("ok", {"brokers": {replica_set: addresses}, "queues": {replica_set: QUEUES}})


def compared(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, register_s: float = 60.0
) -> list[str] | None:
    """What the only observation says of running brokers that the route lacks; None: nothing."""
    monkeypatch.setattr(route_contents, "PAUSE_S", 0.0)
    asyncio.run(RouteContents(cast(Environment, cluster), register_s).run(["t"]))
    [seen] = cluster.recorder.observations
    assert (seen["route"], seen["master"]) == (QUEUES, QUEUES)
    return cast("list[str] | None", seen.get("unnamed"))


def test_a_complete_route_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(2)

    assert compared(cluster, monkeypatch) is None
    assert cluster.asked == 1


def test_a_broker_may_register_late(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(1, 1, 2)

    assert compared(cluster, monkeypatch) is None
    assert cluster.asked == 3


def test_a_broker_that_stays_away_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(1)

    over_at_once = -route_contents.ARRIVED_S
    assert compared(cluster, monkeypatch, over_at_once) == [cluster.topology.replicas[1].node]


def test_a_broker_that_does_not_run_may_be_away(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(1)
    cluster.down.add(cluster.topology.replicas[1].node)

    assert compared(cluster, monkeypatch) is None
    assert cluster.asked == 1
