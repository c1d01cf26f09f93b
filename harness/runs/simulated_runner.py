"""A run in the simulation: the phases of every run, on virtual time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO

from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.environments.simulated.controls import simulated_controls
from staticfire.harness.environments.simulated.environment import SimulationEnvironment
from staticfire.harness.recording.recorder import Columns, Recorder
from staticfire.harness.results.run_result import RunResult
from staticfire.harness.results.run_status import Progress, no_progress
from staticfire.harness.runs.runner import Run
from staticfire.harness.simulation.hosts.guard import Escape
from staticfire.harness.simulation.hosts.world import World
from staticfire.harness.systems.errors import RunError
from staticfire.harness.systems.registry import system_of


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A simulated run that has not ended: the world, its nodes, and the phases."""

    world: World
    environment: SimulationEnvironment
    run: Run

    def at(self, at_ns: int, action: Callable[[LiveRun], object]) -> None:
        """Call `action` at a virtual time that is not in the past. The run stays the same, bit for bit.

        The action comes before everything else of that instant. It must not change the world, unless the run is to go
        on differently from there.
        """
        self.world.scheduler.at(at_ns, lambda _: action(self))


def run_simulated(
    campaign: Campaign,
    *,
    history: BinaryIO | None = None,
    observations: BinaryIO | None = None,
    columns: Columns | None = None,
    progress: Progress | None = None,
    begun: Callable[[LiveRun], None] | None = None,
) -> RunResult:
    """Run the campaign on virtual time and judge it.

    Args:
        begun: takes the run before its first event, for callers that inspect it later with `LiveRun.at`.

    Raises RunError if the cluster does not come up, or a node uses what the seed does not decide.
    """
    world = World(campaign.seed)
    recorder = Recorder(
        lambda: world.now_ns,
        history=history,
        observations=observations,
        digest=world.trace.record_bytes,
        columns=columns,
    )
    system = system_of(campaign)
    environment = SimulationEnvironment(
        campaign, world, recorder, partial(system.simulated, campaign)
    )
    system.observe_simulated(environment)
    operations = system.operations(environment, None)
    controls = simulated_controls(environment, operations.cluster_control, system.stored_logs)
    run = Run(
        environment,
        controls,
        operations,
        progress or no_progress,
        watch_disk=environment.watch_disk,
    )
    if begun is not None:
        begun(LiveRun(world, environment, run))
    try:
        world.run(run.main)
    except Escape as escape:  # no Exception, so that a node cannot handle it
        raise RunError(str(escape)) from escape
    for record in run.nemesis.records:  # neither in the history nor in the digest
        if record.fired_ns is not None:
            record.incidents = environment.incidents(
                record.planned.targets, record.fired_ns, record.healed_ns
            )
    return run.result()
