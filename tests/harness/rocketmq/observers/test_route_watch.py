"""Answers of name servers: recorded when they change."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from staticfire.faults.model.topology import Topology
from staticfire.harness.clients.port import Outcome
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.environments.environment import Environment
from staticfire.harness.recording.recorder import Recorder
from staticfire.harness.rocketmq.observers.route_watch import RouteWatch


class Cluster:
    """Two name servers, one of which never answers."""

    def __init__(self) -> None:
        self.campaign = draw_campaign(1, {"coordinators": 2, "followers": [1]})
        self.topology: Topology = self.campaign.topology()
        self.recorder = Recorder(lambda: 0)
        self.down: set[str] = set()
        self.ends_meanwhile: set[str] = set()  # before the silent name server has not answered
        self.addresses = {"0": f"at {self.topology.replicas[0].node}", "7": "elsewhere:1"}

    def server_address(self, node: str) -> str:
        return f"at {node}"

    def is_external(self, node: str) -> bool:
        return False

    def states(self) -> dict[str, str]:
        return {b.node: "down" if b.node in self.down else "up" for b in self.topology.replicas}

    async def request(self, node: str, request: dict[str, Any]) -> Outcome:
        if request["address"] == f"at {self.topology.coordinators[1]}":
            self.down |= self.ends_meanwhile
            await asyncio.sleep(0)
            return Outcome("info", {}, "no answer")
        return Outcome("ok", {"brokers": {"b": self.addresses}})


def test_what_changes_is_written_down() -> None:
    cluster = Cluster()
    first, other = (broker.node for broker in cluster.topology.replicas[:2])

    async def main() -> None:
        watch = RouteWatch(cast(Environment, cluster))
        await watch.look()
        await watch.look()
        cluster.down.add(other)
        await watch.look()
        await watch.look(last=True)

    asyncio.run(main())
    seen = cluster.recorder.observations
    answered = [of for of in seen if of["node"] == cluster.topology.coordinators[0]]
    assert [of["up"] for of in answered] == [[first, other], [first], [first]]
    assert answered[0]["brokers"] == {"b": {"0": first, "7": "elsewhere:1"}}
    assert {of["brokers"] is None for of in seen if of not in answered} == {True}


def test_an_answer_counts_when_it_comes_not_when_the_last_one_does() -> None:
    cluster = Cluster()
    first, other = (broker.node for broker in cluster.topology.replicas[:2])
    cluster.ends_meanwhile = {other}
    asyncio.run(RouteWatch(cast(Environment, cluster)).look())

    assert [of["up"] for of in cluster.recorder.observations] == [[first, other], [first]]
