"""Capabilities: what a fault may ask of the environment in which the nodes run.

An environment implements these, the simulator all of them. What a fault needs is a capability (`process`), one thing
that a capability does (`disk.fill`), or to whom it does it (`process.server`); an environment that lacks it says so,
and why, before the run starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from staticfire.faults.errors import CapabilityMissing

OWN_BROKERS = "only our own brokers go on with the queue offsets of a topic that is made again"
OWN_NEED = "cluster.own_brokers"
# The fault changes servers for all their clients, not only the topics and groups of the run.
SERVERS_NEED = "cluster.servers"
Control = TypeVar("Control")
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
    """Drop packets between nodes, one direction at a time; and the network of a node as a whole."""

    async def drop(self, *, source: str, target: str) -> None: ...

    async def restore(self, *, source: str, target: str) -> None: ...

    async def heal(self) -> None:
        """Restore every pair, and end whatever else this control has done."""
        ...

    async def dropped(self, *, source: str, target: str) -> int:
        """Packets dropped so far from `source` to `target`."""
        ...

    async def black_hole(self, node: str) -> None:
        """The host is gone: nothing gets in or out, and no peer is notified (no RST, no FIN)."""
        ...

    async def end_black_hole(self, node: str) -> None: ...

    async def swallowed(self, node: str) -> int:
        """Packets to and from the node that black holes have swallowed so far."""
        ...

    async def delay(self, node: str, milliseconds: float) -> None:
        """Each packet that the node sends arrives this much later; 0 ends it."""
        ...

    async def lose(self, node: str, percent: float) -> None:
        """This share of the packets that the node sends never arrives; 0 ends it."""
        ...

    async def limit(self, node: str, bits_per_s: int) -> None:
        """No more than this gets out of the node; 0 ends it."""
        ...

    async def traffic_counters(self, node: str) -> dict[str, int]:
        """Running totals of packets: `delayed`, `lost`, `limited` (had to wait for bandwidth)."""
        ...


class DiskControl(Protocol):
    """Break the disk of a node, or cut its power."""

    async def power_cut(self, nodes: Sequence[str]) -> Evidence:
        """Cut the power of all these nodes in one instant; unsynced data is lost.

        Evidence: `alive` nodes that were running. How much was lost (`counters`) a real disk shows only after power_on.
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

    async def power_failed_ns(self, node: str) -> int | None:
        """When the power of the node last failed, by the clock of the run; None if that is not known."""
        ...

    async def power_on(self, node: str) -> None:
        """Boot the machine and start its node."""
        ...

    async def fill(self, node: str, free_bytes: int, over_s: float) -> None:
        """Let foreign data take the space, all but this much, within this time; returns when it is taken."""
        ...

    async def fail(self, node: str, *, writes: int, fsyncs: int) -> None:
        """Let the next `writes` writes and `fsyncs` fsyncs fail with EIO."""
        ...

    async def slow(self, node: str, factor: float) -> None:
        """Make everything that must reach the disk (fsync) take `factor` times as long."""
        ...

    async def rot(self, node: str, share: float) -> Evidence:
        """Change a bit in the body of a stored record of the node, this share into its log.

        Evidence: `bitten`, whether a reader finds a wrong checksum now; `path` and `position` of the record.
        """
        ...

    async def wipe(self, node: str) -> int:
        """Remove everything from the disk of a node that does not run, durably; returns how many bytes that was."""
        ...

    async def destroy(self, node: str) -> None:
        """The disk is gone for good: every call fails with EIO, nothing on it is ever read again."""
        ...

    async def heal(self, node: str) -> None:
        """End fill, fail, slow and a power cut that has not struck."""
        ...

    async def counters(self, node: str) -> dict[str, int]:
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

    async def listener_counters(self, node: str) -> dict[str, int]:
        """Running totals: `delayed`, `failed`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCountAnswers:
    """What leaders answered to a new number of queues."""

    # Of each leader that accepted: the fields of a `QueuesConfirmed` of the checkers' facts.
    confirmed: tuple[Evidence, ...]
    unheard: tuple[str, ...]  # nodes of leaders that did not answer; they may have carried it out


class ClusterControl(Protocol):
    """Change the cluster through its own configuration and administration."""

    async def routes_known(self, coordinator: str) -> int:
        """How many topics this coordinator knows (0 when it does not answer)."""
        ...

    async def answers(self, node: str) -> bool:
        """Ask a server something harmless; False if it does not answer within 3 s."""
        ...

    async def set_bootstrap(self, node: str, bootstrap: Sequence[str]) -> bool:
        """Restart the node with these coordinators; returns whether it was running."""
        ...

    async def change_filter(self, consumer: str) -> bool:
        """Restart a consumer, which asks for other messages from then on; returns whether it was running."""
        ...

    async def set_queue_count(
        self, topic: str, count: int, leaders: Sequence[str] | None = None
    ) -> QueueCountAnswers:
        """Set read and write queues of the topic on these leaders (None: on all), never to fewer."""
        ...

    async def reset_offsets(self, topic: str, share: float) -> list[Evidence]:
        """Send every group that shares the topic back to the time of a message; 0: to the beginning of all logs.

        `share`, 0 to 1, is the message's place in the first log of each leader.
        Returns the answers of leaders that notified members: the fields of an `OffsetsReset` of the checkers' facts.
        """
        ...

    async def change_option(self, name: str, value: str) -> dict[str, str]:
        """Change an option of every broker; the former values, by node, of those that say that they have it now."""
        ...

    async def change_option_back(self, name: str, former: Mapping[str, str]) -> int:
        """Give each of these nodes its former value again; returns how many accepted."""
        ...

    async def set_retry_queues(self, count: int) -> int:
        """Give every group of the load so many retry queues; returns how many leaders accepted all of them."""
        ...

    async def withdraw_right(self) -> list[str]:
        """Take from one account its right to send; the leaders that accepted."""
        ...

    async def give_right_back(self) -> int:
        """Give it its right back; how many leaders accepted."""
        ...

    async def clean_up(self) -> int:
        """Have every broker clean unused topics and expired queue files; returns how many accepted both."""
        ...

    async def make_topic_anew(self, number: int) -> Evidence:
        """Use a topic beside the load and a group, delete both, make them again and send more.

        Evidence: `topic`, `group`, `former` (messages that were deleted), `brokers` (names), `bitten`.
        """
        ...

    async def clone_offsets(self, number: int) -> Evidence:
        """Use a topic beside the load and a group, and let another group go on where it stands.

        Evidence: `topic`, `groups`, `brokers` (names), `cloned` (queues that were consumed before), `bitten`.
        """
        ...

    async def go_on_beside(self, number: int) -> None:
        """Read the topic of that number, and send more to it."""
        ...


class Controls:
    """The capabilities of one environment, and what else it lacks: a need (`disk.power_cut_at`) and the reason."""

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
        """Whether this need is met."""
        try:
            self.require((need,))
        except CapabilityMissing:
            return False
        return True

    def require(self, needs: Iterable[str]) -> None:
        """Raises CapabilityMissing, with the reason, for the first of these needs that is not met."""
        for need in needs:
            getattr(self, need.partition(".")[0])
            if need in self._lacks:
                raise CapabilityMissing(self._lacks[need])
