"""The network of one run in the Docker engine."""

from __future__ import annotations

import os
import random
import subprocess

import docker.errors
import docker.types

import docker
from staticfire.faults.linux.executor import SYSTEM_PATHS
from staticfire.faults.linux.network.network import SUBNETS, subnet_prefix, subnets_taken
from staticfire.harness.machines.docker.machine import Engine
from staticfire.harness.machines.errors import EnvironmentFailed

FIRST_HOST = 10  # the last number of the first node's address
ATTEMPTS = 10


class PodNetwork:
    """The network of one run; `prefix` is the first three numbers of its addresses."""

    def __init__(self, name: str, subnet: str) -> None:
        self.name = name
        self.prefix = subnet.rpartition("/")[0].rpartition(".")[0]
        self.host_address = f"{self.prefix}.1"  # of this machine, in it

    def address(self, number: int) -> str:
        """Return the address of the node with this number."""
        return f"{self.prefix}.{FIRST_HOST + number}"


def make_network(engine: Engine, name: str, labels: dict[str, str]) -> PodNetwork:
    """Make a network with a subnet of 198.18.0.0/15: the engine gives fixed addresses only in a subnet of our choice.

    Raises EnvironmentFailed if the engine accepts no subnet.
    """
    reason = ""
    for subnet in free_subnets(ATTEMPTS):
        network = PodNetwork(name, subnet)
        pool = docker.types.IPAMPool(subnet=subnet, gateway=network.host_address)
        try:
            engine.client.networks.create(
                name,
                driver="bridge",
                labels=labels,
                ipam=docker.types.IPAMConfig(pool_configs=[pool]),
            )
        except docker.errors.APIError as error:
            reason = str(error.explanation or error)
            continue
        return network
    raise EnvironmentFailed(
        f"the Docker engine has no free subnet for a network of this run ({reason})"
    )


def free_subnets(count: int) -> list[str]:
    """Return some subnets in which this machine has no address. Another run may take one of them at the same time."""
    argv = ["ip", "-json", "-4", "address"]
    variables = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:{SYSTEM_PATHS}"}
    taken = subnets_taken(
        subprocess.run(argv, env=variables, capture_output=True, check=True).stdout.decode()
    )
    free = [number for number in range(SUBNETS) if number not in taken]
    return [
        f"{subnet_prefix(number)}.0/24" for number in random.sample(free, min(count, len(free)))
    ]
