"""Capabilities of faults for real nodes. The machine provider adds those that need the kernel."""

from __future__ import annotations

import signal
from collections.abc import Callable

from staticfire.faults.model.capabilities import ClusterControl, Controls, ProcessControl
from staticfire.harness.environments.real.environment import RealEnvironment
from staticfire.harness.environments.real.machine_provider import MachineProvider


class RealProcesses:
    """Controls processes by signals. After SIGSTOP the kernel keeps the node's connections open, without answers."""

    def __init__(self, environment: RealEnvironment) -> None:
        self._environment = environment

    def is_alive(self, node: str) -> bool:
        return self._environment.nodes[node].running is not None

    async def kill(self, node: str) -> bool:
        return await self._environment.kill(node)

    async def stop(self, node: str) -> bool:
        await self.resume(node)  # a stopped process would not handle SIGTERM
        return await self._environment.kill(node, signal.SIGTERM)

    async def start(self, node: str) -> None:
        await self._environment.start(node)

    async def pause(self, node: str) -> bool:
        return await self._environment.pause(node)

    async def resume(self, node: str) -> None:
        await self._environment.resume(node)


class RealClients:
    """Controls clients by requests to their processes."""

    def __init__(self, environment: RealEnvironment) -> None:
        self._environment = environment

    async def slow_listener(self, node: str, delay_s: float) -> None:
        await self._set(node, "slow_listener", "delay_s", delay_s)

    async def failing_listener(self, node: str, share: float) -> None:
        await self._set(node, "failing_listener", "failing_share", share)

    async def _set(self, node: str, f: str, strength: str, value: float) -> None:
        """Set the behaviour of the client's present process and of later ones."""
        self._environment.nodes[node].listener[strength] = value
        parameter = "share" if f == "failing_listener" else strength
        await self._environment.request(node, {"f": f, parameter: value})

    async def listener_counters(self, node: str) -> dict[str, int]:
        """Return the counters of the node's present process; zeros while it has none."""
        outcome = await self._environment.request(node, {"f": "listener_counters"})
        return {name: int(outcome.value.get(name, 0)) for name in ("delayed", "failed")}


def real_controls(
    environment: RealEnvironment,
    provider: MachineProvider,
    cluster: Callable[[ProcessControl], ClusterControl | None],
) -> Controls:
    """Return the controls of an environment whose machines are up.

    `cluster` makes the control through which faults reach the administration of the system.
    """
    processes = RealProcesses(environment)
    machines = provider.controls(environment)
    return Controls(
        process=processes,
        client=RealClients(environment),
        cluster=cluster(processes),
        network=machines.network,
        disk=machines.disk,
        clock=machines.clock,
        lacks=provider.lacks,
    )
