"""What faults ask of the cluster itself, asked through the harness's own client: the same for every environment."""

from __future__ import annotations

from collections.abc import Sequence

from faults.capabilities import Evidence, ProcessControl
from harness.environments.environment import ADMIN, Environment
from harness.facts import groups_of
from harness.side_topics import SideTopic
from harness.workloads.membership import BROADCASTING


class ClusterThroughAdmin:
    """Implements `faults.capabilities.ClusterControl`."""

    def __init__(self, environment: Environment, processes: ProcessControl) -> None:
        self._environment = environment
        self._processes = processes

    async def routes_known(self, name_server: str) -> int:
        request = {"f": "topics_known", "address": self._environment.server_address(name_server)}
        outcome = await self._environment.request(ADMIN, request)
        return int(outcome.value.get("topics", 0))

    async def answers(self, node: str) -> bool:
        request = {"f": "ping", "address": self._environment.server_address(node)}
        outcome = await self._environment.request(ADMIN, request)
        return outcome.type == "ok"

    async def set_name_servers(self, node: str, name_servers: Sequence[str]) -> bool:
        self._environment.set_name_servers(node, name_servers)
        stopped = await self._processes.stop(node)
        if stopped:
            await self._environment.start(node)
        return stopped

    async def set_queue_count(self, topic: str, count: int) -> int:
        environment = self._environment
        accepted = 0
        for master in environment.shape.masters:
            request = {
                "f": "create_topic",
                "topic": topic,
                "queues": count,
                "address": environment.server_address(master.node),
            }
            outcome = await environment.request(ADMIN, request)
            accepted += outcome.type == "ok"
        environment.queues_max = max(environment.queues_max, count if accepted else 0)
        return accepted

    async def reset_offsets(self, topic: str) -> int:
        environment = self._environment
        groups = dict.fromkeys(
            told.group
            for members in groups_of(environment.campaign).values()
            for told in members
            if told.topic == topic and told.model != BROADCASTING
        )
        told = 0
        for master in environment.shape.masters:
            address = environment.server_address(master.node)
            for group in groups:
                request = {"f": "reset_offsets", "topic": topic, "group": group, "address": address}
                outcome = await environment.request(ADMIN, request)
                told += outcome.type == "ok"
        return told

    async def make_topic_anew(self, number: int) -> Evidence:
        side = SideTopic(self._environment, number)
        self._environment.side_topics.append(side)
        return await side.make_anew()

    async def go_on_beside(self, number: int) -> None:
        for side in self._environment.side_topics:
            if side.number == number:
                await side.go_on()
