"""Controls access to the HA port: allowed hosts, and TLS with certificates of both sides."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable

from staticfire.system_under_test.remoting.allowed_hosts import AllowedHosts, RefusalLog
from staticfire.system_under_test.remoting.connection_limit import TurnedAway
from staticfire.system_under_test.runtime.ending import end_tasks
from staticfire.system_under_test.runtime.env import Env, TlsError

HANDSHAKE_TIMEOUT_S = 5.0


class HaAdmission:
    """Admits connections of hosts that `haAllowedAddresses` lists and, if `tls.ha` is configured, only over TLS."""

    def __init__(self, env: Env, hosts: Iterable[str]) -> None:
        self.hosts = AllowedHosts(hosts)
        self.refusals = RefusalLog(env.log)
        self._tls = env.tls
        self._log = env.log
        self._handshakes: dict[asyncio.Task[None], None] = {}

    @property
    def waiting(self) -> int:
        """The number of connections whose handshake is not over."""
        return len(self._handshakes)

    def protocol_for(self, connection: asyncio.Protocol) -> asyncio.Protocol:
        """The protocol that checks a new connection first; `connection` itself if there is nothing to check."""
        try:
            context = self._tls.replica_server_context() if self._tls is not None else None
        except TlsError as error:
            self._log.error("no TLS for replicas", error=str(error))
            return TurnedAway()
        if context is None and self.hosts.allows_all:
            return connection
        return PendingHandshake(self, context, connection)

    def shake_hands(self, handshake: PendingHandshake, transport: asyncio.Transport) -> None:
        task = asyncio.get_running_loop().create_task(handshake.start_tls(transport))
        self._handshakes[task] = None
        task.add_done_callback(self._handshakes.pop)

    async def close(self) -> None:
        await end_tasks(self._handshakes)


class PendingHandshake(asyncio.Protocol):
    """Checks the peer of one connection; only if it passes does the broker see the connection."""

    def __init__(
        self, admission: HaAdmission, context: ssl.SSLContext | None, connection: asyncio.Protocol
    ) -> None:
        self._admission = admission
        self._context = context
        self._connection = connection
        self._early = bytearray()  # received together with the end of the handshake
        self._is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        if not self._admission.hosts.allows(peer_host(transport)):
            self._refuse(transport, "haAllowedAddresses does not list it")
        elif self._context is None:
            self._let_in(transport)
        else:
            transport.pause_reading()  # until TLS reads
            self._admission.shake_hands(self, transport)

    def data_received(self, data: bytes) -> None:
        self._early += data

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True

    async def start_tls(self, transport: asyncio.Transport) -> None:
        """Admit the peer if it has a trusted certificate."""
        assert self._context is not None
        try:
            secured = await asyncio.get_running_loop().start_tls(
                transport,
                self,
                self._context,
                server_side=True,
                ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
            )
        except OSError as error:  # SSLError is one
            self._refuse(transport, f"no TLS: {error}")
            return
        if secured is not None and not self._is_lost:
            self._let_in(secured)

    def _let_in(self, transport: asyncio.Transport) -> None:
        transport.set_protocol(self._connection)
        self._connection.connection_made(transport)
        if self._early:
            self._connection.data_received(bytes(self._early))

    def _refuse(self, transport: asyncio.Transport, reason: str) -> None:
        self._admission.refusals.log_once(
            "replica was refused", peer=peer_host(transport), reason=reason
        )
        transport.abort()


def peer_host(transport: asyncio.BaseTransport) -> str:
    """The host at the other end; "" if it is gone already."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if peer else ""
