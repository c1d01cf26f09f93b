"""The HA port lets in the hosts that haAllowedAddresses lists: over real sockets, and in a simulated cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, cast

import pytest

from harness.local_cluster.ports import free_ports
from system_under_test.broker.config import BrokerConfig, BrokerRole
from system_under_test.broker.replication.ha import HaService
from system_under_test.broker.replication.ha_config import HaEvents, make_ha_config
from system_under_test.policies import HARDENED_REPLICATION
from system_under_test.protocol.codes import RequestCode
from system_under_test.real_env import make_env
from tests.system_under_test.broker.simulated_brokers import (
    MASTER,
    OK,
    SLAVE,
    SLAVE_NOT_AVAILABLE,
    Client,
    Cluster,
)
from tests.system_under_test.remoting.manual_loop import MemoryLog as Events
from tests.system_under_test.store.memory_log import MemoryLog

LOOPBACK = "127.0.0.1"
LIMIT_S = 20.0  # only a failed test waits for so long


class Replica:
    """Replication of one broker on loopback, over a log in memory."""

    def __init__(self, port: int, **options: Any) -> None:
        config = BrokerConfig(
            broker_name="a", listen_host=LOOPBACK, listen_port=port - 1, **options
        )
        self.events = Events()
        self.log = MemoryLog()
        self.received = asyncio.Event()
        self.port = port

        async def nothing(*_: object) -> bool:
            return True

        events = HaEvents(
            on_progress=lambda: None,
            on_slaves_lost=lambda: None,
            on_received=self.received.set,
            on_peer_heard=nothing,
            on_caught_up=cast(Any, nothing),
        )
        self.ha = HaService(
            replace(make_env("a"), log=self.events),
            self.log,
            make_ha_config(config, HARDENED_REPLICATION),
            events,
        )

    def warnings(self) -> list[dict[str, object]]:
        return [{"event": event, **fields} for _, event, fields in self.events.events]


@asynccontextmanager
async def pair(**options: Any) -> AsyncIterator[tuple[Replica, Replica]]:
    """A master with these options, which has a message, and a slave without any."""
    first, second = free_ports(2)
    master = Replica(first, **options)
    slave = Replica(
        second,
        role=BrokerRole.SLAVE,
        broker_id=1,
        ha_master_address=f"{LOOPBACK}:{first}",
    )
    master.log.put(b"message")
    for replica in (master, slave):
        await replica.ha.start(catch_up=False)
    try:
        async with asyncio.timeout(LIMIT_S):
            yield master, slave
    finally:
        for replica in (master, slave):
            await replica.ha.stop()


async def until(happened: Callable[[], object]) -> None:
    while not happened():
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("hosts", [(), (LOOPBACK,), ("10.0.0.1", "127.0.0.0/8")])
def test_a_listed_replica_gets_the_log(hosts: tuple[str, ...]) -> None:
    async def run() -> None:
        async with pair(ha_hosts=hosts) as (master, slave):
            await slave.received.wait()
            assert slave.log.data == master.log.data
            await until(lambda: master.ha.slave_available(master.log.end_offset))

    asyncio.run(run())


def test_another_replica_is_refused_and_logged_once() -> None:
    async def run() -> None:
        async with pair(ha_hosts=("127.0.0.2",)) as (master, slave):
            await until(lambda: master.warnings())
            reader, writer = await asyncio.open_connection(LOOPBACK, master.port)
            writer.write(bytes(8))
            with suppress(ConnectionResetError):  # the other way in which a connection ends
                assert await reader.read() == b""
            writer.close()
            assert (master.ha.replicas, bytes(slave.log.data)) == (0, b"")
            assert not master.ha.slave_available(master.log.end_offset)
            refusal = "replica was refused: haAllowedAddresses does not list it"
            assert master.warnings() == [{"event": refusal, "peer": LOOPBACK}]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("hosts", "status"), [((MASTER, SLAVE), OK), (("10.9.0.0/16",), SLAVE_NOT_AVAILABLE)]
)
def test_sends_do_not_count_on_a_replica_that_is_refused(
    hosts: tuple[str, ...], status: int
) -> None:
    cluster = Cluster(ha_hosts=hosts)

    async def story(client: Client) -> None:
        cluster.start_master()
        cluster.start_slave()
        await asyncio.sleep(2)
        await client.ask(MASTER, RequestCode.LIFT_CATCH_UP)
        assert await client.send() == status

    cluster.run(story)
