"""The targets of RocketMQ on real machines, by name."""

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
    """Do what `System.check_machines` describes, for every target of RocketMQ."""
    if campaign.target == "own":
        check_properties(campaign)
    else:
        check_target(campaign, options)


def check_target(campaign: Campaign, options: MachineOptions) -> None:
    """Check that the machines of servers have what the target needs, before anything is made there.

    Raises:
        MachineOptionError: an option about machines is missing or wrong.
        EnvironmentFailed: a machine cannot run the target, or cannot be checked.
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
    """Return the version, such as 4.9.8, of an Apache RocketMQ that passed `check_target`."""
    assert options.home is not None, "check_target has looked"
    return next(iter(_facts(campaign, options, options.home).values())).version


def _facts(campaign: Campaign, options: MachineOptions, home: str) -> Mapping[str, MachineFacts]:
    """Return the facts of the servers' machines, by their names in error messages. Raises EnvironmentFailed."""
    hosts = options.hosts[: len(campaign.topology().servers)]
    return _facts_of(campaign.environment, replace(options, hosts=hosts), home)


@cache
def _facts_of(environment: str, options: MachineOptions, home: str) -> Mapping[str, MachineFacts]:
    """Return the facts, which are read once for all runs of a command."""
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
    """Return a machine's answer to `question`. Raises EnvironmentFailed."""
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
    """Return the target of the campaign on machines that are up and passed `check_target`."""
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
    """Return free ports for servers that share one machine's loopback; elsewhere none, for the default ports."""
    if not all(ip_address(machines[node].address).is_loopback for node in topology.servers):
        return {}
    return dict(zip(topology.servers, free_ports(len(topology.servers)), strict=True))
