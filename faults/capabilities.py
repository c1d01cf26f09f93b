"""What a fault may ask of the place where the nodes run.

An environment implements these, the simulator all of them. One that lacks a capability says so before the run starts
if a fault of the plan needs it (`Controls.require`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar

from faults.errors import CapabilityMissing

Evidence = dict[str, Any]  # plain data: what was seen of a fault, e.g. {"lost_bytes": 4096}


class ProcessControl(Protocol):
    """Start, stop and freeze the process of a node."""

    def is_alive(self, node: str) -> bool: ...

    async def kill(self, node: str) -> bool:
        """SIGKILL; the page cache survives. Returns whether there was a process to kill."""
        ...

    async def stop(self, node: str) -> bool:
        """SIGTERM, and wait until it has ended. Returns whether it ended by itself."""
        ...

    async def start(self, node: str) -> None:
        """Start the node again with its configuration; nothing happens if it runs."""
        ...

    async def pause(self, node: str) -> bool:
        """SIGSTOP: connections stay open, nothing is answered. Returns whether it ran."""
        ...

    async def resume(self, node: str) -> None: ...


class NetworkControl(Protocol):
    """Drop packets between nodes, one direction at a time."""

    async def drop(self, *, source: str, target: str) -> None: ...

    async def restore(self, *, source: str, target: str) -> None: ...

    async def heal(self) -> None:
        """Restore every pair."""
        ...

    def dropped(self, *, source: str, target: str) -> int:
        """Packets dropped so far from `source` to `target`."""
        ...


class DiskControl(Protocol):
    """Break the disk of a node, or cut its power."""

    async def power_cut(self, nodes: Sequence[str]) -> Evidence:
        """Cut the power of all these nodes in one instant; unsynced data is lost.

        Evidence: `alive` nodes that were running, `lost_bytes` of unsynced data.
        """
        ...

    async def power_cut_at(self, node: str, operation: int) -> None:
        """Cut the power of the node inside its `operation`-th disk operation from now on."""
        ...

    async def power_cut_at_sync(self, node: str, sync: int) -> None:
        """Cut the power of the node inside its `sync`-th fsync from now on."""
        ...

    async def cancel_power_cut(self, node: str) -> None:
        """Forget the cut of the two above, if it has not struck."""
        ...

    async def power_on(self, node: str) -> None:
        """Boot the machine and start its node."""
        ...

    async def fill(self, node: str, free_bytes: int) -> None:
        """Let somebody else's data take the space, all but this much."""
        ...

    async def fail(self, node: str, *, writes: int, fsyncs: int) -> None:
        """Let the next `writes` writes and `fsyncs` fsyncs fail with EIO."""
        ...

    async def slow(self, node: str, factor: float) -> None:
        """Make everything that must reach the disk (fsync) take `factor` times as long."""
        ...

    async def destroy(self, node: str) -> None:
        """The disk is gone for good: every call fails with EIO, nothing on it is ever read again."""
        ...

    async def mend(self, node: str) -> None:
        """End fill, fail, slow and a power cut that has not struck."""
        ...

    def counters(self, node: str) -> dict[str, int]:
        """Running totals: `enospc`, `eio`, `slow_ns` (time that `slow` added), `lost_bytes`, `power_cuts`."""
        ...


class ClockControl(Protocol):
    async def step(self, node: str, milliseconds: int) -> int:
        """Move the wall clock of the node by this much; its monotonic clock does not notice.

        Returns how far the clock, read before and after, has moved.
        """
        ...

    async def reset(self, node: str) -> None:
        """Set the wall clock right again (a step back by what was added)."""
        ...


class ClientControl(Protocol):
    """Let the listeners of consumers misbehave."""

    async def slow_listener(self, node: str, delay_s: float) -> None:
        """Every message takes the listener this long; 0 ends it."""
        ...

    async def failing_listener(self, node: str, share: float) -> None:
        """The listener fails for this share of the deliveries; 0 ends it."""
        ...

    def listener_counters(self, node: str) -> dict[str, int]:
        """Running totals: `delayed`, `failed`."""
        ...


class ClusterControl(Protocol):
    """Change the cluster through its own configuration and administration."""

    async def routes_known(self, name_server: str) -> int:
        """How many topics this name server knows (0 when it does not answer)."""
        ...

    async def answers(self, node: str) -> bool:
        """Ask a broker or name server something harmless; False if it does not answer within 3 s."""
        ...

    async def set_name_servers(self, node: str, name_servers: Sequence[str]) -> bool:
        """Restart the node with this list of name servers; returns whether it was running."""
        ...

    async def set_queue_count(self, topic: str, count: int) -> int:
        """Set read and write queues of the topic on every master; returns how many accepted."""
        ...


Control = TypeVar("Control")


def _given(name: str, control: Control | None) -> Control:
    if control is None:
        raise CapabilityMissing(f"this environment has no {name} control")
    return control


class Controls:
    """The capabilities of one environment. One that it lacks raises CapabilityMissing when it is asked for."""

    def __init__(
        self,
        *,
        process: ProcessControl | None = None,
        network: NetworkControl | None = None,
        disk: DiskControl | None = None,
        clock: ClockControl | None = None,
        client: ClientControl | None = None,
        cluster: ClusterControl | None = None,
    ) -> None:
        self._process = process
        self._network = network
        self._disk = disk
        self._clock = clock
        self._client = client
        self._cluster = cluster

    @property
    def process(self) -> ProcessControl:
        return _given("process", self._process)

    @property
    def network(self) -> NetworkControl:
        return _given("network", self._network)

    @property
    def disk(self) -> DiskControl:
        return _given("disk", self._disk)

    @property
    def clock(self) -> ClockControl:
        return _given("clock", self._clock)

    @property
    def client(self) -> ClientControl:
        return _given("client", self._client)

    @property
    def cluster(self) -> ClusterControl:
        return _given("cluster", self._cluster)

    def require(self, needs: Iterable[str]) -> None:
        """Raises CapabilityMissing for the first of these capabilities that is not there."""
        for name in needs:
            getattr(self, name)
