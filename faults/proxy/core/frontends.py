"""Frontends, to which clients connect. Each frontend has a listener of its own for every server.

A client that uses a named frontend is known by that name, even if all clients share one address. All other clients use
the common frontend, and are known by their source address or by what their frames say.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from staticfire.faults.proxy.core.ports import PortError, listen, listen_anywhere
from staticfire.faults.proxy.core.servers import HA_PORT_SHIFT, Server, ServerKind, Servers
from staticfire.faults.proxy.rocketmq.addresses import Address

COMMON_FRONTEND = ""
FAST_PORT_SHIFT = -2  # port for all requests but pulls; clients derive it from the main port
BROKER_SHIFTS = (0, FAST_PORT_SHIFT, HA_PORT_SHIFT)
BROKER_PORT_DISTANCE = 1035  # 10911 - 9876
BROKER_PORT_STEP = 10


@dataclass(frozen=True, slots=True, eq=False)
class Listener:
    """One listening socket. It connects its clients to `target`."""

    frontend: Frontend
    server: Server
    target: Address


class PortPlan:
    """The ports to listen on: free ones, or from `first` up with the distances of RocketMQ's default ports."""

    def __init__(self, first: int = 0) -> None:
        self._first = first  # 0: free ports
        self._name_servers = 0
        self._brokers = 0

    def next_name_server(self) -> int:
        """Return the port for one more name server; 0: any free one."""
        self._name_servers += 1
        return self._first and self._first + self._name_servers - 1

    def next_broker(self) -> int:
        """Return the main port for one more broker; 0: any free one."""
        self._brokers += 1
        distance = BROKER_PORT_DISTANCE + BROKER_PORT_STEP * (self._brokers - 1)
        return self._first and self._first + distance


class Frontend:
    """Listeners that belong together, one for each server.

    Args:
        name: the name of the client that uses it; COMMON_FRONTEND for all others.
        host: the address to listen on.
        servers: all known servers.
        plan: chooses the ports.
        on_listen: takes each new listening socket.
        on_event: takes sentences for the user.
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
        """Iterate over the servers, each with the port at which clients reach it."""
        return iter(tuple(self._ports.items()))

    def port_of(self, server: Server) -> int:
        """Return the port at which clients reach this server. Listens there first, if necessary. Raises PortError."""
        if server not in self._ports:
            if server.kind is ServerKind.NAME_SERVER:
                self._open_name_server(server)
            else:
                self._open_broker(server)
        return self._ports[server]

    def _open_name_server(self, server: Server) -> None:
        wanted = self._plan.next_name_server()
        # no other port will do: clients are configured with this address
        [found] = listen(self._host, [wanted])
        self._add(server, server.address, found)

    def _open_broker(self, server: Server) -> None:
        """Listen on all ports of a broker at once, at the distances of the broker's own ports."""
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
