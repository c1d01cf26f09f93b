"""Partitions, delays and bandwidth limits through a proxy, without root, also for machines of other owners."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from staticfire.faults.proxy.core.link_fault_control import LinkFaultControl
from staticfire.faults.proxy.core.link_faults import Direction, LinkFault, LinkFaultKind

Pair = tuple[str, str]
# Needs of faults that no proxy can meet, with the reasons.
PROXY_LACKS: Mapping[str, str] = {
    "network.black_hole": "a proxy accepts connections also to a host that is gone; "
    "--environment namespaces can drop packets",
    "network.lose": "a proxy sees streams and no packets; --environment namespaces can lose them "
    "where the kernel has netem",
}


class ProxyNetwork:
    """Implements `staticfire.faults.model.capabilities.NetworkControl` over a proxy, except for PROXY_LACKS.

    Each node, client or broker, uses the frontend with its own name. Data from one node to another travels up the links
    that the first one opened, and down those that the second one opened. A drop holds data back instead of losing it,
    as TCP would retransmit it after the partition. Unlike a firewall, the proxy accepts new connections during a
    partition, but nothing passes them. A limit applies to each link separately, not to the node.

    Args:
        proxy: breaks the links.
        addresses: all real addresses of each node that listens: a broker's own, and the one for replication.
    """

    def __init__(self, proxy: LinkFaultControl, addresses: Mapping[str, Sequence[str]]) -> None:
        self._proxy = proxy
        self._addresses = addresses
        self._now: dict[Pair, tuple[LinkFault, ...]] = {}
        self._before: dict[Pair, int] = {}
        self._delays: dict[str, tuple[LinkFault, ...]] = {}
        self._limits: dict[str, tuple[LinkFault, ...]] = {}
        self._counted: Counter[tuple[str, str]] = Counter()  # of ended faults, by node and counter

    async def drop(self, *, source: str, target: str) -> None:
        """Hold back everything from source to target; does nothing if that is so already."""
        if (source, target) not in self._now:
            ways = (
                *((source, server, Direction.UP) for server in self._addresses.get(target, ())),
                *((target, server, Direction.DOWN) for server in self._addresses.get(source, ())),
            )
            self._now[source, target] = tuple(
                self._proxy.inject(
                    LinkFaultKind.FREEZE, client=client, server=server, direction=direction
                )
                for client, server, direction in ways
            )

    async def restore(self, *, source: str, target: str) -> None:
        """End the drop: everything that was held back arrives."""
        for fault in self._now.pop((source, target), ()):
            self._proxy.heal(fault)
            held = self._before.get((source, target), 0)
            self._before[source, target] = held + fault.pieces

    async def heal(self) -> None:
        """Restore every pair, and end delays and limits. Faults that other callers injected stay."""
        for source, target in tuple(self._now):
            await self.restore(source=source, target=target)
        for node in tuple(self._delays):
            await self.delay(node, 0)
        for node in tuple(self._limits):
            await self.limit(node, 0)

    async def dropped(self, *, source: str, target: str) -> int:
        """Return the number of frames, or chunks of other streams, that could not pass so far."""
        now = sum(fault.pieces for fault in self._now.get((source, target), ()))
        return self._before.get((source, target), 0) + now

    async def delay(self, node: str, milliseconds: float) -> None:
        """Delay everything that the node sends; 0 ends it."""
        self._count(node, "delayed", self._delays.pop(node, ()))
        if milliseconds:
            self._delays[node] = self._inject_sent_by(
                node, LinkFaultKind.DELAY, delay_ms=milliseconds
            )

    async def limit(self, node: str, bits_per_s: int) -> None:
        """Limit each link of the node, for data that the node sends; 0 ends it."""
        self._count(node, "limited", self._limits.pop(node, ()))
        if bits_per_s:
            self._limits[node] = self._inject_sent_by(
                node, LinkFaultKind.LIMIT, bytes_per_s=max(1, bits_per_s // 8)
            )

    def _inject_sent_by(self, node: str, kind: LinkFaultKind, **how: Any) -> tuple[LinkFault, ...]:
        """Break what a node sends: up the links that it opened, and down those that others opened to it."""
        inject = self._proxy.inject
        down = Direction.DOWN
        return (
            inject(kind, client=node, direction=Direction.UP, **how),
            *(
                inject(kind, server=server, direction=down, **how)
                for server in self._addresses.get(node, ())
            ),
        )

    def _count(self, node: str, counter: str, faults: Sequence[LinkFault]) -> None:
        """End these faults, and keep their counts."""
        for fault in faults:
            self._proxy.heal(fault)
            self._counted[node, counter] += fault.pieces

    async def traffic_counters(self, node: str) -> dict[str, int]:
        """Return the counters in frames, or chunks of other streams."""
        now = {"delayed": self._delays.get(node, ()), "limited": self._limits.get(node, ())}
        found = {
            counter: self._counted[node, counter] + sum(fault.pieces for fault in faults)
            for counter, faults in now.items()
        }
        return {**found, "lost": 0}

    async def lose(self, node: str, percent: float) -> None:
        raise NotImplementedError(f"{node}: {PROXY_LACKS['network.lose']}")

    async def black_hole(self, node: str) -> None:
        raise NotImplementedError(f"{node}: {PROXY_LACKS['network.black_hole']}")

    async def end_black_hole(self, node: str) -> None:
        """Do nothing: a proxy makes no black holes."""

    async def swallowed(self, node: str) -> int:
        return 0
