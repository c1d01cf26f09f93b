"""One run, wherever its nodes are: set up, load under faults, heal, probe, drain, inspect, judge."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any

from staticfire.faults.model.capabilities import Controls
from staticfire.harness.clients.names import ADMIN, PROBE
from staticfire.harness.clients.port import Outcome, Request
from staticfire.harness.environments.environment import Environment
from staticfire.harness.generators.interpreter import Interpreter
from staticfire.harness.generators.think_times import ThinkTimes
from staticfire.harness.observers.drain import Drain
from staticfire.harness.observers.inspector import Inspector
from staticfire.harness.observers.key_lookup import LookUps
from staticfire.harness.observers.probe import Prober
from staticfire.harness.observers.resource_watch import ResourceWatch
from staticfire.harness.observers.route_contents import RouteContents
from staticfire.harness.observers.route_watch import RouteWatch
from staticfire.harness.recording.nemesis import Nemesis
from staticfire.harness.recording.verdict import judge
from staticfire.harness.results.facts import run_facts, timings_of
from staticfire.harness.results.run_result import RunResult
from staticfire.harness.results.run_status import Progress, RunStatus
from staticfire.harness.workloads.catalogue import WORKLOADS

SETUP_BOUND_S = 60.0
PROBE_BOUND_S = 120.0  # after the last heal, for sends to work again on every broker that is left
DRAIN_BOUND_S = 180.0  # after that, for the group to have consumed and committed everything
POLL_S = 0.25


class RunError(Exception):
    """The run could not be carried out: the harness's fault, or the cluster never came up."""


