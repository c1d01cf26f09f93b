"""The door of the HA port: it lets in the hosts that `haAllowedAddresses` lists."""

from __future__ import annotations

import asyncio

from system_under_test.remoting.allowed_hosts import AllowedHosts, RefusalLog


class ReplicaGate(asyncio.Protocol):
    """Stands in front of a connection until its peer is known; one that is refused is ended before it exists."""

    def __init__(
        self, hosts: AllowedHosts, refusals: RefusalLog, connection: asyncio.Protocol
    ) -> None:
        self._hosts = hosts
        self._refusals = refusals
        self._connection = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        peer = transport.get_extra_info("peername")
        host = str(peer[0]) if peer else ""  # None: it is gone already
        if self._hosts.allows(host):
            transport.set_protocol(self._connection)
            self._connection.connection_made(transport)
            return
        self._refusals.tell("replica was refused: haAllowedAddresses does not list it", peer=host)
        transport.abort()
