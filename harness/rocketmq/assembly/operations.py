"""Operations of a run of a RocketMQ cluster beside load and faults: set-up, probes, drain and inspections."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.faults.model.capabilities import ClusterControl, ProcessControl
from staticfire.harness.accounts import GuestRights
from staticfire.harness.clients.names import ADMIN, PROBE
from staticfire.harness.clients.port import Outcome, Request
from staticfire.harness.environments.environment import Environment
from staticfire.harness.observers.probe import Prober
from staticfire.harness.observers.resource_watch import ResourceWatch
from staticfire.harness.recording.nemesis import FaultRecord
from staticfire.harness.rocketmq.administration.changes import ClusterChanges
from staticfire.harness.rocketmq.administration.cluster_through_admin import ClusterThroughAdmin
from staticfire.harness.rocketmq.facts import run_facts
from staticfire.harness.rocketmq.observers.drain import Drain
from staticfire.harness.rocketmq.observers.inspector import Inspector
from staticfire.harness.rocketmq.observers.key_lookup import LookUps
from staticfire.harness.rocketmq.observers.route_contents import RouteContents
from staticfire.harness.rocketmq.observers.route_watch import RouteWatch
from staticfire.harness.rocketmq.timings import timings_of
from staticfire.harness.systems.errors import RunError
from staticfire.harness.systems.system import Phase
from staticfire.harness.workloads.catalogue import WORKLOADS

SETUP_BOUND_S = 60.0
PROBE_BOUND_S = 120.0  # after the last heal, for sends to work again on every broker that is left
DRAIN_BOUND_S = 180.0  # after that, for the groups to consume and commit everything
POLL_S = 0.25


class RocketMQOperations:
    """Implements `staticfire.harness.systems.system.Operations`."""

    def __init__(self, environment: Environment, refusing_s: int | None) -> None:
        self._environment = environment
        self._campaign = environment.campaign
        self._recorder = environment.recorder
        self._inspector = Inspector(environment)
        self._prober = Prober(environment, refusing_s)
        self._refusing_s = refusing_s
        self._routes = RouteWatch(environment)
        self._resources = ResourceWatch(environment)
        self._changes = ClusterChanges(self._campaign.queues)
        self._topics: list[str] = []  # of the workload

    def cluster_control(self, processes: ProcessControl) -> ClusterControl | None:
        return ClusterThroughAdmin(self._environment, processes, self._changes)

    @property
    def guest_rights(self) -> GuestRights | None:
        return self._changes.guest_rights

    async def set_up(self) -> None:
        environment = self._environment
        await self._start((*environment.topology.servers, ADMIN))
        members = WORKLOADS[self._campaign.workload].members(self._campaign)
        queues = self._campaign.queues
        topics = {self._campaign.topic: queues}
        topics |= {member.topic: member.queues or queues for member in members}
        self._topics = sorted(topics)
        if self._campaign.auto_topic:
            topics = {self._campaign.probe_topic: queues}
        for master in environment.topology.leaders:
            for topic, queues in topics.items():
                await self._create_topic(master.node, topic, queues)
        await self._start((PROBE,))  # a producer looks for a missing topic only every 30 s
        for name in environment.topology.replica_sets:
            await self._wait_until_serving(name)
        await self._resources.begin()

    async def watch(self) -> None:
        await self._routes.run()

    async def probe(self) -> None:
        await self._prober.probe_all(PROBE_BOUND_S)

    async def drain(self) -> None:
        still_s = self._refusing_s if self._prober.unserved else None
        await Drain(self._environment, self._changes, still_s).run(DRAIN_BOUND_S)

    async def inspect(self, phase: Phase) -> None:
        await self._routes.look(last=True)
        routes = RouteContents(self._environment, timings_of(self._campaign).register_s)
        await phase("compare routes", routes.run(self._topics))
        await phase("look up", LookUps(self._environment).run())
        await self._inspector.compare_replicas()
        self._inspector.report_recoveries()
        self._inspector.report_events()
        await phase("settle", self._resources.end())

    def facts(self, faults: Sequence[FaultRecord]) -> RunFacts:
        facts = run_facts(self._campaign, faults, self._recorder.ops)
        return replace(facts, files_observed=facts.files_observed and self._inspector.reads_files)

    async def _start(self, nodes: Sequence[str]) -> None:
        await asyncio.gather(*map(self._environment.start, nodes))

    async def _create_topic(self, node: str, topic: str, queues: int) -> None:
        request = {
            "f": "create_topic",
            "topic": topic,
            "queues": queues,
            "address": self._environment.server_address(node),
        }
        outcome = await self._ask_until_ok(node, request, SETUP_BOUND_S)
        if outcome.type != "ok":
            raise RunError(f"{node} did not come up{self._why_not(node, outcome)}")

    async def _wait_until_serving(self, broker_name: str) -> None:
        """Wait until the brokers serve; a synchronous master answers SEND_OK only once its slave has connected."""
        outcome = await self._prober.send_until_served(broker_name, "warm-up", SETUP_BOUND_S)
        if outcome.type != "ok":
            [master] = [
                b.node for b in self._environment.topology.leaders if b.replica_set == broker_name
            ]
            raise RunError(f"{broker_name} did not serve{self._why_not(master, outcome)}")

    def _why_not(self, node: str, outcome: Outcome) -> str:
        """Return the end of an error: the last exit for a node that ends by itself, otherwise the outcome's error."""
        if self._environment.is_dead(node):
            return self._last_exit()
        return f" in {SETUP_BOUND_S:g} s: {outcome.error}{self._last_exit()}"

    def _last_exit(self) -> str:
        """Return the last node that ended by itself, with the reason; empty if none did."""
        exits = [op for op in self._recorder.ops if op.f == "node_exit"]
        return f"; {exits[-1].node} ended: {exits[-1].error}" if exits else ""

    async def _ask_until_ok(self, node: str, request: Request, bound_s: float) -> Outcome:
        """Ask a server until it answers `ok`, is dead, or the bound is over; return the last answer."""
        deadline_ns = self._environment.now_ns() + int(bound_s * 1e9)
        while True:
            outcome = await self._environment.request(ADMIN, request)
            is_over = self._environment.now_ns() > deadline_ns
            if outcome.type == "ok" or is_over or self._environment.is_dead(node):
                return outcome
            await asyncio.sleep(POLL_S)
