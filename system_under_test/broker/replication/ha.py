"""Replication over asyncio: the HA port, and the catch-up of a restarted master (RocketMQ, HAService).

The protocol itself is in `store/replication/replication.py`, the reading side in `ha_follower`. Events drive
everything here; one timer of 5 s sends heartbeats and ends silent connections.
"""

from __future__ import annotations

import asyncio

from staticfire.system_under_test.broker.periodic import PeriodicJob
from staticfire.system_under_test.broker.replication.ha_admission import HaAdmission
from staticfire.system_under_test.broker.replication.ha_config import HaConfig, HaEvents
from staticfire.system_under_test.broker.replication.ha_connections import HaSenderConnection
from staticfire.system_under_test.broker.replication.ha_follower import NS_PER_S, HaFollower
from staticfire.system_under_test.remoting import listen
from staticfire.system_under_test.remoting.connection_limit import ConnectionLimit, TurnedAway
from staticfire.system_under_test.runtime.ending import end_tasks
from staticfire.system_under_test.runtime.env import Env
from staticfire.system_under_test.store.config_changes import take_over
from staticfire.system_under_test.store.replication.replica_receiver import cut_partial_record
from staticfire.system_under_test.store.replication.replication import ReplicaSender, ReplicatedLog

# short, as a peer that starts with us will be up in a moment; each further attempt waits twice as long
CATCH_UP_RETRY_S = 0.1
REPLICAS_MAX = 256  # connections to the HA port; RocketMQ has no limit


class HaService:
    """Replication of one broker: serves its log in every role; as a slave also follows the master.

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
        self._limit = ConnectionLimit(min(env.connections_max, REPLICAS_MAX), env.log)
        self._admission = HaAdmission(env, config.hosts)
        self._follower = HaFollower(
            env.log, log, config, env.tls, now_ns=self.now_ns, on_received=events.on_received
        )
        self._server: asyncio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._catch_up_task: asyncio.Task[None] | None = None
        self._tick = PeriodicJob(
            env.log, "ha heartbeat", lambda: config.heartbeat_interval_s, self._on_tick
        )

    async def start(self, *, catch_up: bool) -> None:
        """Listen on the HA port, follow the master if a slave, and become ready, with `catch_up` after the catch-up."""
        loop = asyncio.get_running_loop()
        config = self._config
        self._server = await listen(self._accept, config.host, config.port)
        self._tick.start()
        if config.follows_master:
            self._tasks.append(loop.create_task(self._follower.follow_master()))
        if catch_up:
            self._catch_up_task = loop.create_task(self._catch_up())
            self._tasks.append(self._catch_up_task)
        else:
            await self._become_ready()

    async def stop(self) -> None:
        """Close the port and all connections."""
        self._tick.stop()
        await end_tasks(self._tasks)
        if self._server is not None:
            self._server.close()
        await self._admission.close()
        self._follower.end_link()
        for connection in list(self._senders):
            connection.abort()

    def options_changed(self, config: HaConfig) -> None:
        """Apply changed options that may change while replication runs."""
        take_over(self._config, config)

    def set_master_address(self, address: str) -> None:
        """Set the HA address of the master, as a name server has sent it. A configured address takes precedence."""
        self._follower.set_master_address(address)

    @property
    def is_following(self) -> bool:
        """Whether this broker is connected to its master."""
        return self._follower.is_following

    # As a sender

    @property
    def replicas(self) -> int:
        """The number of connected replicas that have requested the log."""
        return sum(connection.sender.requested_offset is not None for connection in self._senders)

    def slave_available(self, end_offset: int) -> bool:
        """Whether a send may wait for some replica: it reported lately and is close enough (RocketMQ, isSlaveOK)."""
        if not self._senders:
            return False
        config = self._config
        if config.policy.counts_from_accept:
            return end_offset - self.replicated_offset < config.fall_behind_max
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
        """Send to the replicas: the log has grown or, with sync flush, has been flushed further."""
        for connection in self._senders:
            connection.pump()

    def sender_opened(self, connection: HaSenderConnection) -> None:
        self._senders.append(connection)
        if self._follower.is_replica(connection.peer_host):
            self._may_be_new_master(connection)

    def sender_asked(self, connection: HaSenderConnection) -> None:
        """A replica requests the log; it gets nothing before this returns."""
        # Any host can connect; one whose address is not that of a known replica counts once it sends a request.
        if not self._follower.is_replica(connection.peer_host):
            self._may_be_new_master(connection)

    def _may_be_new_master(self, connection: HaSenderConnection) -> None:
        """End the link to the old master if this may be a new one that catches up: only then does a master read here.

        Bytes of the old one that are still in the network must not arrive after the new one has got all that we have.
        """
        if self._config.follows_master and not self._follower.is_other_slave(connection.peer_host):
            self._follower.end_link()

    def sender_advanced(self, sender: ReplicaSender) -> None:
        assert sender.acked_offset is not None
        if sender.acked_offset > self.replicated_offset:
            self.replicated_offset = sender.acked_offset
            self._events.on_progress()

    def sender_closed(self, connection: HaSenderConnection) -> None:
        if connection in self._senders:
            self._senders.remove(connection)
            self._events.on_slaves_lost()

    def _accept(self) -> asyncio.Protocol:
        if not self._limit.admits(len(self._senders) + self._admission.waiting):
            return TurnedAway()
        log, config = self._replicated_log, self._config
        policy = config.policy
        sender = ReplicaSender(
            log,
            flushed_only=config.sync_flush and not policy.sends_unflushed,
            start_of_new=lambda: policy.start_of_new_replica(log, config.log_file_size),
            believes_requests=policy.believes_requests,
        )
        return self._admission.protocol_for(HaSenderConnection(self, sender))

    def _on_tick(self) -> None:
        silent_since_ns = self.now_ns() - int(self._config.silence_max_s * NS_PER_S)
        for connection in list(self._senders):
            if connection.reported_at_ns < silent_since_ns:
                self.log.warning("replica is silent", silence_max_s=self._config.silence_max_s)
                connection.abort()
            else:
                connection.tick()
        self._follower.tick(silent_since_ns)

    def notify_flushed(self) -> None:
        """On a slave: acknowledge to the master that the log is flushed further."""
        self._follower.acknowledge()

    # Catch-up of a master

    async def _catch_up(self) -> None:
        """Fetch from every peer what it has beyond our end, then become ready. Waits as long as it takes."""
        for peer in self._config.peers:
            delay_s = CATCH_UP_RETRY_S
            while not await self._has_given_everything(peer):
                await asyncio.sleep(delay_s)
                delay_s = min(2 * delay_s, self._config.reconnect_delay_s)
        await self._become_ready()

    async def _has_given_everything(self, peer: str) -> bool:
        return await self._follower.hear(peer) and await self._events.on_peer_heard(peer)

    async def lift(self) -> bool:
        """Accept sends although not every peer has answered: messages that only they have will be lost.

        Returns whether there was a catch-up to lift.
        """
        if self.ready:
            return False
        self.log.warning("catch-up was lifted", peers=self._config.peers)
        if self._catch_up_task is not None:
            self._catch_up_task.cancel()
        await self._become_ready()
        return True

    async def _become_ready(self) -> None:
        cut = cut_partial_record(self._replicated_log)
        if cut:
            self.log.info("half record of the catch-up was cut", size_bytes=cut)
        await self._events.on_caught_up()
        self.ready = True
