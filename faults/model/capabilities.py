"""Capabilities: what a fault may ask of the environment in which the nodes run.

An environment implements these interfaces; the simulation implements all of them. A need of a fault is a capability
(`process`), one method of it (`disk.fill`), or a kind of target (`process.server`). Before the run starts, an
environment names the needs that it cannot meet, with the reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from staticfire.faults.errors import CapabilityMissing

OWN_BROKERS = "only our own brokers go on with the queue offsets of a topic that is made again"
OWN_NEED = "cluster.own_brokers"
# Need of faults that change servers for all of their clients, not only topics and groups of the run.
SERVERS_NEED = "cluster.servers"
Control = TypeVar("Control")
Evidence = dict[str, Any]  # observed effects of a fault, as plain data: {"lost_bytes": 4096}


class ProcessControl(Protocol):
    """Starts, stops and freezes the process of a node."""

    def is_alive(self, node: str) -> bool: ...

    async def kill(self, node: str) -> bool:
        """Send SIGKILL; the page cache survives. Return whether there was a process."""
        ...

    async def stop(self, node: str) -> bool:
        """Send SIGTERM and wait for the end; return whether the process ended by itself."""
        ...

    async def start(self, node: str) -> None:
        """Start the node with its present configuration; does nothing if it runs."""
        ...

    async def pause(self, node: str) -> bool:
        """Send SIGSTOP: connections stay open, without answers. Return whether the process ran."""
        ...

    async def resume(self, node: str) -> None: ...


class NetworkControl(Protocol):
    """Drops packets between nodes, in one direction, and impairs the network of a node."""

    async def drop(self, *, source: str, target: str) -> None: ...

    async def restore(self, *, source: str, target: str) -> None: ...

    async def heal(self) -> None:
        """Restore every pair, and end everything else that this control has done."""
        ...

    async def dropped(self, *, source: str, target: str) -> int:
        """Return the number of packets from `source` to `target` dropped so far."""
        ...

    async def black_hole(self, node: str) -> None:
        """Cut the host off: drop all packets in and out. Peers get no RST and no FIN."""
        ...

    async def end_black_hole(self, node: str) -> None: ...

    async def swallowed(self, node: str) -> int:
        """Return the number of packets to and from the node that black holes have dropped so far."""
        ...

    async def delay(self, node: str, milliseconds: float) -> None:
        """Delay each packet that the node sends; 0 ends the delay."""
        ...

    async def lose(self, node: str, percent: float) -> None:
        """Lose this percentage of the packets that the node sends; 0 ends the loss."""
        ...

    async def limit(self, node: str, bits_per_s: int) -> None:
        """Limit the rate at which the node sends; 0 ends the limit."""
        ...

    async def traffic_counters(self, node: str) -> dict[str, int]:
        """Return running totals, in packets: `delayed`, `lost`, `limited` (had to wait for bandwidth)."""
        ...


class DiskControl(Protocol):
    """Breaks the disk of a node, or cuts its power."""

    async def power_cut(self, nodes: Sequence[str]) -> Evidence:
        """Cut the power of all these nodes at once; unsynced data is lost.

        Evidence: `alive`, the nodes that were running. A real disk shows how much was lost (`counters`) only after
        power_on.
        """
        ...

    async def power_cut_at(self, node: str, operation: int) -> None:
        """Cut the power of the node inside its `operation`-th disk operation from now (1 is the next one)."""
        ...

    async def power_cut_at_sync(self, node: str, sync: int) -> None:
        """Cut the power of the node inside its `sync`-th fsync from now (1 is the next one)."""
        ...

    async def cancel_power_cut(self, node: str) -> None:
        """Cancel a cut of `power_cut_at` or `power_cut_at_sync` that has not struck."""
        ...

    async def power_failed_ns(self, node: str) -> int | None:
        """Return when the power of the node last failed, in ns of the run's clock; None if that is not known."""
        ...

    async def power_on(self, node: str) -> None:
        """Boot the machine, and start its node."""
        ...

    async def fill(self, node: str, free_bytes: int, over_s: float) -> None:
        """Fill the disk with other data within `over_s` seconds, except for `free_bytes`; return once it is full."""
        ...

    async def fail(self, node: str, *, writes: int, fsyncs: int) -> None:
        """Make the next `writes` writes and `fsyncs` fsyncs fail with EIO. Real disks fail every fsync until healed."""
        ...

    async def slow(self, node: str, factor: float) -> None:
        """Make every call that must reach the disk (fsync) take `factor` times as long."""
        ...

    async def rot(self, node: str, share: float) -> Evidence:
        """Change a bit in the body of the stored record at `share` (0 to 1) of the node's records.

        Evidence: `bitten`, whether the record no longer matches its checksum; if there was a record, its file `path`
        and `records`, with one `RottenRecord` of the checkers' facts.
        """
        ...

    async def wipe(self, node: str) -> int:
        """Remove everything from the disk of a node that does not run, durably; return its size in bytes."""
        ...

    async def destroy(self, node: str) -> None:
        """Destroy the disk for good: every call fails with EIO, and its data is never read again."""
        ...

    async def heal(self, node: str) -> None:
        """End fill, fail, slow, and a power cut that has not struck."""
        ...

    async def counters(self, node: str) -> dict[str, int]:
        """Return running totals: `enospc`, `eio`, `slow_ns` (time that `slow` added), `lost_bytes`, `power_cuts`."""
        ...


