"""The servers behind the proxy, with their kinds, addresses and names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from staticfire.faults.proxy.rocketmq.addresses import Address

HA_SUFFIX = "/ha"
# RocketMQ: BrokerStartup uses the port after the main one, regardless of the configuration
HA_PORT_SHIFT = 1


class ServerKind(StrEnum):
    NAME_SERVER = "name-servers"
    BROKER = "brokers"
    HA = "ha"  # a master's port for replication, which does not use frames


@dataclass(slots=True, eq=False)
class Server:
    """One listening address of the cluster."""

    kind: ServerKind
    address: Address
    name: str  # name-server-1, broker-a-0, broker-a-0/ha; the address while the name is unknown

    @property
    def has_name(self) -> bool:
        """Whether a name is known."""
        return self.name != str(self.address)

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which a fault may select the server, besides its kind."""
        return self.name, str(self.address)


class Servers:
    """All servers that the proxy has met."""

    def __init__(self) -> None:
        self._known: dict[tuple[ServerKind, Address], Server] = {}

    def __iter__(self) -> Iterator[Server]:
        return iter(tuple(self._known.values()))

    def find(self, kind: ServerKind, address: Address) -> Server | None:
        return self._known.get((kind, address))

    def meet(self, kind: ServerKind, address: Address, name: str = "") -> Server:
        """Return the server at the address, and remember it. `name`: of the node, if the caller knows it."""
        server = self._known.get((kind, address))
        if server is None:
            server = self._known[kind, address] = Server(kind, address, str(address))
        if name:
            server.name = name + HA_SUFFIX if kind is ServerKind.HA else name
        if kind is ServerKind.BROKER:
            self._name_replication(server)
        return server

    def replication_of(self, broker: Server) -> Server:
        """Return the broker's port for replication, to which its slaves connect."""
        host, port = broker.address
        replication = self.meet(ServerKind.HA, Address(host, port + HA_PORT_SHIFT))
        self._name_replication(broker)
        return replication

    def _name_replication(self, broker: Server) -> None:
        """Name the broker's port for replication after the broker."""
        host, port = broker.address
        replication = self.find(ServerKind.HA, Address(host, port + HA_PORT_SHIFT))
        if replication is not None and broker.has_name:
            replication.name = broker.name + HA_SUFFIX
