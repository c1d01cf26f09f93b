"""One run in any environment: set up, load under faults, heal, probe, drain, inspect, judge."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from staticfire.faults.model.capabilities import Controls
from staticfire.harness.environments.environment import Environment
from staticfire.harness.generators.interpreter import Interpreter
from staticfire.harness.recording.anchors import AnchorWatch, WatchDisk
from staticfire.harness.recording.nemesis import Nemesis
from staticfire.harness.recording.verdict import judge
from staticfire.harness.results.run_result import RunResult
from staticfire.harness.results.run_status import Progress, RunStatus
from staticfire.harness.systems.registry import system_of
from staticfire.harness.systems.system import Operations


class Run:
    """The phases of one run.

    Args:
        environment: the environment of the nodes.
        controls: the capabilities with which the nemesis breaks nodes.
        operations: the work of the system besides load and faults.
        progress: takes a report of progress every `tick_s` seconds.
        watch_disk: watches the disk calls of a node, for faults that strike at one; None: no disk can be watched.
    """

    def __init__(
        self,
        environment: Environment,
        controls: Controls,
        operations: Operations,
        progress: Progress,
        *,
        tick_s: float = 5.0,
        watch_disk: WatchDisk | None = None,
    ) -> None:
        self._environment = environment
        self._campaign = environment.campaign
        self._recorder = environment.recorder
        self._controls = controls
        self._operations = operations
        self._progress = progress
        self._tick_s = tick_s
        self._nemesis = Nemesis(
            self._campaign.plan,
            self._controls,
            self._recorder,
            environment.now_ns,
            booting_ns=environment.booting_ns,
            watch=AnchorWatch(self._recorder, watch_disk, system_of(self._campaign).stored_logs),
            load_s=self._campaign.load_s,
        )
        self._interpreter: Interpreter | None = None
        self._is_cut_short = False
        self._up_ns = 0
        self._load_start_ns = 0
        self.healed = asyncio.Event()  # set before the phases that only read

    async def main(self) -> None:
        await self._phase("set up", self._set_up())
        watching = asyncio.get_running_loop().create_task(self._operations.watch())
        try:
            await self._load_and_drain()
        finally:
            watching.cancel()
        await self._operations.inspect(self._phase)

    async def _load_and_drain(self) -> None:
        await self._phase("load", self._load())
        await self._phase("heal", self._heal())
        self.healed.set()
        await self._phase("probe", self._operations.probe())
        await self._phase("drain", self._operations.drain())

    def cut_short(self) -> None:
        """End the load early: heal, drain and judge the history so far."""
        self._is_cut_short = True
        self._nemesis.cut_short()
        if self._interpreter is not None:
            self._interpreter.cut_short()

    @property
    def nemesis(self) -> Nemesis:
        return self._nemesis

    @property
    def is_under_load(self) -> bool:
        """Whether the load has begun, so that there is a history to judge."""
        return self._load_start_ns > 0

    async def _phase(self, name: str, work: Coroutine[object, object, None]) -> None:
        ticker = asyncio.get_running_loop().create_task(self._tick(name))
        try:
            await work
        finally:
            ticker.cancel()

    async def _tick(self, phase: str) -> None:
        while True:
            self._progress(self._status(phase))
            self._environment.end_silent_clients()
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
        await self._operations.set_up()
        self._up_ns = environment.now_ns()
        await asyncio.gather(*map(environment.start, environment.topology.clients))
        await environment.clients_open()
        self._load_start_ns = environment.now_ns()

    async def _load(self) -> None:
        if self._is_cut_short:
            return
        campaign = self._campaign
        idle_from_ns = self._load_start_ns + int(campaign.idle[0] * 1e9)
        think, mean_s = self._environment.stream("think"), campaign.think_ms / 1000.0
        interpreter = self._interpreter = Interpreter(
            self._recorder,
            self._environment,
            system_of(campaign)
            .workloads[campaign.workload]
            .generator(self._environment.stream("sizes"), campaign),
            lambda: mean_s * (0.5 + think.random()),
            self._environment.now_ns,
            idle_ns=(idle_from_ns, idle_from_ns + int(campaign.idle[1] * 1e9)),
            rights=self._operations.guest_rights,
            late_ns=self._nemesis.late_ns,
            ops=campaign.ops,
            start_ns=self._load_start_ns,
        )
        until_ns = self._load_start_ns + int(campaign.load_s * 1e9)
        producers = self._environment.topology.producers
        await asyncio.gather(interpreter.run(producers, until_ns), self._nemesis.run())

    async def _heal(self) -> None:
        """End every fault that is still on (its heal failed), and start every node that is down."""
        controls = self._controls
        if controls.has("network"):
            await controls.network.heal()
        has_disks = controls.has("disk")
        for node in (*self._environment.topology.servers, *self._environment.topology.clients):
            if has_disks:
                await controls.disk.heal(node)
            await controls.process.resume(node)
            await (controls.disk.power_on(node) if has_disks else controls.process.start(node))

    # --- result -----------------------------------------------------------------------------------

    def result(self) -> RunResult:
        environment, recorder = self._environment, self._recorder
        recorder.end()
        facts = self._operations.facts(self._nemesis.records)
        self._progress(self._status("judging"))
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
                for name in environment.topology.servers
                if not environment.is_external(name)
            ],
            begun=() if self._interpreter is None else tuple(self._interpreter.begun),
            interrupted=self._is_cut_short,
            up_s=self._up_ns / 1e9,
            load_start_ns=self._load_start_ns,
            run_s=environment.now_ns() / 1e9,
        )
