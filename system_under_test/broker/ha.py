"""The asyncio shell of replication: the HA port, the link to the master, and the catch-up of a restarted master.

The protocol itself is in `system_under_test.store.replication`. Everything here is woken by events; one timer of 5 s
sends heartbeats and ends silent connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from system_under_test.broker.config import BrokerConfig
from system_under_test.broker.ha_connections import HaLink, HaSenderConnection, Receiver
from system_under_test.broker.periodic import PeriodicJob
from system_under_test.env import Env
from system_under_test.remoting import parse_address
from system_under_test.store.replica_receiver import (
    CatchUpReceiver,
    Diverged,
    Reconnect,
    ReplicaReceiver,
    cut_partial_record,
)
from system_under_test.store.replication import ReplicaSender, ReplicatedLog, ReplicationError

NS_PER_S = 1_000_000_000
CONNECT_TIMEOUT_S = 5.0  # RocketMQ: HAClient.connectMaster


@dataclass(frozen=True, slots=True, kw_only=True)
class HaConfig:
    """Options of HaService. `peers` are the HA addresses of the other replicas, for the catch-up of a master."""

    host: str
    port: int
    flushed_only: bool  # sync flush: send and acknowledge only what is flushed
    follows_master: bool  # this broker is a slave
    master_address: str | None
    peers: tuple[str, ...]
    fall_behind_max: int
    heartbeat_interval_s: float
    silence_max_s: float
    reconnect_delay_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HaEvents:
    """What HaService tells the broker. All are called on the loop."""

    on_progress: Callable[[], None]  # a replica has acknowledged more
    on_slaves_lost: Callable[[], None]  # a replica has gone
    on_received: Callable[[], None]  # bytes were appended to the own log, or could not be
    on_caught_up: Callable[[], Awaitable[None]]  # makes the log durable and visible before `ready`


class HaService:
    """Replication of one broker: serves its log in every role, follows the master as a slave.

    `ready` becomes True once the log holds everything that the peers have (or `lift` was called).
    """

    def __init__(self, env: Env, log: ReplicatedLog, config: HaConfig, events: HaEvents) -> None:
        self.log = env.log
        self.ready = False
        self.replicated_offset = 0  # the log up to here is on at least one replica
        self.now_ns = env.clock.monotonic_ns
        self._replicated_log = log
        self._config = config
        self._events = events
        self._senders: list[HaSenderConnection] = []
        self._link: HaLink | None = None
        self._receiver = ReplicaReceiver(log, flushed_only=config.flushed_only)
        self._master_address = config.master_address
        self._master_known = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._catch_up_task: asyncio.Task[None] | None = None
        self._tick = PeriodicJob(
            env.log, "ha heartbeat", config.heartbeat_interval_s, self._on_tick
        )

    async def start(self, *, catch_up: bool) -> None:
        """Listen on the HA port, follow the master as a slave, and become ready, after the catch-up if it is needed."""
        loop = asyncio.get_running_loop()
        config = self._config
        self._server = await loop.create_server(self._accept, config.host, config.port)
        self._tick.start()
        if config.follows_master:
            if self._master_address is not None:
                self._master_known.set()
            self._tasks.append(loop.create_task(self._follow_master()))
        if catch_up:
            self._catch_up_task = loop.create_task(self._catch_up())
            self._tasks.append(self._catch_up_task)
        else:
            await self._become_ready()

    async def stop(self) -> None:
        """Close the port and all connections."""
        self._tick.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            self._server.close()
        if self._link is not None:
            self._link.end(None)
        for connection in list(self._senders):
            connection.abort()

    def set_master_address(self, address: str) -> None:
        """The HA address of the master, learned from a name server. A configured one wins."""
        if self._config.master_address is not None or address == self._master_address:
            return
        self._master_address = address
        self._master_known.set()
        if self._link is not None:
            self._link.end(None)

    @property
    def is_following(self) -> bool:
        """Whether this broker is connected to its master."""
        return self._link is not None

    # As a sender

    @property
    def replicas(self) -> int:
        """How many replicas have asked for the log and are connected."""
        return sum(connection.sender.requested_offset is not None for connection in self._senders)

    def slave_available(self, end_offset: int) -> bool:
        """Whether some replica reported lately and is close enough to be waited for (RocketMQ, isSlaveOK)."""
        if not self._senders:
            return False
        config = self._config
        alive_since_ns = self.now_ns() - int(config.silence_max_s * NS_PER_S)
        for connection in self._senders:
            sender = connection.sender
            if sender.requested_offset is None or connection.reported_at_ns < alive_since_ns:
                continue
            known = sender.requested_offset if sender.acked_offset is None else sender.acked_offset
            if end_offset - config.fall_behind_max < known <= end_offset:
                return True
        return False

    def notify_append(self) -> None:
        """The log has grown (with sync flush: has been flushed further): feed the replicas."""
        for connection in self._senders:
            connection.pump()

    def sender_opened(self, connection: HaSenderConnection) -> None:
        self._senders.append(connection)
        if self._config.follows_master and self._link is not None:
            # Only a master that catches up reads from a slave: a new one. What the old one left in the network must
            # not arrive after the new one has heard all that we have.
            self._link.end(None)

    def sender_advanced(self, sender: ReplicaSender) -> None:
        assert sender.acked_offset is not None
        if sender.acked_offset > self.replicated_offset:
            self.replicated_offset = sender.acked_offset
            self._events.on_progress()

    def sender_closed(self, connection: HaSenderConnection) -> None:
        if connection in self._senders:
            self._senders.remove(connection)
            self._events.on_slaves_lost()

    def _accept(self) -> HaSenderConnection:
        sender = ReplicaSender(self._replicated_log, flushed_only=self._config.flushed_only)
        return HaSenderConnection(self, sender)

    def _on_tick(self) -> None:
        silent_since_ns = self.now_ns() - int(self._config.silence_max_s * NS_PER_S)
        for connection in list(self._senders):
            if connection.reported_at_ns < silent_since_ns:
                self.log.warning("replica is silent", silence_max_s=self._config.silence_max_s)
                connection.abort()
            else:
                connection.tick()
        link = self._link
        if link is not None and link.received_at_ns < silent_since_ns:
            link.end(ReplicationError("the sender is silent"))
        elif link is not None and self._config.follows_master:
            link.write(self._receiver.repeat_report())

    # As a slave

    def notify_flushed(self) -> None:
        """The log is flushed further: acknowledge it to the master."""
        if self._link is not None and self._config.follows_master:
            self._link.write(self._receiver.report())

    async def _follow_master(self) -> None:
        while True:
            await self._master_known.wait()
            assert self._master_address is not None
            reason = await self._converse(self._master_address, self._receiver, self._acknowledge)
            if isinstance(reason, Reconnect):
                self.log.info("replication starts from another position", reason=str(reason))
                continue
            if isinstance(reason, ReplicationError):
                self.log.warning("replication was interrupted", reason=str(reason))
            await asyncio.sleep(self._config.reconnect_delay_s)

    def _acknowledge(self, link: HaLink) -> None:
        link.write(self._receiver.report())
        self._events.on_received()

    async def _converse(
        self, address: str, receiver: Receiver, after_receive: Callable[[HaLink], None]
    ) -> Exception | None:
        """Hold one connection until it ends; return why."""
        link = HaLink(self, receiver, after_receive=after_receive)
        try:
            host, port = parse_address(address)
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await asyncio.get_running_loop().create_connection(lambda: link, host, port)
            self._link = link
            return await link.ended
        except (OSError, TimeoutError, ValueError) as error:
            return error
        finally:
            self._link = None
            link.end(None)

    # Catch-up of a master

    async def _catch_up(self) -> None:
        """Fetch from every peer what it has beyond our end; then be ready. Waits for as long as it takes."""
        for peer in self._config.peers:
            while not await self._has_heard(peer):
                await asyncio.sleep(self._config.reconnect_delay_s)
        await self._become_ready()

    async def _has_heard(self, peer: str) -> bool:
        receiver = CatchUpReceiver(self._replicated_log)
        before = self._replicated_log.end_offset

        def after_receive(link: HaLink) -> None:
            self._events.on_received()
            if receiver.complete:
                link.end(None)

        reason = await self._converse(peer, receiver, after_receive)
        if isinstance(reason, Diverged):
            self.log.error("peer is ignored in catch-up", peer=peer, reason=str(reason))
            return True
        fetched = self._replicated_log.end_offset - before
        if receiver.complete:
            self.log.info("peer was heard in catch-up", peer=peer, fetched_bytes=fetched)
        return receiver.complete

    async def lift(self) -> None:
        """Accept sends although not every peer was heard: whatever only they have will be lost."""
        if not self.ready:
            self.log.warning("catch-up was lifted", peers=self._config.peers)
            if self._catch_up_task is not None:
                self._catch_up_task.cancel()
            await self._become_ready()

    async def _become_ready(self) -> None:
        cut = cut_partial_record(self._replicated_log)
        if cut:
            self.log.info("half record of the catch-up was cut", size_bytes=cut)
        await self._events.on_caught_up()
        self.ready = True


def make_ha_config(config: BrokerConfig) -> HaConfig:
    return HaConfig(
        host=config.listen_host,
        port=config.ha_port,
        flushed_only=config.sync_flush,
        follows_master=config.is_slave,
        master_address=config.ha_master_address,
        peers=config.ha_peers,
        fall_behind_max=config.ha_fall_behind_max,
        heartbeat_interval_s=config.ha_heartbeat_interval_s,
        silence_max_s=config.ha_silence_max_s,
        reconnect_delay_s=config.ha_reconnect_delay_s,
    )
