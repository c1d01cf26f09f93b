"""Partitions through a proxy, where nobody is root and the machines belong to others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from faults.proxy.link_faults import Direction, LinkFault, LinkFaultKind
from faults.proxy.striking import Striking

__all__ = ["ProxyNetwork"]

Pair = tuple[str, str]


class ProxyNetwork:
    """Implements faults.capabilities.PartitionControl over the links of a proxy.

    Each node, client or broker, uses the door with its own name. What is sent from one node to another travels up the
    links that the one has opened and down those that the other has. It is held back and not lost: TCP repeats it after
    a partition. Unlike behind a firewall, new connections are accepted, and nothing passes them.

    Args:
        addresses: of each node that listens, all its real ones: a broker's own and that for replication.
    """

    def __init__(self, proxy: Striking, addresses: Mapping[str, Sequence[str]]) -> None:
        self._proxy = proxy
        self._addresses = addresses
        self._now: dict[Pair, tuple[LinkFault, ...]] = {}
        self._before: dict[Pair, int] = {}

    async def drop(self, *, source: str, target: str) -> None:
        """Nothing gets from the one to the other; nothing happens if that is so already."""
        if (source, target) not in self._now:
            ways = (
                *((source, server, Direction.UP) for server in self._addresses.get(target, ())),
                *((target, server, Direction.DOWN) for server in self._addresses.get(source, ())),
            )
            self._now[source, target] = tuple(
                self._proxy.strike(
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
        """Restore every pair; faults that somebody else has ordered stay."""
        for source, target in tuple(self._now):
            await self.restore(source=source, target=target)

    async def dropped(self, *, source: str, target: str) -> int:
        """Frames, or pieces of a stream without any, that could not pass so far."""
        now = sum(fault.pieces for fault in self._now.get((source, target), ()))
        return self._before.get((source, target), 0) + now
