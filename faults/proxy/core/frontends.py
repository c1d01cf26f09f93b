"""Frontends: where clients come in. Each frontend has a listener of its own for every server.

Who comes through a frontend with a name is known by it, even where all clients share one address. Any other client uses
the common frontend, and is known by source address or by what its frames say.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from staticfire.faults.proxy.core.ports import PortError, listen, listen_anywhere
from staticfire.faults.proxy.core.servers import HA_PORT_SHIFT, Server, ServerKind, Servers
from staticfire.faults.proxy.rocketmq.addresses import Address

COMMON_FRONTEND = ""
FAST_PORT_SHIFT = -2  # where brokers answer everything but pulls; clients find it by subtraction
BROKER_SHIFTS = (0, FAST_PORT_SHIFT, HA_PORT_SHIFT)
BROKER_PORT_DISTANCE = 1035  # 10911 - 9876
BROKER_PORT_STEP = 10


@dataclass(frozen=True, slots=True, eq=False)
class Listener:
    """One listening socket: who comes in here is led to `target`."""

    frontend: Frontend
    server: Server
    target: Address


class PortPlan:
    """Which ports to listen on: free ones, or from `first` up in the distances that RocketMQ's defaults have."""

    def __init__(self, first: int = 0) -> None:
        self._first = first  # 0: free ones
        self._name_servers = 0
        self._brokers = 0

    def next_name_server(self) -> int:
        """The port for one more name server; 0: any."""
        self._name_servers += 1
        return self._first and self._first + self._name_servers - 1

    def next_broker(self) -> int:
        """The main port for one more broker; 0: any."""
        self._brokers += 1
        distance = BROKER_PORT_DISTANCE + BROKER_PORT_STEP * (self._brokers - 1)
        return self._first and self._first + distance


class Frontend:
    """The listeners that belong together.

    Args:
        name: of the client that uses it; COMMON_DOOR for all others.
        host: to listen on.
        servers: all that are known.
        on_listen: gets each new listening socket.
        on_event: gets sentences for people.
    """

    def __init__(
        self,
        name: str,
        host: str,
        servers: Servers,
        plan: PortPlan,
        on_listen: Callable[[Listener, socket.socket], None],
        on_event: Callable[[str], None],
    ) -> None:
        self.name = name
        self._host = host
        self._servers = servers
        self._plan = plan
        self._on_listen = on_listen
        self._on_event = on_event
        self._ports: dict[Server, int] = {}

    def __iter__(self) -> Iterator[tuple[Server, int]]:
        """Servers and the ports at which they are reached."""
        return iter(tuple(self._ports.items()))

    def port_of(self, server: Server) -> int:
        """Where to dial for this server; the frontend listens there from now on. Raises PortError."""
        if server not in self._ports:
            if server.kind is ServerKind.NAME_SERVER:
                self._open_name_server(server)
            else:
                self._open_broker(server)
        return self._ports[server]

    def _open_name_server(self, server: Server) -> None:
        wanted = self._plan.next_name_server()
        [found] = listen(self._host, [wanted])  # no other port: clients know this address
        self._add(server, server.address, found)

    def _open_broker(self, server: Server) -> None:
        """All ports of a broker at once, in the distances that it has itself."""
        host, port = server.address
        main = port - HA_PORT_SHIFT if server.kind is ServerKind.HA else port
        broker = self._servers.meet(ServerKind.BROKER, Address(host, main))
        replication = self._servers.replication_of(broker)
        sockets = self._listen(broker)
        for shift, found in zip(BROKER_SHIFTS, sockets, strict=True):
            owner = replication if shift == HA_PORT_SHIFT else broker
            self._add(owner, Address(host, main + shift), found)

    def _add(self, server: Server, target: Address, found: socket.socket) -> None:
        self._ports.setdefault(server, found.getsockname()[1])  # the main port comes first
        self._on_listen(Listener(self, server, target), found)

    def _listen(self, broker: Server) -> list[socket.socket]:
        wanted = self._plan.next_broker()
        if not wanted:
            return listen_anywhere(self._host, BROKER_SHIFTS)
        try:
            return listen(self._host, [wanted + shift for shift in BROKER_SHIFTS])
        except PortError as error:
            found = listen_anywhere(self._host, BROKER_SHIFTS)
            self._on_event(f"{error}; {broker.name} is at {found[0].getsockname()[1]} instead")
            return found
