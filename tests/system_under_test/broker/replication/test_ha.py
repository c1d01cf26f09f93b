"""Replication of one broker whose connections are in memory: which replicas count, and to whom a slave reports."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, cast

import pytest

from staticfire.system_under_test.broker.config import BrokerConfig, BrokerRole
from staticfire.system_under_test.broker.policies.policies import (
    FAITHFUL_REPLICATION,
    HARDENED_REPLICATION,
)
from staticfire.system_under_test.broker.replication.ha import HaService
from staticfire.system_under_test.broker.replication.ha_config import HaEvents, make_ha_config
from staticfire.system_under_test.broker.replication.ha_connections import HaSenderConnection
from staticfire.system_under_test.broker.replication.ha_follower import HaFollower
from staticfire.system_under_test.runtime.env import Env, Storage
from staticfire.system_under_test.store.replication.replication import HEADER, REPORT, ReplicaSender
from staticfire.system_under_test.store.replication.replication_policy import ReplicationPolicy
from tests.system_under_test.broker.bench import HandClock
from tests.system_under_test.client.virtual_time import in_virtual_time
from tests.system_under_test.remoting.manual_loop import ManualLoop, MemoryTransport
from tests.system_under_test.remoting.manual_loop import MemoryLog as Events
from tests.system_under_test.store.memory_log import MemoryLog

PEER, MASTER = "10.0.0.2:10912", "10.0.0.9:10912"


class Replication:
    """One broker's. The log has one record."""

    def __init__(
        self, role: BrokerRole, policy: ReplicationPolicy = HARDENED_REPLICATION, **options: Any
    ) -> None:
        async def never(*_: object) -> bool:
            raise AssertionError("there is no catch-up here")

        self.clock = HandClock()
        self.log = MemoryLog()
        self.log.put(bytes(100))
        self.log.flush()
        broker = BrokerConfig(broker_name="a", role=role, listen_host="10.0.0.1", **options)
        self.config = make_ha_config(broker, policy)
        self.events = HaEvents(
            on_progress=_nothing,
            on_slaves_lost=_nothing,
            on_received=_nothing,
            on_peer_heard=never,
            on_caught_up=cast(Any, never),
        )
        self.env = Env(
            name="a",
            storage=cast(Storage, None),
            clock=self.clock,
            random=Random(1),
            log=Events(),
        )

    def make_service(self) -> HaService:
        return HaService(self.env, self.log, self.config, self.events)

    def make_follower(self) -> HaFollower:
        return HaFollower(
            self.env.log,
            self.log,
            self.config,
            None,
            now_ns=self.clock.monotonic_ns,
            on_received=_nothing,
        )


def _nothing() -> None:
    pass


@pytest.fixture
def replication() -> Replication:
    return Replication(BrokerRole.SYNC_MASTER)


@pytest.fixture
def service(replication: Replication) -> HaService:
    return replication.make_service()


@pytest.fixture
def replica(replication: Replication, service: HaService) -> HaSenderConnection:
    """The connection of a replica that has said nothing yet."""
    connection = HaSenderConnection(service, ReplicaSender(replication.log, flushed_only=False))
    connection.connection_made(MemoryTransport(ManualLoop(), connection))
    return connection


def test_a_replica_counts_once_it_has_asked(
    replication: Replication, service: HaService, replica: HaSenderConnection
) -> None:
    end_offset = replication.log.end_offset
    assert not service.slave_available(end_offset)
    replica.data_received(REPORT.pack(end_offset))
    assert service.slave_available(end_offset)


def test_a_silent_replica_is_not_waited_for_until_it_reports_again(
    replication: Replication, service: HaService, replica: HaSenderConnection
) -> None:
    end_offset = replication.log.end_offset
    replica.data_received(REPORT.pack(end_offset))
    replication.clock.move(replication.config.silence_max_s)
    assert service.slave_available(end_offset)
    replication.clock.move(0.001)
    assert not service.slave_available(end_offset)
    replica.data_received(REPORT.pack(end_offset))
    assert service.slave_available(end_offset)


