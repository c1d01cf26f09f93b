"""A cluster of real nodes that the suite starts, breaks and removes: `processes`, `namespaces`, `docker`, `ssh`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from staticfire.faults.model.capabilities import Controls
from staticfire.harness.conformance.case import Case
from staticfire.harness.conformance.clause import Need
from staticfire.harness.conformance.result import CaseResult, Outcome
from staticfire.harness.conformance.sites.concurrent import run_beside
from staticfire.harness.conformance.sites.files import change_files
from staticfire.harness.conformance.sites.readiness import until_checked, until_serving
from staticfire.harness.conformance.sites.simulated import TOPOLOGY
from staticfire.harness.conformance.sites.site import OnResult, SiteFailed
from staticfire.harness.conformance.target_facts import TargetFacts
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.environments.real.catalogue import DEFAULTS, make_provider
from staticfire.harness.environments.real.controls import real_controls
from staticfire.harness.environments.real.environment import RealEnvironment
from staticfire.harness.interrupts import left_whole, run_interruptibly
from staticfire.harness.machines.errors import EnvironmentFailed
from staticfire.harness.machines.options import MachineOptions
from staticfire.harness.recording.recorder import Recorder
from staticfire.harness.rocketmq.assembly.system import ROCKETMQ
from staticfire.harness.rocketmq.assembly.target_choice import make_target
from staticfire.system_under_test.configuration.real_tls import make_test_certificate
from staticfire.system_under_test.runtime.env import TlsError
from staticfire.system_under_test.runtime.real_env import RealStorage

POWER_NEEDS = ("disk", "disk.power_cut", "disk.slow", "disk.wipe")
LOCAL = ("processes", "namespaces")  # environments with the nodes' files on this machine


class RealSite:
    """Two name servers and two pairs of brokers on real machines; a case may get a new cluster of its own.

    Args:
        environment: name of the environment, as in a campaign.
        options: options of the campaign that describes the cluster: `mode`, `target`, `defect`, `broker_properties`,
            ...
        machine_options: options of the machines.
    """

    is_virtual = False
    makes_clusters = True

    def __init__(
        self,
        environment: str,
        *,
        options: Mapping[str, object] | None = None,
        machine_options: MachineOptions = DEFAULTS,
    ) -> None:
        self.campaign = draw_campaign(
            0, {**TOPOLOGY, **(options or {}), "environment": environment}
        )
        self._machine_options = machine_options
        kind = self.campaign.mode if self.campaign.target == "own" else self.campaign.target
        self.name = f"{environment} ({kind})"

    def lacks(self, need: Need) -> str | None:
        if need is Need.POWER:
            lacks = make_provider(self.campaign.environment, self._machine_options).lacks
            return next((lacks[name] for name in POWER_NEEDS if name in lacks), None)
        if need is Need.CLIENT:
            return "clients are judged on loopback, in the simulation or at an address: --client"
        return None

    def run(self, cases: Sequence[Case], on_result: OnResult) -> None:
        try:
            run_interruptibly(self._run(cases, on_result))
        except EnvironmentFailed as error:
            raise SiteFailed(str(error)) from error

    async def _run(self, cases: Sequence[Case], on_result: OnResult) -> None:
        """Run the cases that leave the cluster intact on one cluster, then each other case on its own."""
        gone: list[SiteFailed] = []
        shared = [case for case in cases if not case.needs_own_cluster]
        for together in (shared, *([case] for case in cases if case.needs_own_cluster)):
            if together:
                try:
                    await self._run_together(together, on_result)
                except SiteFailed as error:
                    gone.append(error)
        if gone:
            raise gone[0]

    async def _run_together(self, cases: Sequence[Case], on_result: OnResult) -> None:
        """Run cases on one cluster. Raises SiteFailed, EnvironmentFailed."""
        campaign = replace(self.campaign, **cases[0].cluster)
        if campaign.target == "own" and campaign.replica_tls:
            try:
                make_test_certificate()
            except TlsError as error:
                for case in cases:
                    on_result(
                        CaseResult(clause=case.clause, outcome=Outcome.NOT_RUN, reason=str(error))
                    )
                return
        provider = make_provider(campaign.environment, self._machine_options)
        environment = RealEnvironment(
            campaign,
            Recorder(lambda: 0),
            provider,
            lambda machines: make_target(campaign, provider, machines, self._machine_options),
        )
        async with left_whole(environment):
            controls = real_controls(
                environment, provider, ROCKETMQ.operations(environment, None).cluster_control
            )
            target = _facts(environment, controls)
            brokers = len(environment.topology.replicas)
            await asyncio.gather(*map(environment.start, environment.topology.servers))
            await until_serving(target, brokers)

            async def mend() -> None:
                if controls.has("network"):
                    await controls.network.heal()
                for node in environment.topology.servers:
                    await controls.process.resume(node)
                    await environment.start(node)
                await until_serving(target, brokers)

            if campaign.target == "apache" and _ask_about_transactions(cases):
                await until_checked(target)
            if cases[0].needs_own_cluster:  # no case runs in it afterwards
                await run_beside(cases, target, on_result)
            else:
                await run_beside(cases, target, on_result, mend=mend)


def _ask_about_transactions(cases: Sequence[Case]) -> bool:
    """Whether cases of a shared cluster need a broker that asks producers about transactions."""
    return any(
        case.clause.area_id == "TXN" and case.is_slow and not case.needs_own_cluster
        for case in cases
    )


def _facts(environment: RealEnvironment, controls: Controls) -> TargetFacts:
    topology = environment.topology
    return TargetFacts(
        name_servers=tuple(map(environment.server_address, topology.coordinators)),
        prefix="conform",
        nodes={environment.server_address(name): name for name in topology.servers},
        controls=controls,
        read_store=environment.store_files,
        cpu_s=environment.cpu_s,
        change_store=_change_local if environment.campaign.environment in LOCAL else None,
    )


async def _change_local(_node: str, files: Mapping[str, bytes | None]) -> None:
    await asyncio.to_thread(change_files, RealStorage(), files)
