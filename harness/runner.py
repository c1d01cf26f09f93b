"""One run in the simulation: set up, load under faults, heal, probe, drain, inspect, judge."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import asdict, dataclass
from random import Random
from typing import Any, BinaryIO

from checkers.compose import RunVerdict, check_run
from checkers.facts import RunFacts
from checkers.history import Op, OpType
from harness.campaign import Campaign
from harness.clients.port import Outcome
from harness.environments.simulated_controls import simulated_controls
from harness.environments.simulation import ADMIN, PROBE, SimulationEnvironment
from harness.facts import run_facts
from harness.generators.keyed_sends import KeyedSends, ThinkTimes
from harness.inspector import Inspector
from harness.interpreter import Interpreter
from harness.nemesis import FaultRecord, Nemesis
from harness.recorder import Recorder
from harness.simulation.world import World

SETUP_BOUND_S = 60.0
PROBE_BOUND_S = 120.0  # after the last heal, for sends to work again on every broker that is left
DRAIN_BOUND_S = 180.0  # after that, for the group to have consumed and committed everything
VISIBLE_BOUND_S = 10.0  # for what was acknowledged to show in its queue
POLL_S = 1.0
PROBE_PROCESS = 99_999

Progress = Callable[[str, float], None]  # phase, seconds of the run's clock


class RunError(Exception):
    """The run could not be carried out: the harness's fault, or the cluster never came up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """What is kept of a server: its log, and its files by path unless the run was valid."""

    name: str
    log: list[dict[str, Any]]
    store: dict[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    campaign: Campaign
    verdict: RunVerdict
    facts: RunFacts
    ops: list[Op]
    observations: list[dict[str, Any]]
    faults: list[FaultRecord]
    digest: str  # of everything that happened, history included
    nodes: list[NodeRecord]  # of servers
    virtual_s: float


def run_simulated(
    campaign: Campaign,
    *,
    history: BinaryIO | None = None,
    observations: BinaryIO | None = None,
    progress: Progress | None = None,
    trace_level: int = 1,
) -> RunResult:
    """Run the campaign on virtual time and judge it.

    Raises RunError if the cluster does not come up.
    """
    world = World(campaign.seed, trace_level=trace_level)

    def make_recorder(world: World) -> Recorder:
        return Recorder(
            lambda: world.now_ns,
            history=history,
            observations=observations,
            digest=world.trace.record_bytes,
        )

    environment = SimulationEnvironment(campaign, world, make_recorder)
    run = SimulatedRun(environment, progress or (lambda phase, at_s: None))
    world.run(run.main)
    return run.result()


class SimulatedRun:
    """The phases of one run."""

    def __init__(self, environment: SimulationEnvironment, progress: Progress) -> None:
        self._environment = environment
        self._campaign = environment.campaign
        self._recorder = environment.recorder
        self._controls = simulated_controls(environment)
        self._inspector = Inspector(environment)
        self._progress = progress
        self._nemesis = Nemesis(
            self._campaign.plan, self._controls, self._recorder, environment.now_ns
        )
        self._load_start_ns = 0

    async def main(self) -> None:
        self._recorder.on_ok_send = self._inspector.acknowledged
        await self._phase("set up", self._set_up())
        await self._phase("load", self._load())
        await self._phase("heal", self._heal())
        await self._phase("probe", self._probe())
        await self._phase("drain", self._drain())
        self._inspector.compare_replicas()
        self._inspector.report_recoveries()

    async def _phase(self, name: str, work: Any) -> None:
        ticker = asyncio.get_running_loop().create_task(self._tick(name))
        try:
            await work
        finally:
            ticker.cancel()

    async def _tick(self, phase: str) -> None:
        while True:
            self._progress(phase, self._environment.now_ns() / 1e9)
            await asyncio.sleep(5.0)

    # --- phases -----------------------------------------------------------------------------------

    async def _set_up(self) -> None:
        environment = self._environment
        for node in (*environment.shape.servers, ADMIN):
            environment.start(node)
        for master in environment.shape.masters:
            await self._create_topic(master.node)
        environment.start(PROBE)
        for name in environment.shape.broker_names:
            await self._wait_until_serving(name)
        for node in environment.shape.clients:
            environment.start(node)
        self._load_start_ns = environment.now_ns()

    async def _create_topic(self, node: str) -> None:
        request = {
            "f": "create_topic",
            "topic": self._campaign.topic,
            "queues": self._campaign.queues,
            "address": self._environment.target.broker_address(node),
        }
        outcome = await self._until_ok(request, ADMIN, SETUP_BOUND_S)
        if outcome.type != "ok":
            raise RunError(f"{node} did not come up in {SETUP_BOUND_S:g} s: {outcome.error}")

    async def _wait_until_serving(self, broker_name: str) -> None:
        """A synchronous master answers SEND_OK only once its slave has connected."""
        await self._probe_broker(broker_name, "warm-up", SETUP_BOUND_S)
        last = self._recorder.ops[-1]
        if last.type != "ok":
            raise RunError(f"{broker_name} did not serve in {SETUP_BOUND_S:g} s: {last.error}")

    async def _until_ok(self, request: dict[str, Any], node: str, bound_s: float) -> Outcome:
        deadline_ns = self._environment.now_ns() + int(bound_s * 1e9)
        while True:
            outcome = await self._environment.request(node, request)
            if outcome.type == "ok" or self._environment.now_ns() > deadline_ns:
                return outcome
            await asyncio.sleep(POLL_S)

    async def _load(self) -> None:
        campaign = self._campaign
        interpreter = Interpreter(
            self._recorder,
            self._environment,
            KeyedSends(self._stream("sizes"), campaign.topic, campaign.payload_bytes),
            ThinkTimes(self._stream("think"), campaign.think_ms),
            self._environment.now_ns,
        )
        until_ns = self._load_start_ns + int(campaign.time_s * 1e9)
        producers = self._environment.shape.producers
        await asyncio.gather(interpreter.run(producers, until_ns), self._nemesis.run())

    def _stream(self, purpose: str) -> Random:
        return self._environment.world.stream(purpose)

    async def _heal(self) -> None:
        """End every fault that did not end itself (one whose heal failed) and start whatever is down."""
        controls = self._controls
        await controls.network.heal()
        for node in (*self._environment.shape.servers, *self._environment.shape.clients):
            await controls.disk.mend(node)
            await controls.process.resume(node)
            await controls.disk.power_on(node)

    async def _probe(self) -> None:
        """Send to each broker whose master is left until it answers SEND_OK, or the bound is over."""
        for master in self._environment.shape.masters:
            if self._environment.nodes[master.node].lost:
                continue
            name = master.broker_name
            outcome = await self._probe_broker(name, "probe", PROBE_BOUND_S)
            serves = outcome.type == "ok" or self._stored_without_slave(name, outcome)
            type_: OpType = "ok" if serves else "fail"
            self._recorder.record(
                PROBE_PROCESS, type_, "probe", {"broker": name}, outcome.error, node=PROBE
            )

    async def _probe_broker(self, broker_name: str, prefix: str, bound_s: float) -> Outcome:
        """The last outcome: SEND_OK, as good as it gets without slaves, or whatever came at the end of the bound."""
        deadline_ns = self._environment.now_ns() + int(bound_s * 1e9)
        for number in itertools.count():
            value: dict[str, Any] = {
                "key": f"{prefix}-{broker_name}-{number}",
                "topic": self._campaign.topic,
                "size": 64,
                "broker": broker_name,
                "queue": 0,
            }
            outcome = await self._recorded_send(value)
            if outcome.type == "ok" or self._stored_without_slave(broker_name, outcome):
                return outcome
            if self._environment.now_ns() > deadline_ns:
                return outcome
            await asyncio.sleep(POLL_S)
        raise AssertionError("count() never ends")

    async def _recorded_send(self, value: dict[str, Any]) -> Outcome:
        record = self._recorder.record
        record(PROBE_PROCESS, "invoke", "send", value, node=PROBE)
        await self._environment.ready(PROBE)
        outcome = await self._environment.request(PROBE, {"f": "send", **value})
        done = {**value, **outcome.value}
        record(PROBE_PROCESS, outcome.type, "send", done, outcome.error, node=PROBE)
        return outcome

    def _stored_without_slave(self, broker_name: str, outcome: Outcome) -> bool:
        """Whether the broker works as well as it can with its slaves lost for good."""
        replicas = self._environment.shape.replicas(broker_name)
        slaves = [r for r in replicas if not r.is_master]
        lost = all(self._environment.nodes[slave.node].lost for slave in slaves)
        return bool(slaves) and lost and outcome.value.get("status") == "SLAVE_NOT_AVAILABLE"

    async def _drain(self) -> None:
        """Wait until the group has consumed and committed every message."""
        start_ns = self._environment.now_ns()
        while True:
            rows, complete = await self._queue_states()
            lag = sum(max(high - committed, 0) for _, _, _, high, committed in rows)
            waited_s = (self._environment.now_ns() - start_ns) / 1e9
            settled = waited_s > VISIBLE_BOUND_S or self._shows_acknowledged(rows)
            if (complete and settled and lag == 0) or waited_s > DRAIN_BOUND_S:
                break
            await asyncio.sleep(POLL_S)
        campaign = self._campaign
        value = {"group": campaign.group, "topic": campaign.topic, "queues": rows, "lag": lag}
        drained = complete and lag == 0
        error = None if drained else f"lag is {lag} after {DRAIN_BOUND_S:g} s"
        self._recorder.record(PROBE_PROCESS, "ok" if drained else "info", "drain", value, error)

    def _shows_acknowledged(self, rows: list[list[Any]]) -> bool:
        """Whether every queue is as long as the acknowledgements say; if one never is, that is for the checkers."""
        ends = {(broker, queue): high for broker, queue, _, high, _ in rows}
        return all(
            ends.get((op.value["broker"], op.value["queue"]), 0) > op.value["queue_offset"]
            for op in self._recorder.ops
            if op.f == "send" and op.type == "ok"
        )

    async def _queue_states(self) -> tuple[list[list[Any]], bool]:
        """Rows [broker, queue, min, max, committed]; and whether every broker answered."""
        rows: list[list[Any]] = []
        complete = True
        for name in self._environment.shape.broker_names:
            outcome = await self._environment.request(ADMIN, self._queue_state_request(name))
            complete = complete and outcome.type == "ok"
            rows += [[name, *row] for row in outcome.value.get("queues", [])]
        return rows, complete

    def _queue_state_request(self, broker_name: str) -> dict[str, Any]:
        environment = self._environment
        living = [
            replica.node
            for replica in environment.shape.replicas(broker_name)
            if not environment.nodes[replica.node].lost
        ]
        return {
            "f": "queue_state",
            "topic": self._campaign.topic,
            "group": self._campaign.group,
            "queues": environment.queues_max,
            "address": environment.target.broker_address(living[0]),
        }

    # --- result -----------------------------------------------------------------------------------

    def result(self) -> RunResult:
        environment, recorder = self._environment, self._recorder
        facts = run_facts(self._campaign, self._nemesis.records, recorder.ops)
        verdict = check_run(recorder.ops, recorder.observations, facts)
        return RunResult(
            campaign=self._campaign,
            verdict=verdict,
            facts=facts,
            ops=recorder.ops,
            observations=recorder.observations,
            faults=self._nemesis.records,
            digest=environment.world.trace.digest(),
            nodes=[self._node_record(name, verdict) for name in environment.shape.servers],
            virtual_s=environment.now_ns() / 1e9,
        )

    def _node_record(self, name: str, verdict: RunVerdict) -> NodeRecord:
        node = self._environment.nodes[name]
        log = [asdict(line) for process in node.incarnations for line in process.log.lines]
        keeps_store = verdict.valid is not True and not node.lost
        return NodeRecord(
            name=name, log=log, store=node.host.disk.snapshot() if keeps_store else {}
        )
