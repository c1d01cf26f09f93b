"""The reading side of replication: follows a master, and fetches from other replicas.

A slave whose master does not answer asks the other slaves: messages that a synchronous master has acknowledged are on
one slave, but it is unknown on which. It appends what continues its own log, and never cuts because of a slave.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress

from staticfire.system_under_test.broker.replication.ha_config import HaConfig
from staticfire.system_under_test.broker.replication.ha_connections import HaLink, Receiver
from staticfire.system_under_test.remoting import parse_address
from staticfire.system_under_test.runtime.env import Log, Tls, TlsError
from staticfire.system_under_test.store.replication.replica_receiver import (
    CatchUpReceiver,
    Diverged,
    Reconnect,
)
from staticfire.system_under_test.store.replication.replication import (
    ReplicatedLog,
    ReplicationError,
)

NS_PER_S = 1_000_000_000
CONNECT_TIMEOUT_S = 5.0  # RocketMQ: HAClient.connectMaster
PEER_SILENCE_MAX_S = 3.0  # short, as the master may be back meanwhile
ORPHAN_ROUND_S = 3.0  # between two rounds of a slave without a master


def host_of(address: str) -> str:
    return parse_address(address)[0]


class HaFollower:
    """Reads from one replica at a time: the master, or another peer."""

    def __init__(
        self,
        log: Log,
        replicated_log: ReplicatedLog,
        config: HaConfig,
        tls: Tls | None,
        *,
        now_ns: Callable[[], int],
        on_received: Callable[[], None],
    ) -> None:
        self.log = log
        self.now_ns = now_ns
        self._replicated_log = replicated_log
        self._config = config
        self._tls = tls
        self._on_received = on_received
        self._receiver = config.policy.make_receiver(replicated_log, config.sync_flush)
        self._link: HaLink | None = None
        self._master_address = config.master_address
        self._master_is_new = asyncio.Event()
        self._heard_peers_at_ns: int | None = None

    # Commands

    def set_master_address(self, address: str) -> None:
        """Set the HA address of the master, as a name server has sent it. A configured address takes precedence."""
        if self._config.master_address is not None or address == self._master_address:
            return
        self._master_address = address
        self._master_is_new.set()
        self.end_link()

    def end_link(self) -> None:
        if self._link is not None:
            self._link.end(None)

    @property
    def is_following(self) -> bool:
        """Whether the present connection is to the master, not to another peer."""
        return self._link is not None and self._link.receiver is self._receiver

    def is_replica(self, host: str) -> bool:
        """Whether `host` is the host of a known replica."""
        master = self._master_address
        known = self._config.peers if master is None else (*self._config.peers, master)
        return host in map(host_of, known)

    def is_other_slave(self, host: str) -> bool:
        """Whether a peer that connects from `host` can only be another slave."""
        slaves = [peer for peer in self._config.peers if peer != self._master_address]
        masters = (self._master_address,) if self._master_address is not None else ()
        return bool(masters) and host in map(host_of, slaves) and host not in map(host_of, masters)

    def acknowledge(self) -> None:
        """Report to the master that the log is flushed further."""
        if self._link is not None and self.is_following:
            self._link.write(self._receiver.report())

    def tick(self, silent_since_ns: int) -> None:
        """Repeat the last report as a sign of life, and end a silent link; call once a heartbeat interval."""
        link = self._link
        if link is not None and link.received_at_ns < silent_since_ns:
            link.end(ReplicationError("the sender is silent"))
        elif link is not None and self.is_following and not link.say_first():
            link.write(self._receiver.repeat_report())

    # As a slave

    async def follow_master(self) -> None:
        """Copy the master's log until cancelled; without a master, copy from the other slaves."""
        while True:
            self._master_is_new.clear()
            reason = await self._follow_once()
            if isinstance(reason, Reconnect):
                self.log.info("replication starts from another position", reason=str(reason))
                continue
            if isinstance(reason, ReplicationError):
                self.log.warning("replication was interrupted", reason=str(reason))
            elif isinstance(reason, ssl.SSLError | TlsError):
                self.log.warning("no TLS for replication", reason=str(reason))
            if self._config.policy.fetches_missing:
                await self._fetch_from_slaves()
            await self._pause()

    async def _pause(self) -> None:
        """Wait before the next attempt, at most until another master is announced."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._config.reconnect_delay_s):
                await self._master_is_new.wait()

    async def _follow_once(self) -> Exception | None:
        if self._master_address is None:
            await self._pause()
        if self._master_address is None:
            return None
        return await self._converse(
            self._master_address,
            self._receiver,
            self._received_from_master,
            speaks_first=self._config.policy.reports_at_once,
            connect_s=CONNECT_TIMEOUT_S,
            silence_max_s=None,
        )

    def _received_from_master(self, link: HaLink) -> None:
        link.write(self._receiver.report())
        self._on_received()

    async def _fetch_from_slaves(self) -> None:
        """Fetch from every other slave once, unless that was done within ORPHAN_ROUND_S."""
        now_ns = self.now_ns()
        heard_ns = self._heard_peers_at_ns
        if heard_ns is not None and now_ns - heard_ns < ORPHAN_ROUND_S * NS_PER_S:
            return
        self._heard_peers_at_ns = now_ns
        for peer in self._config.peers:
            if peer != self._master_address:
                await self.hear(peer)

    # From any replica

    async def hear(self, peer: str) -> bool:
        """Fetch what a replica has beyond our end; False if the connection ended before that was complete."""
        receiver = CatchUpReceiver(self._replicated_log)
        before = self._replicated_log.end_offset

        def after_receive(link: HaLink) -> None:
            self._on_received()
            if receiver.complete:
                link.end(None)

        reason = await self._converse(
            peer,
            receiver,
            after_receive,
            speaks_first=True,
            connect_s=PEER_SILENCE_MAX_S,
            silence_max_s=PEER_SILENCE_MAX_S,
        )
        if isinstance(reason, Diverged):
            self.log.error("peer is ignored in catch-up", peer=peer, reason=str(reason))
            return True
        fetched = self._replicated_log.end_offset - before
        if receiver.complete:
            self.log.info("peer was heard in catch-up", peer=peer, fetched_bytes=fetched)
        return receiver.complete

    async def _converse(
        self,
        address: str,
        receiver: Receiver,
        after_receive: Callable[[HaLink], None],
        *,
        speaks_first: bool,
        connect_s: float,
        silence_max_s: float | None,
    ) -> Exception | None:
        """Hold one connection until it ends; return why. `silence_max_s` None: `tick` ends a silent one."""
        link = HaLink(self, receiver, after_receive=after_receive, speaks_first=speaks_first)
        try:
            host, port = parse_address(address)
            tls = self._tls.replica_client_context() if self._tls is not None else None
            async with asyncio.timeout(connect_s):
                await asyncio.get_running_loop().create_connection(
                    lambda: link, host, port, ssl=tls
                )
            self._link = link
            return await self._end_of(link, silence_max_s)
        except (OSError, TimeoutError, ValueError, TlsError) as error:
            return error
        finally:
            self._link = None
            link.end(None)

    async def _end_of(self, link: HaLink, silence_max_s: float | None) -> Exception | None:
        while True:
            heard_at_ns = link.received_at_ns
            try:
                async with asyncio.timeout(silence_max_s):
                    return await asyncio.shield(link.ended)
            except TimeoutError:
                if link.received_at_ns == heard_at_ns:
                    return ReplicationError(f"the peer said nothing for {silence_max_s} s")
