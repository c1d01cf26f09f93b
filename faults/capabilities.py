"""What a fault may ask of the place where the nodes run.

The simulator and (over an executor) any Linux machine implement these. An environment that lacks one says so before
the run starts, and the faults that need it are not planned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

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

    async def fill(self, node: str, free_bytes: int) -> None: ...

    async def free(self, node: str) -> None: ...

    async def fail(self, node: str, *, writes: int, fsyncs: int) -> None:
        """Let the next `writes` writes and `fsyncs` fsyncs fail with EIO."""
        ...

    async def slow(self, node: str, factor: float) -> None:
        """Make every disk operation take `factor` times as long; 1 ends it."""
        ...

    async def destroy(self, node: str) -> None:
        """The disk is gone for good: every call fails with EIO, nothing on it is ever read again."""
        ...

    async def mend(self, node: str) -> None:
        """End fill, fail and slow."""
        ...

    def counters(self, node: str) -> dict[str, int]:
        """Running totals: `operations`, `enospc`, `eio`, `lost_bytes`, `power_cuts`."""
        ...


class ClockControl(Protocol):
    async def step(self, node: str, milliseconds: int) -> None:
        """Move the wall clock of the node by this much; its monotonic clock does not notice."""
        ...

    async def reset(self, node: str) -> None:
        """Set the wall clock right again (a step back by what was added)."""
        ...


class ClientControl(Protocol):
    """Break the clients of the run."""

    async def crash(self, node: str) -> bool: ...

    async def restart(self, node: str) -> None: ...

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

    async def set_name_servers(self, node: str, name_servers: Sequence[str]) -> None:
        """Restart the node with this list of name servers."""
        ...

    async def set_queue_count(self, topic: str, count: int) -> int:
        """Set read and write queues of the topic on every master; returns how many accepted."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """The capabilities of one environment; None where it lacks one."""

    process: ProcessControl | None = None
    network: NetworkControl | None = None
    disk: DiskControl | None = None
    clock: ClockControl | None = None
    client: ClientControl | None = None
    cluster: ClusterControl | None = None

    def has(self, names: Sequence[str]) -> bool:
        return all(getattr(self, name) is not None for name in names)