class Run:
    """The phases of one run.

    Args:
        tick_s: between two reports of progress.
        refusing_s: a broker that has refused sends for so long after the last fault is not waited for, nor is a group
            then that has not moved for so long; None: both are, until their bounds are over.
    """

    def __init__(
        self,
        environment: Environment,
        controls: Controls,
        progress: Progress,
        *,
        tick_s: float = 5.0,
        refusing_s: int | None = None,
    ) -> None:
        self._environment = environment
        self._campaign = environment.campaign
        self._recorder = environment.recorder
        self._controls = controls
        self._inspector = Inspector(environment)
        self._prober = Prober(environment, refusing_s)
        self._refusing_s = refusing_s
        self._routes = RouteWatch(environment)
        self._resources = ResourceWatch(environment)
        self._progress = progress
        self._tick_s = tick_s
        self._nemesis = Nemesis(
            self._campaign.plan,
            self._controls,
            self._recorder,
            environment.now_ns,
            booting_ns=environment.booting_ns,
        )
        self._interpreter: Interpreter | None = None
        self._is_cut_short = False
        self._topics: list[str] = []  # of the workload
        self._up_ns = 0
        self._load_start_ns = 0
        self.healed = asyncio.Event()  # from then on it only asks

    async def main(self) -> None:
        await self._phase("set up", self._set_up())
        watching = asyncio.get_running_loop().create_task(self._routes.run())
        try:
            await self._load_and_drain()
        finally:
            watching.cancel()
        await self._routes.look(last=True)
        routes = RouteContents(self._environment, timings_of(self._campaign).register_s)
        await self._phase("compare routes", routes.run(self._topics))
        await self._phase("look up", LookUps(self._environment).run())
        await self._inspector.compare_replicas()
        self._inspector.report_recoveries()
        self._inspector.report_events()
        await self._phase("settle", self._resources.end())

    async def _load_and_drain(self) -> None:
        await self._phase("load", self._load())
        await self._phase("heal", self._heal())
        self.healed.set()
        await self._phase("probe", self._prober.probe_all(PROBE_BOUND_S))
        still_s = self._refusing_s if self._prober.unserved else None
        await self._phase("drain", Drain(self._environment, still_s).run(DRAIN_BOUND_S))

    def cut_short(self) -> None:
        """End the load early: heal, drain and judge what there is."""
        self._is_cut_short = True
        self._nemesis.cut_short()
        if self._interpreter is not None:
            self._interpreter.cut_short()

    @property
    def is_under_load(self) -> bool:
        """Whether the cluster is up, so that there is something to judge."""
        return self._load_start_ns > 0

    async def _phase(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        ticker = asyncio.get_running_loop().create_task(self._tick(name))
        try:
            await work
        finally:
            ticker.cancel()

    async def _tick(self, phase: str) -> None:
        while True:
            self._progress(self._status(phase))
            await asyncio.sleep(self._tick_s)

    def _status(self, phase: str) -> RunStatus:
        return RunStatus(
            phase=phase,
            at_s=self._environment.now_ns() / 1e9,
            acknowledged=self._recorder.acknowledged,
            consumed=self._recorder.consumed,
            faults=self._nemesis.now_on(),
            nodes=self._environment.states(),
        )

    # --- phases -----------------------------------------------------------------------------------

    async def _set_up(self) -> None:
        environment = self._environment
        await self._start((*environment.shape.servers, ADMIN))
        told = WORKLOADS[self._campaign.workload].members(self._campaign)
        queues = self._campaign.queues
        topics = {self._campaign.topic: queues}
        topics |= {member.topic: member.queues or queues for member in told}
        self._topics = sorted(topics)
        if self._campaign.auto_topic:
            topics = {self._campaign.probe_topic: queues}
        for master in environment.shape.masters:
            for topic, queues in topics.items():
                await self._create_topic(master.node, topic, queues)
        await self._start((PROBE,))  # a producer looks for a missing topic only every 30 s
        for name in environment.shape.broker_names:
            await self._wait_until_serving(name)
        await self._resources.begin()
        self._up_ns = environment.now_ns()
        await self._start(environment.shape.clients)
        self._load_start_ns = environment.now_ns()

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
        """A synchronous master answers SEND_OK only once its slave has connected."""
        outcome = await self._prober.send_until_served(broker_name, "warm-up", SETUP_BOUND_S)
        if outcome.type != "ok":
            [master] = [
                b.node for b in self._environment.shape.masters if b.broker_name == broker_name
            ]
            raise RunError(f"{broker_name} did not serve{self._why_not(master, outcome)}")

    def _why_not(self, node: str, outcome: Outcome) -> str:
        """The end of a sentence: that of a node that ends by itself is its last exit."""
        if self._environment.is_dead(node):
            return self._last_exit()
        return f" in {SETUP_BOUND_S:g} s: {outcome.error}{self._last_exit()}"

    def _last_exit(self) -> str:
        """Which node ended last by itself, and why; empty if none did."""
        exits = [op for op in self._recorder.ops if op.f == "node_exit"]
        return f"; {exits[-1].node} ended: {exits[-1].error}" if exits else ""

    async def _ask_until_ok(self, node: str, request: Request, bound_s: float) -> Outcome:
        """Have a server asked until it does what it is asked for, is dead, or the bound is over; its last answer."""
        deadline_ns = self._environment.now_ns() + int(bound_s * 1e9)
        while True:
            outcome = await self._environment.request(ADMIN, request)
            is_over = self._environment.now_ns() > deadline_ns
            if outcome.type == "ok" or is_over or self._environment.is_dead(node):
                return outcome
            await asyncio.sleep(POLL_S)

    async def _load(self) -> None:
        if self._is_cut_short:
            return
        campaign = self._campaign
        idle_from_ns = self._load_start_ns + int(campaign.idle[0] * 1e9)
        interpreter = self._interpreter = Interpreter(
            self._recorder,
            self._environment,
            WORKLOADS[campaign.workload].generator(self._environment.stream("sizes"), campaign),
            ThinkTimes(self._environment.stream("think"), campaign.think_ms),
            self._environment.now_ns,
            idle_ns=(idle_from_ns, idle_from_ns + int(campaign.idle[1] * 1e9)),
            rights=self._environment.guest_rights,
            late_ns=self._nemesis.late_ns,
        )
        until_ns = self._load_start_ns + int(campaign.load_s * 1e9)
        producers = self._environment.shape.producers
        await asyncio.gather(interpreter.run(producers, until_ns), self._nemesis.run())

    async def _heal(self) -> None:
        """End every fault that did not end itself (one whose heal failed) and start whatever is down."""
        controls = self._controls
        if controls.has("network"):
            await controls.network.heal()
        has_disks = controls.has("disk")
        for node in (*self._environment.shape.servers, *self._environment.shape.clients):
            if has_disks:
                await controls.disk.heal(node)
            await controls.process.resume(node)
            await (controls.disk.power_on(node) if has_disks else controls.process.start(node))

    # --- result -----------------------------------------------------------------------------------

    def result(self) -> RunResult:
        environment, recorder = self._environment, self._recorder
        recorder.end()
        facts = run_facts(self._campaign, self._nemesis.records, recorder.ops)
        facts = replace(facts, files_observed=facts.files_observed and self._inspector.reads_files)
        verdict = judge(recorder, facts)
        return RunResult(
            campaign=self._campaign,
            verdict=verdict,
            facts=facts,
            ops=recorder.ops,
            observations=recorder.observations,
            faults=self._nemesis.records,
            digest=environment.digest(),
            nodes=[
                environment.node_record(name, keeps_store=verdict.valid is not True)
                for name in environment.shape.servers
                if not environment.is_external(name)
            ],
            interrupted=self._is_cut_short,
            up_s=self._up_ns / 1e9,
            run_s=environment.now_ns() / 1e9,
        )