class ClockControl(Protocol):
    async def step(self, node: str, milliseconds: int) -> int:
        """Step the wall clock of the node; its monotonic clock is not affected.

        Returns how many milliseconds the clock has moved, read before and after.
        """
        ...

    async def reset(self, node: str) -> None:
        """Set the wall clock right again, by a step back."""
        ...


class ClientControl(Protocol):
    """Makes the listeners of consumers misbehave."""

    async def slow_listener(self, node: str, delay_s: float) -> None:
        """Make each call of the listener take `delay_s` longer; 0 ends that."""
        ...

    async def failing_listener(self, node: str, share: float) -> None:
        """Make the listener fail for this share (0 to 1) of the deliveries; 0 ends that."""
        ...

    async def listener_counters(self, node: str) -> dict[str, int]:
        """Return running totals: `delayed`, `failed`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCountAnswers:
    """The answers of leaders to a new number of queues."""

    # For each leader that accepted, the fields of `QueuesConfirmed` of the checkers' facts.
    confirmed: tuple[Evidence, ...]
    unheard: tuple[str, ...]  # leaders that did not answer, and may have carried the request out


class ClusterControl(Protocol):
    """Changes the cluster through its own configuration and administration."""

    async def routes_known(self, coordinator: str) -> int:
        """Return how many topics the coordinator knows; 0 if it does not answer."""
        ...

    async def answers(self, node: str) -> bool:
        """Send a server a harmless request; return whether it answers within 3 s."""
        ...

    async def set_bootstrap(self, node: str, bootstrap: Sequence[str]) -> bool:
        """Restart the node with these coordinators; return whether it was running."""
        ...

    async def change_filter(self, consumer: str) -> bool:
        """Restart a consumer with another filter; return whether it was running."""
        ...

    async def set_queue_count(
        self, topic: str, count: int, leaders: Sequence[str] | None = None
    ) -> QueueCountAnswers:
        """Set the topic's numbers of read and write queues on these leaders (None: on all), but never to fewer."""
        ...

    async def reset_offsets(self, topic: str, share: float) -> list[Evidence]:
        """Reset the offsets of every group whose members share the topic's queues.

        `share` (0 to 1) selects a message of the first log of each leader, to whose time the offsets go back; 0 is the
        beginning of all logs. Returns, for each leader that notified members, the fields of `OffsetsReset` of the
        checkers' facts.
        """
        ...

    async def change_option(self, name: str, value: str) -> dict[str, str]:
        """Change an option of every broker. Return, for brokers that report the new value, the former one by node."""
        ...

    async def change_option_back(self, name: str, former: Mapping[str, str]) -> int:
        """Restore the former value on each of these nodes; return how many accepted."""
        ...

    async def set_retry_queues(self, count: int) -> int:
        """Give every group of the load this many retry queues; return how many leaders accepted all changes."""
        ...

    async def withdraw_right(self) -> tuple[list[str], int]:
        """Withdraw one account's right to send.

        Returns the leaders that accepted, and the number of requests that none of them answered: each may still be
        carried out later.
        """
        ...

    async def give_right_back(self) -> int:
        """Give the right back; return how many leaders accepted."""
        ...

    async def clean_up(self) -> int:
        """Make every broker clean unused topics and expired queue files; return how many accepted both."""
        ...

    async def make_topic_anew(self, number: int) -> Evidence:
        """Use a side topic and a group, delete both, make them again, and send more messages.

        `number` is part of their names. Evidence: `topic`, `group`, `former` (number of deleted messages), `brokers`
        (names), `bitten`.
        """
        ...

    async def clone_offsets(self, number: int) -> Evidence:
        """Use a side topic and a group, and clone the group's offsets to another group.

        `number` is part of their names. Evidence: `topic`, `groups`, `brokers` (names), `cloned` (queues with consumed
        messages), `bitten`.
        """
        ...

    async def go_on_beside(self, number: int) -> None:
        """Read the side topic of that number, and send more messages to it."""
        ...


class Controls:
    """The capabilities of one environment. `lacks` has further needs that it cannot meet, with the reasons."""

    def __init__(
        self,
        *,
        process: ProcessControl | None = None,
        network: NetworkControl | None = None,
        disk: DiskControl | None = None,
        clock: ClockControl | None = None,
        client: ClientControl | None = None,
        cluster: ClusterControl | None = None,
        lacks: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._process = process
        self._network = network
        self._disk = disk
        self._clock = clock
        self._client = client
        self._cluster = cluster
        self._lacks = lacks

    @property
    def process(self) -> ProcessControl:
        return self._given("process", self._process)

    @property
    def network(self) -> NetworkControl:
        return self._given("network", self._network)

    @property
    def disk(self) -> DiskControl:
        return self._given("disk", self._disk)

    @property
    def clock(self) -> ClockControl:
        return self._given("clock", self._clock)

    @property
    def client(self) -> ClientControl:
        return self._given("client", self._client)

    @property
    def cluster(self) -> ClusterControl:
        return self._given("cluster", self._cluster)

    def _given(self, name: str, control: Control | None) -> Control:
        if control is None:
            reason = self._lacks.get(name, f"this environment has no {name} control")
            raise CapabilityMissing(reason)
        return control

    def has(self, need: str) -> bool:
        """Whether the environment meets this need."""
        try:
            self.require((need,))
        except CapabilityMissing:
            return False
        return True

    def require(self, needs: Iterable[str]) -> None:
        """Raise CapabilityMissing, with the reason, for the first need that the environment does not meet."""
        for need in needs:
            getattr(self, need.partition(".")[0])
            if need in self._lacks:
                raise CapabilityMissing(self._lacks[need])
