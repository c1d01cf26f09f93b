"""A new simulated cluster for each case: virtual time, and no state shared between cases."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.conformance.case import Case
from staticfire.harness.conformance.clause import Need
from staticfire.harness.conformance.clients.simulated import SimulatedClients
from staticfire.harness.conformance.result import CaseResult, Outcome
from staticfire.harness.conformance.sites.files import change_files
from staticfire.harness.conformance.sites.readiness import until_serving
from staticfire.harness.conformance.sites.site import OnResult
from staticfire.harness.conformance.target_facts import TargetFacts
from staticfire.harness.conformance.trying import try_case
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.environments.simulated.controls import simulated_controls
from staticfire.harness.environments.simulated.environment import SimulationEnvironment
from staticfire.harness.recording.recorder import Recorder
from staticfire.harness.rocketmq.assembly.system import ROCKETMQ
from staticfire.harness.simulation.hosts.world import World
from staticfire.harness.targets.own_simulated import OwnSimulated
from staticfire.system_under_test.runtime.env import Env

TESTER = "tester"
TESTER_ADDRESS = "10.9.9.9"
TOPOLOGY: Mapping[str, object] = {
    "coordinators": 2,
    "followers": (1, 1),
    "producers": 1,
    "consumers": 1,
    "flush": "sync",
    "replication": "sync",
    "queues": 4,
    "faults": (),
    "plan": (),
    "time_s": 1.0,
    "workload": "queue",
    "latency_ms": (0.1, 0.5),
    "fsync_us": 500,
    "log_file_bytes": 16 << 20,
    "broker_properties": (),
}


class SimulatedSite:
    """Two name servers and two pairs of brokers, new for each case; our own client is under test.

    Args:
        options: options of the campaign that describes the cluster: `mode`, `defect`, `broker_properties`, ...
    """

    is_virtual = True
    makes_clusters = True

    def __init__(self, *, options: Mapping[str, object] | None = None) -> None:
        self.campaign = draw_campaign(0, {**TOPOLOGY, **(options or {})})
        self.name = f"simulation ({self.campaign.mode})"

    def lacks(self, need: Need) -> str | None:
        return None

    def run(self, cases: Sequence[Case], on_result: OnResult) -> None:
        for case in cases:
            on_result(run_in_world(case, self.campaign))


def run_in_world(case: Case, campaign: Campaign) -> CaseResult:
    """Make a world, try the case in it, end the world."""
    campaign = replace(campaign, **case.cluster)
    world = World(campaign.seed, trace_level=0)
    environment = SimulationEnvironment(
        campaign,
        world,
        Recorder(lambda: world.now_ns),
        lambda addresses: OwnSimulated(campaign, addresses),
    )
    tester = world.add_host(TESTER, TESTER_ADDRESS)
    controls = simulated_controls(
        environment, ROCKETMQ.operations(environment, None).cluster_control, ROCKETMQ.stored_logs
    )
    servers = {environment.server_address(name): name for name in environment.topology.servers}
    target = TargetFacts(
        name_servers=tuple(map(environment.server_address, environment.topology.coordinators)),
        prefix="conform",
        nodes=servers,
        controls=controls,
        read_store=environment.store_files,
        cpu_s=environment.cpu_s,
        now_ms=tester.clock.wall_ms,
        clients=SimulatedClients(world),
        listen_host=TESTER_ADDRESS,
    )
    results: list[CaseResult] = []

    async def change_store(node: str, files: Mapping[str, bytes | None]) -> None:
        change_files(environment.nodes[node].host.disk, files)

    target = replace(target, change_store=change_store)

    async def try_it(_env: Env) -> None:
        await until_serving(target, len(environment.topology.replicas))
        results.append(await try_case(case, target))

    async def main() -> None:
        await asyncio.gather(*map(environment.start, environment.topology.servers))
        status = await tester.start(TESTER, try_it).exit
        if status.error is not None:
            reason = f"{type(status.error).__name__}: {status.error}"
            results.append(CaseResult(clause=case.clause, outcome=Outcome.ERROR, reason=reason))

    world.run(main)
    return results[0]
