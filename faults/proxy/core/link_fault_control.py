"""The verbs: what can be done to links, and undone."""

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
    """Keeps the faults that strike now, in `faults`."""

    def __init__(self) -> None:
        self.faults: tuple[LinkFault, ...] = ()
        self._next_number = 1

    @abstractmethod
    def _apply(self) -> None:
        """The faults are others: every connection has to know."""

    def delay(
        self,
        delay_ms: float,
        jitter_ms: float = 0.0,
        *,
        client: str = ANY_END,
        server: str = ANY_END,
        direction: str = "both",
    ) -> LinkFault:
        """Everything takes `delay_ms` longer, give or take `jitter_ms`, and stays in order. Raises LinkFaultError."""
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
        """So many bytes a second pass each link and direction. Raises LinkFaultError."""
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
        """What is sent vanishes for good; connections stay open, new ones are accepted.

        TCP never goes on behind bytes that it has lost, so heal() resets the connections that lost any, as a host does
        after a long partition. Use freeze() for a short one, in which TCP repeats until everything has arrived.
        """
        return self.inject(LinkFaultKind.DROP, client=client, server=server, direction=direction)

    def freeze(
        self, *, client: str = ANY_END, server: str = ANY_END, direction: str = "both"
    ) -> LinkFault:
        """Connections are accepted and nothing passes; after heal() everything does, in order."""
        return self.inject(LinkFaultKind.FREEZE, client=client, server=server, direction=direction)

    def cut(self, *, client: str = ANY_END, server: str = ANY_END) -> LinkFault:
        """Connections are reset, those that there are and new ones."""
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
        """Break links in the way that `kind` says, from now on. Raises LinkFaultError."""
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
        """End one fault, or all; returns those that ended. One that has ended already is no mistake."""
        healed = tuple(one for one in self.faults if fault is None or one is fault)
        self.faults = tuple(one for one in self.faults if one not in healed)
        self._apply()
        return healed
