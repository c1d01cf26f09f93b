"""The targets by name: what a campaign on real machines starts there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from ipaddress import ip_address

from staticfire.faults.linux.executor import (
    CommandFailed,
    CommandTimedOut,
    Executor,
    LocalExecutor,
)
from staticfire.faults.model.topology import Topology
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.environments.real.external.address import AddressProvider
from staticfire.harness.environments.real.machine_provider import MachineProvider, Rerouting
from staticfire.harness.local_cluster.ports import free_ports
from staticfire.harness.machines.errors import EnvironmentFailed
from staticfire.harness.machines.machine import Machine
from staticfire.harness.machines.options import MachineOptionError, MachineOptions
from staticfire.harness.targets.apache import ApacheDistribution
from staticfire.harness.targets.apache_machine import (
    DistributionError,
    MachineFacts,
    check_machine,
    question,
)
from staticfire.harness.targets.external_cluster import ExternalCluster
from staticfire.harness.targets.interpreter import Interpreter
from staticfire.harness.targets.own_cluster import check_properties, directly
from staticfire.harness.targets.own_processes import OwnProcesses
from staticfire.harness.targets.target import Target


def check_machines(campaign: Campaign, options: MachineOptions) -> None:
    """What `System.check_machines` says, for every target of RocketMQ."""
    if campaign.target == "own":
        check_properties(campaign)
    else:
        check_target(campaign, options)


def check_target(campaign: Campaign, options: MachineOptions) -> None:
    """Ask the machines of servers for what the target needs there, before anything is made.

    Raises:
        MachineOptionError: the user has to say more, or something else.
        EnvironmentFailed: a machine cannot run it, or cannot be asked.
    """
    if campaign.target != "apache":
        return
    if options.home is None:
        raise MachineOptionError(
            "--target apache needs --home DIR: the folder of an unpacked Apache RocketMQ 4.9 or 5"
        )
    for where, facts in _facts(campaign, options, options.home).items():
        try:
            check_machine(facts, options.home, where)
        except DistributionError as error:
            raise MachineOptionError(str(error)) from error


def version_of(campaign: Campaign, options: MachineOptions) -> str:
    """Of the Apache RocketMQ that `check_target` has nothing against, such as 4.9.8."""
    assert options.home is not None, "check_target has looked"
    return next(iter(_facts(campaign, options, options.home).values())).version


def _facts(campaign: Campaign, options: MachineOptions, home: str) -> Mapping[str, MachineFacts]:
    """Of the machines of servers, by how a sentence names them. Raises EnvironmentFailed."""
    hosts = options.hosts[: len(campaign.topology().servers)]
    return _facts_of(campaign.environment, replace(options, hosts=hosts), home)


@cache
def _facts_of(environment: str, options: MachineOptions, home: str) -> Mapping[str, MachineFacts]:
    """They do not change while one command carries out many runs."""
    argv = question(home)
    if environment == "docker":
        from staticfire.harness.machines.docker.engine import ask_image

        answers = {f" in the image {options.image}": ask_image(options.image, argv)}
    elif environment == "ssh":
        answers = asyncio.run(_ask_hosts(options, argv))
    else:
        answers = {"": asyncio.run(_answer(LocalExecutor(), argv))}
    return {where: MachineFacts.read(answer) for where, answer in answers.items()}


async def _ask_hosts(options: MachineOptions, argv: Sequence[str]) -> dict[str, str]:
    from staticfire.harness.environments.real.ssh.survey import each_of

    found = await each_of(options.hosts, options, partial(_answer, argv=argv))
    return {f" on {host}": said for host, said in zip(options.hosts, found, strict=True)}


async def _answer(executor: Executor, argv: Sequence[str]) -> str:
    """Raises EnvironmentFailed."""
    try:
        return (await executor.run(argv)).decode(errors="replace")
    except CommandTimedOut as error:
        raise EnvironmentFailed(
            f"--target apache: java -version, or what it has started, still ran after {error.timeout_s:g} s"
        ) from error
    except CommandFailed as error:
        raise EnvironmentFailed(
            f"--target apache: a machine cannot say what it has: {error.stderr!r:.200}"
        ) from error


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
        interpreter=Interpreter(python=provider.python, code=tuple(provider.code)),
        ports=_ports(campaign.topology(), machines),
        reach=reach,
    )


def _ports(topology: Topology, machines: Mapping[str, Machine]) -> dict[str, int]:
    """Free ones for servers that share the loopback of one machine; elsewhere the usual ones."""
    if not all(ip_address(machines[node].address).is_loopback for node in topology.servers):
        return {}
    return dict(zip(topology.servers, free_ports(len(topology.servers)), strict=True))
