"""Doors: where clients come in. Each door has a listener of its own for every server.

Who comes through a door with a name is known by it, even where all clients share one address. Everybody else uses the
common door, and is known by source address or by what its frames say.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from faults.proxy.addresses import Address
from faults.proxy.ports import PortError, listen, listen_anywhere
from faults.proxy.servers import Server, ServerKind

__all__ = ["COMMON_DOOR", "Door", "Gate", "PortPlan"]

COMMON_DOOR = ""
FAST_PORT_SHIFT = -2  # where brokers answer everything but pulls; clients find it by subtraction
SHIFTS = {
    ServerKind.NAME_SERVER: (0,),
    ServerKind.BROKER: (0, FAST_PORT_SHIFT),
    ServerKind.HA: (0,),
}
BROKER_PORT_DISTANCE = 1035  # 10911 - 9876
BROKER_PORT_STEP = 10
HA_PORT_DISTANCE = 1


@dataclass(frozen=True, slots=True, eq=False)
class Gate:
    """One listening socket: who comes in here is led to `target`."""

    door: Door
    server: Server
    target: Address


@dataclass(slots=True)
class PortPlan:
    """Which ports to listen on: free ones, or from `first` up in the distances that RocketMQ's defaults have."""

    first: int = 0  # 0: free ones
    _counts: dict[ServerKind, int] | None = None

    def next(self, kind: ServerKind) -> int:
        """The port for one more server of this kind; 0: any."""
        if not self.first:
            return 0
        counts = self._counts = self._counts or dict.fromkeys(ServerKind, 0)
        number = counts[kind]
        counts[kind] += 1
        if kind is ServerKind.NAME_SERVER:
            return self.first + number
        shift = HA_PORT_DISTANCE if kind is ServerKind.HA else 0
        return self.first + BROKER_PORT_DISTANCE + BROKER_PORT_STEP * number + shift


class Door:
    """The listeners that belong together.

    Args:
        name: of the client that uses it; COMMON_DOOR for all others.
        host: to listen on.
        on_listen: gets each new listening socket.
        on_event: gets sentences for people.
    """

    def __init__(
        self,
        name: str,
        host: str,
        plan: PortPlan,
        on_listen: Callable[[Gate, socket.socket], None],
        on_event: Callable[[str], None],
    ) -> None:
        self.name = name
        self._host = host
        self._plan = plan
        self._on_listen = on_listen
        self._on_event = on_event
        self._ports: dict[Server, int] = {}

    def __iter__(self) -> Iterator[tuple[Server, int]]:
        """Servers and the ports at which they are reached."""
        return iter(tuple(self._ports.items()))

    def port_of(self, server: Server) -> int:
        """Where to dial for this server; the door listens there from now on. Raises PortError."""
        if server not in self._ports:
            self._open(server)
        return self._ports[server]

    def _open(self, server: Server) -> None:
        shifts = SHIFTS[server.kind]
        sockets = self._listen(server, shifts)
        self._ports[server] = sockets[0].getsockname()[1]
        host, port = server.address
        for shift, found in zip(shifts, sockets, strict=True):
            self._on_listen(Gate(self, server, Address(host, port + shift)), found)

    def _listen(self, server: Server, shifts: tuple[int, ...]) -> list[socket.socket]:
        wanted = self._plan.next(server.kind)
        if not wanted:
            return listen_anywhere(self._host, shifts)
        try:
            return listen(self._host, [wanted + shift for shift in shifts])
        except PortError as error:
            if server.kind is ServerKind.NAME_SERVER:  # clients were told where to look
                raise
            found = listen_anywhere(self._host, shifts)
            self._on_event(f"{error}; {server.name} is at {found[0].getsockname()[1]} instead")
            return found
