"""Partitions, delays and narrow links through a proxy, without root and on machines of other owners."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from staticfire.faults.proxy.core.link_fault_control import LinkFaultControl
from staticfire.faults.proxy.core.link_faults import Direction, LinkFault, LinkFaultKind

Pair = tuple[str, str]
# What no proxy can do to packets, by need of a fault.
PROXY_LACKS: Mapping[str, str] = {
    "network.black_hole": "a proxy accepts connections also to a host that is gone; "
    "--environment namespaces can drop packets",
    "network.lose": "a proxy sees streams and no packets; --environment namespaces can lose them "
    "where the kernel has netem",
}


class ProxyNetwork:
    """Implements faults.capabilities.NetworkControl over the links of a proxy, but for what PROXY_LACKS names.

    Each node, client or broker, uses the frontend with its own name. What is sent from one node to another travels up
    the links that the one has opened and down those that the other has. It is held back and not lost: TCP repeats it
    after a partition. Unlike behind a firewall, new connections are accepted, and nothing passes them. A limit is one
    of each link, not of the node.

    Args:
        addresses: of each node that listens, all its real ones: a broker's own and that for replication.
    """

    def __init__(self, proxy: LinkFaultControl, addresses: Mapping[str, Sequence[str]]) -> None:
        self._proxy = proxy
        self._addresses = addresses
        self._now: dict[Pair, tuple[LinkFault, ...]] = {}
        self._before: dict[Pair, int] = {}
        self._delays: dict[str, tuple[LinkFault, ...]] = {}
        self._limits: dict[str, tuple[LinkFault, ...]] = {}
        self._counted: Counter[tuple[str, str]] = Counter()  # by node and counter

    async def drop(self, *, source: str, target: str) -> None:
        """Nothing gets from the one to the other; nothing happens if that is so already."""
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
        """What was held back arrives."""
        for fault in self._now.pop((source, target), ()):
            self._proxy.heal(fault)
            held = self._before.get((source, target), 0)
            self._before[source, target] = held + fault.pieces

    async def heal(self) -> None:
        """Restore every pair, end delays and limits; faults that other callers have ordered stay."""
        for source, target in tuple(self._now):
            await self.restore(source=source, target=target)
        for node in tuple(self._delays):
            await self.delay(node, 0)
        for node in tuple(self._limits):
            await self.limit(node, 0)

    async def dropped(self, *, source: str, target: str) -> int:
        """Frames, or pieces of a stream without any, that could not pass so far."""
        now = sum(fault.pieces for fault in self._now.get((source, target), ()))
        return self._before.get((source, target), 0) + now

    async def delay(self, node: str, milliseconds: float) -> None:
        """What the node sends arrives later; 0 ends it."""
        self._count(node, "delayed", self._delays.pop(node, ()))
        if milliseconds:
            self._delays[node] = self._inject_sent_by(
                node, LinkFaultKind.DELAY, delay_ms=milliseconds
            )

    async def limit(self, node: str, bits_per_s: int) -> None:
        """So much of what the node sends passes each of its links; 0 ends it."""
        self._count(node, "limited", self._limits.pop(node, ()))
        if bits_per_s:
            self._limits[node] = self._inject_sent_by(
                node, LinkFaultKind.LIMIT, bytes_per_s=max(1, bits_per_s // 8)
            )

    def _inject_sent_by(self, node: str, kind: LinkFaultKind, **how: Any) -> tuple[LinkFault, ...]:
        """Up the links that it has opened, and down those that others have opened to it."""
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
        """These end; what they did stays known."""
        for fault in faults:
            self._proxy.heal(fault)
            self._counted[node, counter] += fault.pieces

    async def traffic_counters(self, node: str) -> dict[str, int]:
        """Frames, or pieces of a stream without any."""
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
        """There is none."""

    async def swallowed(self, node: str) -> int:
        return 0