def test_a_replica_gets_what_came_while_its_connection_was_full(
    replication: Replication, replica: HaSenderConnection
) -> None:
    transport = cast(MemoryTransport, replica._transport)

    def written() -> int:
        return len(b"".join(transport.writes))

    replica.data_received(REPORT.pack(replication.log.end_offset))
    for _ in range(2):
        replica.pause_writing()
        end_offset = replication.log.end_offset
        replication.log.put(bytes(100))
        replication.log.flush()
        before = written()
        replica.pump()
        assert written() == before
        replica.resume_writing()
        assert written() == before + HEADER.size + replication.log.end_offset - end_offset


def test_a_replica_that_is_far_behind_is_not_waited_for(
    replication: Replication, service: HaService, replica: HaSenderConnection
) -> None:
    end_offset = replication.log.end_offset
    replica.data_received(REPORT.pack(end_offset))
    behind_max = replication.config.fall_behind_max
    assert service.slave_available(end_offset + behind_max - 1)
    assert not service.slave_available(end_offset + behind_max)
    assert not service.slave_available(end_offset - 1)  # it has what this log does not have


def test_faithful_a_replica_counts_from_its_connection_on() -> None:
    """RocketMQ, isSlaveOK: what some replica has acknowledged is all that is asked."""
    replication = Replication(BrokerRole.SYNC_MASTER, FAITHFUL_REPLICATION)
    service = replication.make_service()
    assert not service.slave_available(0)
    replica = HaSenderConnection(service, ReplicaSender(replication.log, flushed_only=False))
    replica.connection_made(MemoryTransport(ManualLoop(), replica))
    behind_max = replication.config.fall_behind_max
    assert service.slave_available(behind_max - 1)
    assert not service.slave_available(behind_max)


class Network:
    """Connections of a running loop that end in memory; `made` has their transports, the newest last."""

    def __init__(self) -> None:
        self.loop = ManualLoop()
        self.made: list[MemoryTransport] = []
        self._protocols: list[asyncio.Protocol] = []
        cast(Any, asyncio.get_running_loop()).create_connection = self._connect

    async def _connect(self, factory: Callable[[], asyncio.Protocol], *_: Any, **__: Any) -> Any:
        self._protocols.append(factory())
        self.made.append(MemoryTransport(self.loop, self._protocols[-1]))
        self._protocols[-1].connection_made(self.made[-1])
        return self.made[-1], self._protocols[-1]

    def receive(self, data: bytes) -> None:
        self._protocols[-1].data_received(data)


@in_virtual_time
async def test_a_slave_reports_a_flush_to_its_master_alone() -> None:
    """And not to another slave, from which it fetches what it lacks when its master has gone."""
    replication = Replication(
        BrokerRole.SLAVE,
        broker_id=1,
        sync_flush=True,
        ha_master_address=MASTER,
        ha_peers=(PEER,),
    )
    log = replication.log
    network = Network()
    follower = replication.make_follower()
    follower.acknowledge()  # there is no connection
    task = asyncio.get_running_loop().create_task(follower.follow_master())
    await asyncio.sleep(0.1)
    masters = MemoryLog()
    for _ in range(3):
        masters.put(bytes(100))
    network.receive(HEADER.pack(0, masters.end_offset) + masters.data)
    assert log.data == masters.data
    (master,) = network.made
    master.writes.clear()
    log.flush()
    follower.acknowledge()
    assert master.writes == [REPORT.pack(log.end_offset)]

    masters.put(bytes(100))
    network.receive(HEADER.pack(log.end_offset, 108) + masters.data[-108:])
    follower.end_link()
    network.loop.turn()
    await asyncio.sleep(0.1)
    assert len(network.made) == 2
    peer = network.made[-1]
    peer.writes.clear()
    log.flush()
    follower.acknowledge()
    assert peer.writes == []
    task.cancel()
