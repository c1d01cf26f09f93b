"""The proxy: listens for every server of a cluster, and breaks links on demand."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Self

from staticfire.faults.errors import FaultError
from staticfire.faults.proxy.core.address_map import AddressMap, View
from staticfire.faults.proxy.core.flow import Pipe
from staticfire.faults.proxy.core.frontends import COMMON_FRONTEND, Frontend, Listener, PortPlan
from staticfire.faults.proxy.core.link_fault_control import LinkFaultControl
from staticfire.faults.proxy.core.link_faults import Direction, LinkFault, choice
from staticfire.faults.proxy.core.proxied_connection import ProxiedConnection
from staticfire.faults.proxy.core.servers import Server, ServerKind
from staticfire.faults.proxy.core.status import LinkStatus, Totals
from staticfire.faults.proxy.rocketmq.addresses import Address, AddressError
from staticfire.faults.proxy.rocketmq.translator import Translator

WILDCARDS = ("0.0.0.0", "::")
LOOPBACKS = ("127.0.0.1", "::1", "localhost")


class ProxyError(FaultError):
    """A proxy cannot be started with these options. One sentence."""


class Proxy(LinkFaultControl):
    """A proxy between clients and a RocketMQ. Clients need only its address in place of the name servers'.

        async with Proxy(["10.0.0.1:9876"]) as proxy:
            start_clients(proxy.name_server_address)
            fault = proxy.drop(server="broker-a-0", direction="down")
            ...
            proxy.heal(fault)
            assert fault.bitten

    A link consists of all connections of one client with one server. Faults name the ends of links by patterns, in
    which `*` stands for any text. Names of a client: its frontend (`name_servers_for`), its source host, its source
    `host:port`, its groups, the client id of its heartbeats, and for a broker its name. Names of a server: its name
    (`name-server-1`, `broker-a-0`, `broker-a-0/ha`), its own address, and its kind (`name-servers`, `brokers`, `ha`).

    A broker that uses the proxy as its name server is registered with the proxy's addresses, and a slave that does so
    reaches its master through the proxy. Call all methods on the event loop on which the proxy was started.

    Args:
        name_servers: the real name servers, `host:port`; they need not run yet. `address_for` adds other servers.
        listen: the address of this machine to listen on; 0.0.0.0 for all.
        port: the port of the first name server; brokers are from 1035 above it. 0: free ports.
        advertise: the host in the proxy's addresses; None: the host under which a client reached the proxy.
        passes_tls: let clients speak TLS to name servers, although routes inside TLS cannot be rewritten.
        seed: the seed of the jitter.
        on_event: takes sentences for the user.

    Raises ProxyError for an option with a value that is not allowed.
    """

    def __init__(
        self,
        name_servers: Sequence[str] = (),
        *,
        listen: str = "127.0.0.1",
        port: int = 0,
        advertise: str | None = None,
        passes_tls: bool = False,
        seed: int = 0,
        on_event: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__()
        self.random = Random(seed)
        self.passes_tls = passes_tls
        self._listen = listen
        self._port = port
        self._advertise = advertise
        self.event = on_event or (lambda _: None)
        hosts = (*(LOOPBACKS if listen in WILDCARDS else ()), listen, *filter(None, [advertise]))
        self._addresses = AddressMap(self._make_frontend, hosts, self.event)
        self._name_servers = [
            self._addresses.servers.meet(
                ServerKind.NAME_SERVER, _name_server(text), f"name-server-{number}"
            )
            for number, text in enumerate(name_servers, 1)
        ]
        self._proxied_connections: dict[ProxiedConnection, None] = {}
        self._totals = Totals()
        self._pipes: dict[tuple[str, Server, Direction], Pipe] = {}
        self._listening: list[asyncio.Server] = []
        self._starting: dict[asyncio.Task[None], None] = {}

    # Life

    async def start(self) -> None:
        """Listen for clients of the name servers. Raises PortError."""
        try:
            self.name_servers_for(COMMON_FRONTEND)
        except FaultError:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Reset all connections and stop listening."""
        if self._starting:
            await asyncio.wait(self._starting)
        for server in self._listening:
            server.close()
        while self._proxied_connections:
            for proxied in tuple(self._proxied_connections):
                proxied.stop()
            await asyncio.sleep(0)
        self._listening.clear()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # Addresses

    @property
    def name_server_address(self) -> str:
        """The clients' namesrvAddr: `host:port`, joined with `;`."""
        return self.name_servers_for(COMMON_FRONTEND)

    def name_servers_for(self, client: str) -> str:
        """Return the addresses for one client alone, which faults may name from then on. Raises PortError."""
        return ";".join(self._address(client, server) for server in self._name_servers)

    def address_for(self, address: str, *, kind: str = "brokers", client: str = "") -> str:
        """Return the proxy's address for a server that no route names.

        Args:
            address: the server's own address, `host:port`.
            kind: "brokers", "ha" or "name-servers".
            client: the name of the client that uses the address; empty: any client.

        Raises:
            AddressError: `address` is not an address.
            LinkFaultError: the kind is unknown.
            PortError: no port is free.
        """
        server = self._addresses.server(
            choice(ServerKind, "kind", kind), Address.parse(address), ""
        )
        return self._address(client, server)

    def _address(self, client: str, server: Server) -> str:
        port = self._addresses.frontend(client).port_of(server)
        return str(Address(self._shown_host, port))

    @property
    def _shown_host(self) -> str:
        if self._advertise is not None:
            return self._advertise
        return (
            LOOPBACKS[WILDCARDS.index(self._listen)] if self._listen in WILDCARDS else self._listen
        )

    @property
    def servers(self) -> tuple[tuple[Server, str, str], ...]:
        """Every server for which the proxy listens, with the frontend's name and the proxy's address for it."""
        return tuple(
            (server, frontend.name, str(Address(self._shown_host, port)))
            for frontend in self._addresses.frontends
            for server, port in frontend
        )

    # Status

    def links(self) -> tuple[LinkStatus, ...]:
        """Return every link so far, sorted by server and client."""
        found = self._totals.with_open(self._proxied_connections)
        for proxied in self._proxied_connections:
            status = found[proxied.label, proxied.listener.server]
            numbers = dict.fromkeys(fault.number for fault in self.faults_for(proxied))
            status.faults = tuple(dict.fromkeys((*status.faults, *numbers)))
        return tuple(sorted(found.values(), key=lambda link: (link.server, link.client)))

    # For proxied connections

    def _apply(self) -> None:
        for proxied in tuple(self._proxied_connections):
            proxied.apply(self.faults_for(proxied))

    def translator(self, listener: Listener, host: str) -> Translator:
        """Return the addresses for a client that reached the proxy under this host."""
        self._addresses.add_host(host)
        return View(self._addresses, listener.frontend, self._advertise or host)

    def faults_for(self, proxied: ProxiedConnection) -> tuple[LinkFault, ...]:
        """Return the faults that affect the connection now."""
        if not self.faults:
            return ()
        clients, server = proxied.client_names, proxied.listener.server
        return tuple(
            fault
            for fault in self.faults
            if fault.strikes(clients, server.names, server.kind.value)
        )

    def pipe(self, proxied: ProxiedConnection, direction: Direction) -> Pipe:
        """Return the pipe that the connection shares with the other connections of its link."""
        key = proxied.label, proxied.listener.server, direction
        return self._pipes.setdefault(key, Pipe())

    def opened(self, proxied: ProxiedConnection) -> None:
        self._proxied_connections[proxied] = None

    def closed(self, proxied: ProxiedConnection) -> None:
        if proxied in self._proxied_connections:
            del self._proxied_connections[proxied]
            self._totals.keep(proxied)

    # Listening

    def _make_frontend(self, name: str) -> Frontend:
        plan = PortPlan(self._port if name == COMMON_FRONTEND else 0)
        return Frontend(
            name, self._listen, self._addresses.servers, plan, self._add_listener, self.event
        )

    def _add_listener(self, listener: Listener, found: socket.socket) -> None:
        """Serve a listener. Its socket listens already: a client that connects too early waits a moment."""
        task = asyncio.get_running_loop().create_task(self._serve(listener, found))
        self._starting[task] = None
        task.add_done_callback(self._starting.pop)

    async def _serve(self, listener: Listener, found: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(partial(self._accept, listener), sock=found)
        self._listening.append(server)

    def _accept(self, listener: Listener) -> asyncio.Protocol:
        return ProxiedConnection(listener, self).client_end


def _name_server(text: str) -> Address:
    try:
        return Address.parse(text)
    except AddressError as error:
        raise ProxyError(f"name server {error}") from error
