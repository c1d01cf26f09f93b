"""The capabilities of `staticfire.faults.model.capabilities` for simulated nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from staticfire.faults.model.capabilities import ClusterControl, Controls, Evidence, ProcessControl
from staticfire.harness.environments.simulated.environment import SimulationEnvironment
from staticfire.harness.recording.stored_logs import StoredLogs
from staticfire.harness.simulation.hosts.process import SimProcess
from staticfire.harness.simulation.network.link import Link

NS_PER_S = 1_000_000_000
HELD_CALLS_CHECK_S = 0.1  # how often a heal sees whether the process has ended
FILL_STEPS = 50  # of a slow fill


class SimulatedProcesses:
    def __init__(self, environment: SimulationEnvironment) -> None:
        self._environment = environment
        self._nodes = environment.nodes

    def is_alive(self, node: str) -> bool:
        return self._nodes[node].is_alive

    async def kill(self, node: str) -> bool:
        process = self._give_up(node)
        if process is None:
            return False
        process.kill()
        return True

    async def stop(self, node: str) -> bool:
        process = self._give_up(node)
        if process is None:
            return False
        process.terminate()
        await process.exit
        return True

    def _give_up(self, node: str) -> SimProcess | None:
        """Mark the node as not to be restarted; return its process if one runs."""
        self._nodes[node].wanted = False
        return self._nodes[node].running

    async def start(self, node: str) -> None:
        self._environment.start_now(node)

    async def pause(self, node: str) -> bool:
        process = self._nodes[node].running
        if process is None:
            return False
        process.pause()
        return True

    async def resume(self, node: str) -> None:
        process = self._nodes[node].running
        if process is not None:
            process.resume()


class SimulatedNetwork:
    """Breaks links. Two faults may drop the same pair, which comes back when both have ended."""

    def __init__(self, environment: SimulationEnvironment) -> None:
        self._network = environment.world.network
        self._grudges: dict[tuple[str, str], int] = {}

    async def drop(self, *, source: str, target: str) -> None:
        pair = (source, target)
        self._grudges[pair] = self._grudges.get(pair, 0) + 1
        self._network.drop(source, target)

    async def restore(self, *, source: str, target: str) -> None:
        pair = (source, target)
        left = self._grudges.get(pair, 0) - 1
        self._grudges[pair] = max(left, 0)
        if left <= 0:
            self._network.heal_drop(source, target)

    async def heal(self) -> None:
        self._grudges.clear()
        self._network.heal()

    async def dropped(self, *, source: str, target: str) -> int:
        return self._network.dropped(source, target)

    async def black_hole(self, node: str) -> None:
        for link in self._links_of(node):
            await self.drop(source=link.source, target=link.target)

    async def end_black_hole(self, node: str) -> None:
        for link in self._links_of(node):
            await self.restore(source=link.source, target=link.target)

    async def swallowed(self, node: str) -> int:
        return sum(link.dropped for link in self._links_of(node))

    def _links_of(self, node: str) -> list[Link]:
        return [*self._network.links_from(node), *self._network.links_to(node)]

    async def delay(self, node: str, milliseconds: float) -> None:
        for link in self._network.links_from(node):
            self._network.delay(node, link.target, milliseconds)

    async def lose(self, node: str, percent: float) -> None:
        for link in self._network.links_from(node):
            self._network.lose(node, link.target, percent / 100)

    async def limit(self, node: str, bits_per_s: int) -> None:
        self._network.limit(node, bits_per_s)

    async def traffic_counters(self, node: str) -> dict[str, int]:
        links = self._network.links_from(node)
        return {
            "delayed": sum(link.delayed for link in links),
            "lost": sum(link.lost for link in links),
            "limited": self._network.limited(node),
        }


class SimulatedDisks:
    def __init__(self, environment: SimulationEnvironment, stored_logs: StoredLogs | None) -> None:
        self._environment = environment
        self._nodes = environment.nodes
        self._stored_logs = stored_logs

    async def power_cut(self, nodes: Sequence[str]) -> Evidence:
        alive = [node for node in nodes if self._nodes[node].is_alive]
        lost = 0
        for node in nodes:
            if self._nodes[node].host.powered:
                lost += self._nodes[node].host.power_cut().bytes_lost
        return {"alive": alive, "lost_bytes": lost}

    async def power_cut_at(self, node: str, operation: int) -> None:
        self._nodes[node].host.disk.cut_at(operation)

    async def power_cut_at_sync(self, node: str, sync: int) -> None:
        self._nodes[node].host.disk.cut_at_sync(sync)

    async def cancel_power_cut(self, node: str) -> None:
        self._nodes[node].host.disk.cancel_cut()

    async def power_failed_ns(self, node: str) -> int | None:
        return self._nodes[node].host.power_failed_ns

    async def power_on(self, node: str) -> None:
        host = self._nodes[node].host
        if self._nodes[node].lost:
            return
        if not host.powered:
            host.power_on()
        self._environment.start_now(node)

    async def fill(self, node: str, free_bytes: int, over_s: float) -> None:
        disk = self._nodes[node].host.disk
        surplus = max(disk.free_bytes - free_bytes, 0)
        for step in range(1, FILL_STEPS if over_s else 1):
            disk.fill(free_bytes + surplus * (FILL_STEPS - step) // FILL_STEPS)
            await asyncio.sleep(over_s / FILL_STEPS)
        disk.fill(free_bytes)

    async def fail(self, node: str, *, writes: int, fsyncs: int) -> None:
        disk = self._nodes[node].host.disk
        disk.fail_write(writes)
        disk.fail_fsync(fsyncs)

    async def slow(self, node: str, factor: float) -> None:
        self._nodes[node].host.disk.slow(factor)

    async def rot(self, node: str, share: float) -> Evidence:
        stored_logs = self._stored_logs
        if stored_logs is None:
            return {"bitten": False}
        disk = self._nodes[node].host.disk
        logs = {
            path: data
            for path, data in disk.snapshot().items()
            if stored_logs.begin_of(path) is not None
        }
        durable = [
            (path, record)
            for path in sorted(logs)
            for record in stored_logs.bodies(logs[path])
            if record.body_start < record.body_end
            and disk.is_durable(path, record.start, record.body_end - record.start)
        ]
        if not durable:
            return {"bitten": False}
        path, record = durable[int(share * len(durable))]
        disk.flip_bit(path, within=(record.body_start, record.body_end))
        is_sound = record.is_sound(disk.read_cached(path, record.start, record.end - record.start))
        whole = logs[path][record.start : record.end]
        return {"bitten": not is_sound, "path": path, "records": [record.facts(whole)]}

    async def wipe(self, node: str) -> int:
        return self._nodes[node].host.disk.wipe()

    async def destroy(self, node: str) -> None:
        victim = self._nodes[node]
        victim.lost = True
        victim.wanted = False
        if victim.host.powered:
            victim.host.power_cut()
        victim.host.disk.destroy()

    async def heal(self, node: str) -> None:
        """End the faults of the disk; return once no call is left that the slow disk delayed and that cannot be
        released.

        A real disk serves waiting calls at once when it is fast again. Here the end of a call of the loop's own thread,
        or of a job that also writes, is fixed when it begins.
        """
        disk = self._nodes[node].host.disk
        until_ns = disk.calls.out_of_reach_until_ns() if disk.is_slow else 0
        disk.heal()
        while (left_ns := until_ns - self._environment.now_ns()) > 0:
            if disk.calls.out_of_reach_until_ns() < until_ns:
                return  # the process has ended, and so have its calls
            await asyncio.sleep(min(left_ns / NS_PER_S, HELD_CALLS_CHECK_S))

    async def counters(self, node: str) -> dict[str, int]:
        counters = self._nodes[node].host.disk.counters
        return {
            # A broker that notices the full disk refuses sends, and may never get ENOSPC.
            "enospc": counters.no_space_errors + counters.full_looks,
            "eio": counters.write_errors + counters.sync_errors,
            "slow_ns": counters.slow_ns,
            "lost_bytes": counters.bytes_lost,
            "power_cuts": counters.power_cuts,
        }


class SimulatedClocks:
    def __init__(self, environment: SimulationEnvironment) -> None:
        self._nodes = environment.nodes
        self._added_ms: dict[str, int] = {}

    async def step(self, node: str, milliseconds: int) -> int:
        clock = self._nodes[node].host.clock
        before_ms = clock.wall_ms()
        self._added_ms[node] = self._added_ms.get(node, 0) + milliseconds
        clock.step(milliseconds)
        return clock.wall_ms() - before_ms

    async def reset(self, node: str) -> None:
        self._nodes[node].host.clock.step(-self._added_ms.pop(node, 0))


class SimulatedClients:
    def __init__(self, environment: SimulationEnvironment) -> None:
        self._nodes = environment.nodes

    async def slow_listener(self, node: str, delay_s: float) -> None:
        self._nodes[node].listener.delay_s = delay_s

    async def failing_listener(self, node: str, share: float) -> None:
        self._nodes[node].listener.failing_share = share

    async def listener_counters(self, node: str) -> dict[str, int]:
        listener = self._nodes[node].listener
        return {"delayed": listener.delayed, "failed": listener.failed}


def simulated_controls(
    environment: SimulationEnvironment,
    cluster: Callable[[ProcessControl], ClusterControl | None],
    stored_logs: StoredLogs | None,
) -> Controls:
    """Return the controls of simulated nodes.

    Args:
        cluster: makes the control through which faults reach the administration of the system.
        stored_logs: finds the stored records for bit rot; None: there is no bit rot.
    """
    processes = SimulatedProcesses(environment)
    return Controls(
        process=processes,
        network=SimulatedNetwork(environment),
        disk=SimulatedDisks(environment, stored_logs),
        clock=SimulatedClocks(environment),
        client=SimulatedClients(environment),
        cluster=cluster(processes),
    )
