"""The book of addresses: every server, every door, and what stands for what."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address

from staticfire.faults.proxy.core.frontends import COMMON_DOOR, Frontend
from staticfire.faults.proxy.core.ports import PortError
from staticfire.faults.proxy.core.servers import Server, ServerKind, Servers
from staticfire.faults.proxy.rocketmq.addresses import Address
from staticfire.system_under_test.protocol.message import encode_host

__all__ = ["AddressMap", "View"]

PORT_SIZE = 4  # of a store host


class AddressMap:
    """What the proxy knows of the cluster, shared by all connections.

    Args:
        make_door: makes the door of this name.
        hosts: under which clients reach the proxy.
        on_event: gets sentences for people.
    """

    def __init__(
        self,
        make_door: Callable[[str], Frontend],
        hosts: tuple[str, ...],
        on_event: Callable[[str], None],
    ) -> None:
        self.servers = Servers()
        self.on_event = on_event
        self._make_door = make_door
        self._doors: dict[str, Frontend] = {}
        self._hosts = dict.fromkeys(hosts)

    @property
    def doors(self) -> tuple[Frontend, ...]:
        return tuple(self._doors.values())

    def door(self, name: str) -> Frontend:
        if name not in self._doors:
            self._doors[name] = self._make_door(name)
        return self._doors[name]

    def add_host(self, host: str) -> None:
        """One more address under which the proxy was reached."""
        self._hosts[host] = None

    def behind(self, address: Address) -> Server | None:
        """The server that this address leads to; None if it is no address of the proxy."""
        if address.host not in self._hosts:
            return None
        for door in self._doors.values():
            for server, port in door:
                if port == address.port:
                    return server
        return None

    def server(self, kind: ServerKind, address: Address, name: str) -> Server:
        """The server at an address, be it its own or one of the proxy's."""
        own = self.behind(address)
        if own is not None:
            return self.servers.meet(own.kind, own.address, name if own.kind is kind else "")
        return self.servers.meet(kind, address, name)


class View:
    """The addresses as clients of one door are to see them, under the host by which they reached the proxy.

    Implements faults.proxy.translator.Translator.
    """

    def __init__(self, book: AddressMap, door: Frontend, host: str) -> None:
        self._book = book
        self._door = door
        self._host = host
        self._store_hosts: dict[bytes, bytes] = {}

    def broker(self, address: str, name: str = "") -> str:
        return self._translate(self._door, ServerKind.BROKER, address, name)

    def ha(self, address: str, name: str = "") -> str:
        return self._translate(self._door, ServerKind.HA, address, name)

    def registered_broker(self, address: str, name: str = "") -> str:
        return self._translate(self._book.door(COMMON_DOOR), ServerKind.BROKER, address, name)

    def registered_ha(self, address: str, name: str = "") -> str:
        return self._translate(self._book.door(COMMON_DOOR), ServerKind.HA, address, name)

    def _translate(self, door: Frontend, kind: ServerKind, text: str, name: str) -> str:
        address = Address.try_parse(text)
        if address is None:
            return text
        server = self._book.server(kind, address, name)
        try:
            return str(Address(self._host, door.port_of(server)))
        except PortError as error:
            self._book.on_event(f"{server.name} is dialled past the proxy: {error}")
            return text

    def store_host(self, host: bytes) -> bytes | None:
        """Only brokers that were met are translated: old messages may name hosts that are long gone."""
        found = self._store_hosts.get(host)
        return found if found is not None else self._learn_store_host(host)

    def _learn_store_host(self, host: bytes) -> bytes | None:
        real = Address(str(ip_address(host[:-PORT_SIZE])), int.from_bytes(host[-PORT_SIZE:], "big"))
        server = self._book.servers.find(ServerKind.BROKER, real)
        if server is None:
            return None
        try:
            translated, _ = encode_host((self._host, self._door.port_of(server)))
        except ValueError:  # clients know the proxy by a name, and there is no place for that
            return None
        if len(translated) != len(host):
            return None
        self._store_hosts[host] = translated
        return translated
