"""The targets by name: what a campaign on real machines starts there."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address

from staticfire.faults.model.shape import ClusterShape
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.environments.real.external.address import AddressProvider
from staticfire.harness.environments.real.machine_provider import MachineProvider, Rerouting
from staticfire.harness.local_cluster.ports import free_ports
from staticfire.harness.machines.machine import Machine
from staticfire.harness.machines.options import FleetOptionError, MachineOptions
from staticfire.harness.targets.apache import (
    ApacheDistribution,
    DistributionError,
    check_distribution,
)
from staticfire.harness.targets.external_cluster import ExternalCluster
from staticfire.harness.targets.interpreter import Interpreter
from staticfire.harness.targets.java import JAVA_ELSEWHERE, local_java
from staticfire.harness.targets.own_cluster import directly
from staticfire.harness.targets.own_processes import OwnProcesses
from staticfire.harness.targets.target import Target

HERE = ("processes", "namespaces")  # environments whose nodes see the files of this machine


def check_target(campaign: Campaign, options: MachineOptions) -> None:
    """What can be known of a target before machines are made.

    Raises:
        FleetOptionError: the user has to say more, or something else.
        EnvironmentFailed: this machine cannot run it.
    """
    if campaign.target != "apache":
        return
    if options.home is None:
        raise FleetOptionError(
            "--target apache needs --home DIR: the folder of an unpacked Apache RocketMQ 4.9 or 5"
        )
    if campaign.environment in HERE:
        try:
            check_distribution(options.home)
        except DistributionError as error:
            raise FleetOptionError(str(error)) from error
        local_java()


def make_target(
    campaign: Campaign,
    provider: MachineProvider,
    machines: Mapping[str, Machine],
    options: MachineOptions,
) -> Target:
    """The target of the campaign on machines that are up; `check_target` has nothing against it."""
    reach = provider.reach if isinstance(provider, Rerouting) else directly
    if isinstance(provider, AddressProvider):
        return ExternalCluster(
            campaign,
            machines,
            addresses=provider.addresses,
            interpreter=Interpreter(python=provider.python, code=tuple(provider.code)),
            reach=reach,
        )
    if campaign.target == "own":
        return OwnProcesses(
            campaign, machines, python=provider.python, code=provider.code, reach=reach
        )
    assert options.home is not None, "check_target has looked"
    return ApacheDistribution(
        campaign,
        machines,
        home=options.home,
        java=(local_java(),) if campaign.environment in HERE else JAVA_ELSEWHERE,
        interpreter=Interpreter(python=provider.python, code=tuple(provider.code)),
        ports=_ports(campaign.shape(), machines),
        reach=reach,
    )


def _ports(shape: ClusterShape, machines: Mapping[str, Machine]) -> dict[str, int]:
    """Free ones for servers that share the loopback of one machine; elsewhere the usual ones."""
    if not all(ip_address(machines[node].address).is_loopback for node in shape.servers):
        return {}
    return dict(zip(shape.servers, free_ports(len(shape.servers)), strict=True))
