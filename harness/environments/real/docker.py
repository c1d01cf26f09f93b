"""The environment `docker`: nodes in containers, servers on disks of their own. Needs a local engine and root.

This host breaks disks and networks itself; the Docker engine starts, stops and signals containers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence, Set
from functools import partial
from pathlib import Path
from typing import Any

import docker.errors
import docker.models.networks
import docker.types

from staticfire.faults.linux.network.firewall import Firewall
from staticfire.faults.linux.resources import Resource
from staticfire.harness.clients.names import ADMIN, PROBE
from staticfire.harness.environments.real.broken_machines import (
    BreakableMachines,
    lacks_here,
    netem_is_here,
)
from staticfire.harness.environments.real.namespaces import check_root, tools_for
from staticfire.harness.environments.real.proxied import DELAY_NEED, ProxiedMachines
from staticfire.harness.machines import cpp_library
from staticfire.harness.machines.docker.engine import check_image, connect
from staticfire.harness.machines.docker.machine import FOLDER, DockerMachine, Engine
from staticfire.harness.machines.docker.network import PodNetwork, make_network
from staticfire.harness.machines.errors import EnvironmentFailed
from staticfire.harness.machines.machine import Machine
from staticfire.harness.machines.options import MachineOptions
from staticfire.harness.targets.interpreter import code_folders

PYTHON = "/opt/staticfire/bin/python"  # in the image
LABEL = (
    "staticfire.run"  # label of all our containers and networks; its value is the run's identity
)
CLOCK = "/clock"  # the folder of a node's clock, in its container
OUR_KINDS = ("containers", "container networks")  # in the order of their removal
WITHOUT_POD = (ADMIN, PROBE)
MEMORY = "1g"  # of a node: the JVM of a broker has 256 MiB of heap, and as much outside of it
PIDS = 1024  # including threads, of which a JVM has more on more cores


class DockerProvider(ProxiedMachines):
    """Implements `staticfire.harness.environments.real.machine_provider.MachineProvider`."""

    def __init__(self, options: MachineOptions) -> None:
        super().__init__()
        self.lacks: Mapping[str, str] = lacks_here(options.file_system)
        self._file_system = options.file_system
        self._engine: Engine | None = None
        self._image = options.image
        self._ours: list[Resource] = []
        self._pods: dict[str, asyncio.Task[None]] = {}
        self._disks: asyncio.Task[None] | None = None

    @property
    def python(self) -> str:
        return PYTHON

    @property
    def code(self) -> tuple[str, ...]:
        """Return the folders of our code in each container."""
        return tuple(f"/code/{number}" for number, _ in enumerate(code_folders()))

    async def up(
        self, nodes: Sequence[str], *, servers: Sequence[str], needs: Set[str]
    ) -> dict[str, Machine]:
        """Start to make pods and disks, in the order in which nodes are launched. A container waits for its own.

        Raises EnvironmentFailed without root, an engine or the image, CommandFailed where the kernel refuses.
        """
        check_root("docker", {**tools_for(self._file_system), "docker": "docker.io"})
        engine = self._engine = connect()
        await engine.ask(lambda: check_image(engine, self._image))
        machines = self._machines = BreakableMachines()
        identity = machines.inventory.identity
        label = f"{LABEL}={identity}"
        self._ours = [machines.host.will_make(kind, label) for kind in OUR_KINDS]
        if cpp_library.NEED in needs:
            await engine.ask(lambda: self._check_cpp(engine, identity))
        machines.will_have_disks(servers, self._file_system)
        self._disks = asyncio.create_task(machines.make_disks())
        network = await engine.ask(
            lambda: make_network(engine, f"staticfire-{identity}", {LABEL: identity})
        )
        if DELAY_NEED in needs and not netem_is_here():
            found = {node: network.address(nodes.index(node)) for node in servers}
            await self._proxy.start(network.host_address, found)
        await machines.make_clocks(nodes, needs)
        return {
            node: self._machine(node, network, network.address(number), machines, engine)
            for number, node in enumerate(nodes)
        }

    async def _ready(
        self, node: str, making: Callable[[], Coroutine[object, object, None]]
    ) -> None:
        """Wait for the disks and the node's pod, which is made now unless it is under way already."""
        assert self._disks is not None
        if node in WITHOUT_POD:
            return
        if node not in self._pods:
            self._pods[node] = asyncio.create_task(making())
        await asyncio.gather(asyncio.shield(self._pods[node]), asyncio.shield(self._disks))

    def _check_cpp(self, engine: Engine, identity: str) -> None:
        try:
            engine.client.containers.run(
                self._image,
                [PYTHON, "-c", cpp_library.CHECK],
                labels={LABEL: identity},
                network_mode="none",
                remove=True,
            )
        except docker.errors.ContainerError as error:
            said = error.stderr.decode() if isinstance(error.stderr, bytes) else str(error.stderr)
            raise self._without_cpp(said.strip().rpartition("\n")[2]) from error
        except docker.errors.APIError as error:  # it lacks our version of Python
            raise self._without_cpp(str(error.explanation)) from error

    def _without_cpp(self, said: str) -> EnvironmentFailed:
        cure = "`staticfire docker-image` builds one that has it"
        return cpp_library.failure(f"the image {self._image}", said, cure)

    async def _make_pod(
        self,
        node: str,
        address: str,
        network: PodNetwork,
        machines: BreakableMachines,
        engine: Engine,
    ) -> None:
        """Make the container that holds a node's network namespace."""
        identity = machines.inventory.identity

        def make() -> int:
            client = engine.client
            endpoints: Any = {network.name: client.api.create_endpoint_config(ipv4_address=address)}
            pod = client.api.create_container(
                self._image,
                ["sleep", "infinity"],
                name=pod_name(identity, node),
                hostname=node,
                labels={LABEL: identity},
                host_config=client.api.create_host_config(mem_limit="32m", pids_limit=8),
                networking_config=client.api.create_networking_config(endpoints),
                stop_signal="SIGKILL",
            )
            client.api.start(pod["Id"])
            return int(client.api.inspect_container(pod["Id"])["State"]["Pid"])

        try:
            pid = await engine.ask(make)
        except docker.errors.APIError as error:
            reason = error.explanation or error
            raise EnvironmentFailed(f"the container of {node} was not made: {reason}") from error
        inside = ("nsenter", f"--net=/proc/{pid}/ns/net", "--")
        machines.has_network(node, address, Firewall(machines.host.behind(inside)))

    def _machine(
        self,
        node: str,
        network: PodNetwork,
        address: str,
        machines: BreakableMachines,
        engine: Engine,
    ) -> Machine:
        data = Path(machines.data_folder(node))
        volumes = {str(data): {"bind": FOLDER, "mode": "rw"}}
        for path, target in zip(code_folders(), self.code, strict=True):
            volumes[path] = {"bind": target, "mode": "ro"}
        identity = machines.inventory.identity
        options: dict[str, object] = {
            "image": self._image,
            "name": container_name(identity, node),
            "labels": {LABEL: identity},
            **self._network_of(node, network, address, machines, engine),
            "volumes": volumes,
            "stdin_open": True,
            "mem_limit": MEMORY,
            "pids_limit": PIDS,
        }
        clock = machines.clocks.get(node)
        variables = machines.variables(node)
        if clock is not None:
            volumes[clock.library] = {"bind": clock.library, "mode": "ro"}
            volumes[str(Path(clock.file).parent)] = {"bind": CLOCK, "mode": "ro"}
            variables |= clock.environment_for(f"{CLOCK}/{Path(clock.file).name}")
        log = machines.own_folder(node) / "log.jsonl"
        making = partial(self._make_pod, node, address, network, machines, engine)
        ready = partial(self._ready, node, making)
        return DockerMachine(node, address, data, log, engine, options, variables, PYTHON, ready)

    def _network_of(
        self,
        node: str,
        network: PodNetwork,
        address: str,
        machines: BreakableMachines,
        engine: Engine,
    ) -> dict[str, object]:
        """Return the network options of a container. The harness's own clients need no pod: no fault touches them."""
        if node in WITHOUT_POD:
            endpoint: object = engine.client.api.create_endpoint_config(ipv4_address=address)
            return {"network": network.name, "networking_config": {network.name: endpoint}}
        return {"network_mode": f"container:{pod_name(machines.inventory.identity, node)}"}

    async def down(self) -> None:
        """Remove everything that `up` made or began to make. All processes must have ended."""
        await self._proxy.stop()
        machines, self._machines = self._machines, None
        engine, self._engine = self._engine, None
        making = [*self._pods.values(), *([] if self._disks is None else [self._disks])]
        # otherwise they would make more during the removal
        await asyncio.gather(*making, return_exceptions=True)
        if machines is not None and engine is not None:
            await machines.remove_disks_and_filters()
            for resource in self._ours:
                await machines.host.remove(resource)
            await machines.remove_rest()
        if engine is not None:
            engine.close()


def container_name(identity: str, node: str) -> str:
    return f"staticfire-{identity}-{node}"


def pod_name(identity: str, node: str) -> str:
    return f"{container_name(identity, node)}-pod"
