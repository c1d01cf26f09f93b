"""Maps the addresses of servers to addresses of the proxy, for each frontend, and back."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address

from staticfire.faults.proxy.core.frontends import COMMON_FRONTEND, Frontend
from staticfire.faults.proxy.core.ports import PortError
from staticfire.faults.proxy.core.servers import Server, ServerKind, Servers
from staticfire.faults.proxy.rocketmq.addresses import Address
from staticfire.system_under_test.protocol.message import encode_host

PORT_SIZE = 4  # of a store host


class AddressMap:
    """The addresses that the proxy knows, shared by all of its connections.

    Args:
        make_frontend: makes the frontend with a given name.
        hosts: the hosts under which clients reach the proxy.
        on_event: takes sentences for the user.
    """

    def __init__(
        self,
        make_frontend: Callable[[str], Frontend],
        hosts: tuple[str, ...],
        on_event: Callable[[str], None],
    ) -> None:
        self.servers = Servers()
        self.on_event = on_event
        self._make_frontend = make_frontend
        self._frontends: dict[str, Frontend] = {}
        self._hosts = dict.fromkeys(hosts)

    @property
    def frontends(self) -> tuple[Frontend, ...]:
        return tuple(self._frontends.values())

    def frontend(self, name: str) -> Frontend:
        if name not in self._frontends:
            self._frontends[name] = self._make_frontend(name)
        return self._frontends[name]

    def add_host(self, host: str) -> None:
        """Add a host under which a client has reached the proxy."""
        self._hosts[host] = None

    def behind(self, address: Address) -> Server | None:
        """Return the server to which this address of the proxy leads; None for any other address."""
        if address.host not in self._hosts:
            return None
        for frontend in self._frontends.values():
            for server, port in frontend:
                if port == address.port:
                    return server
        return None

    def server(self, kind: ServerKind, address: Address, name: str) -> Server:
        """Return the server at an address, which may be its own or one of the proxy's. A new server is added."""
        own = self.behind(address)
        if own is not None:
            return self.servers.meet(own.kind, own.address, name if own.kind is kind else "")
        return self.servers.meet(kind, address, name)


class View:
    """The addresses for clients of one frontend, which reached the proxy under `host`.

    Implements `staticfire.faults.proxy.rocketmq.translator.Translator`.
    """

    def __init__(self, addresses: AddressMap, frontend: Frontend, host: str) -> None:
        self._addresses = addresses
        self._frontend = frontend
        self._host = host
        self._store_hosts: dict[bytes, bytes] = {}

    def broker(self, address: str, name: str = "") -> str:
        return self._translate(self._frontend, ServerKind.BROKER, address, name)

    def ha(self, address: str, name: str = "") -> str:
        return self._translate(self._frontend, ServerKind.HA, address, name)

    def registered_broker(self, address: str, name: str = "") -> str:
        return self._translate(
            self._addresses.frontend(COMMON_FRONTEND), ServerKind.BROKER, address, name
        )

    def registered_ha(self, address: str, name: str = "") -> str:
        return self._translate(
            self._addresses.frontend(COMMON_FRONTEND), ServerKind.HA, address, name
        )

    def _translate(self, frontend: Frontend, kind: ServerKind, text: str, name: str) -> str:
        address = Address.try_parse(text)
        if address is None:
            return text
        server = self._addresses.server(kind, address, name)
        try:
            return str(Address(self._host, frontend.port_of(server)))
        except PortError as error:
            self._addresses.on_event(f"{server.name} is dialled past the proxy: {error}")
            return text

    def store_host(self, host: bytes) -> bytes | None:
        """Translate a store host. None for unknown brokers, since old messages may name hosts that no longer exist."""
        found = self._store_hosts.get(host)
        return found if found is not None else self._learn_store_host(host)

    def _learn_store_host(self, host: bytes) -> bytes | None:
        real = Address(str(ip_address(host[:-PORT_SIZE])), int.from_bytes(host[-PORT_SIZE:], "big"))
        server = self._addresses.servers.find(ServerKind.BROKER, real)
        if server is None:
            return None
        try:
            translated, _ = encode_host((self._host, self._frontend.port_of(server)))
        except ValueError:  # clients reach the proxy by a host name, which does not fit here
            return None
        if len(translated) != len(host):
            return None
        self._store_hosts[host] = translated
        return translated
