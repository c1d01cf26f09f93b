"""Breaks links and heals them."""

from __future__ import annotations

from abc import ABC, abstractmethod

from staticfire.faults.proxy.core.link_faults import (
    ANY_END,
    Direction,
    LinkFault,
    LinkFaultKind,
    choice,
)


class LinkFaultControl(ABC):
    """Breaks links and heals them. `faults` holds the faults that are on.

    `client` and `server` are patterns for the ends of links, in which `*` stands for any text; see `Proxy`. `direction`
    is "up" (from the client to the server), "down" or "both".
    """

    def __init__(self) -> None:
        self.faults: tuple[LinkFault, ...] = ()
        self._next_number = 1

    @abstractmethod
    def _apply(self) -> None:
        """Apply the changed `faults` to every connection."""

    def delay(
        self,
        delay_ms: float,
        jitter_ms: float = 0.0,
        *,
        client: str = ANY_END,
        server: str = ANY_END,
        direction: str = "both",
    ) -> LinkFault:
        """Delay all data by `delay_ms`, plus or minus up to `jitter_ms`, in order. Raises LinkFaultError."""
        return self.inject(
            LinkFaultKind.DELAY,
            client=client,
            server=server,
            direction=direction,
            delay_ms=delay_ms,
            jitter_ms=jitter_ms,
        )

    def limit(
        self,
        bytes_per_s: int,
        *,
        client: str = ANY_END,
        server: str = ANY_END,
        direction: str = "both",
    ) -> LinkFault:
        """Let at most `bytes_per_s` pass each link in each direction. Raises LinkFaultError."""
        return self.inject(
            LinkFaultKind.LIMIT,
            client=client,
            server=server,
            direction=direction,
            bytes_per_s=bytes_per_s,
        )

    def drop(
        self, *, client: str = ANY_END, server: str = ANY_END, direction: str = "both"
    ) -> LinkFault:
        """Discard all data. Connections stay open, and new ones are accepted.

        TCP never skips lost data, so heal() resets the connections that lost any, as a host does after a long
        partition. Use freeze() for a short partition, in which TCP retransmits until everything has arrived. Raises
        LinkFaultError.
        """
        return self.inject(LinkFaultKind.DROP, client=client, server=server, direction=direction)

    def freeze(
        self, *, client: str = ANY_END, server: str = ANY_END, direction: str = "both"
    ) -> LinkFault:
        """Hold all data back; connections are accepted. After heal() everything arrives. Raises LinkFaultError."""
        return self.inject(LinkFaultKind.FREEZE, client=client, server=server, direction=direction)

    def cut(self, *, client: str = ANY_END, server: str = ANY_END) -> LinkFault:
        """Reset all connections, existing and new ones. Raises LinkFaultError."""
        return self.inject(LinkFaultKind.CUT, client=client, server=server)

    def inject(
        self,
        kind: str,
        *,
        client: str = ANY_END,
        server: str = ANY_END,
        direction: str = "both",
        delay_ms: float = 0.0,
        jitter_ms: float = 0.0,
        bytes_per_s: int = 0,
    ) -> LinkFault:
        """Break links from now on; `kind` is one of LinkFaultKind. Raises LinkFaultError."""
        fault = LinkFault(
            number=self._next_number,
            kind=choice(LinkFaultKind, "kind of fault", kind),
            client=client,
            server=server,
            direction=choice(Direction, "direction", direction),
            delay_ms=delay_ms,
            jitter_ms=jitter_ms,
            bytes_per_s=bytes_per_s,
        )
        self._next_number += 1
        self.faults += (fault,)
        self._apply()
        return fault

    def heal(self, fault: LinkFault | None = None) -> tuple[LinkFault, ...]:
        """End one fault, or all; return those that ended. A fault that has ended already is ignored."""
        healed = tuple(one for one in self.faults if fault is None or one is fault)
        self.faults = tuple(one for one in self.faults if one not in healed)
        self._apply()
        return healed
