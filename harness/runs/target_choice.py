"""The targets by name: what a campaign on real machines starts there."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address

from staticfire.faults.model.shape import ClusterShape
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.environments.real.external.address import AddressFleet
from staticfire.harness.environments.real.machine_provider import Fleet, Rerouting
from staticfire.harness.local_cluster.ports import free_ports
from staticfire.harness.machines.machine import Place
from staticfire.harness.machines.options import FleetOptionError, FleetOptions
from staticfire.harness.targets.apache import (
    ApacheDistribution,
    DistributionError,
    check_distribution,
)
from staticfire.harness.targets.external_cluster import ForeignCluster
from staticfire.harness.targets.interpreter import Interpreter
from staticfire.harness.targets.java import JAVA_ELSEWHERE, local_java
from staticfire.harness.targets.own_cluster import directly
from staticfire.harness.targets.own_processes import OwnProcesses
from staticfire.harness.targets.target import Target

HERE = ("processes", "namespaces")  # environments whose nodes see the files of this machine


def check_target(campaign: Campaign, options: FleetOptions) -> None:
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
    campaign: Campaign, fleet: Fleet, places: Mapping[str, Place], options: FleetOptions
) -> Target:
    """The target of the campaign on machines that are up; `check_target` has nothing against it."""
    reach = fleet.reach if isinstance(fleet, Rerouting) else directly
    if isinstance(fleet, AddressFleet):
        return ForeignCluster(
            campaign,
            places,
            addresses=fleet.addresses,
            interpreter=Interpreter(python=fleet.python, code=tuple(fleet.code)),
            reach=reach,
        )
    if campaign.target == "own":
        return OwnProcesses(campaign, places, python=fleet.python, code=fleet.code, reach=reach)
    assert options.home is not None, "check_target has looked"
    return ApacheDistribution(
        campaign,
        places,
        home=options.home,
        java=(local_java(),) if campaign.environment in HERE else JAVA_ELSEWHERE,
        interpreter=Interpreter(python=fleet.python, code=tuple(fleet.code)),
        ports=_ports(campaign.shape(), places),
        reach=reach,
    )


def _ports(shape: ClusterShape, places: Mapping[str, Place]) -> dict[str, int]:
    """Free ones for servers that share the loopback of one machine; elsewhere the usual ones."""
    if not all(ip_address(places[node].address).is_loopback for node in shape.servers):
        return {}
    return dict(zip(shape.servers, free_ports(len(shape.servers)), strict=True))
