"""The HA port lets in hosts that are listed and, with TLS, certificates that are trusted: over real sockets, mostly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest

from staticfire.harness.local_cluster.ports import free_ports
from staticfire.system_under_test.broker.config import BrokerConfig, BrokerRole
from staticfire.system_under_test.broker.policies.policies import HARDENED_REPLICATION
from staticfire.system_under_test.broker.replication import ha
from staticfire.system_under_test.broker.replication.ha import HaService
from staticfire.system_under_test.broker.replication.ha_config import HaEvents, make_ha_config
from staticfire.system_under_test.broker.replication.ha_connections import HaSenderConnection
from staticfire.system_under_test.configuration.real_tls import (
    RealTls,
    TlsOptions,
    make_test_certificate,
)
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.remoting.connection_limit import TurnedAway
from staticfire.system_under_test.runtime.real_env import make_env
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
MESSAGES = 400  # more than one TLS record
LIMIT_S = 20.0  # only a failed test waits for so long


class Replica:
    """Replication of one broker on loopback, over a log in memory."""

    def __init__(self, port: int, *, tls: TlsOptions | None = None, **options: Any) -> None:
        config = BrokerConfig(
            broker_name="a", listen_host=LOOPBACK, listen_port=port - 1, **options
        )
        self.events = Events()
        self.log = MemoryLog()
        self.port = port

        async def nothing(*_: object) -> bool:
            return True

        events = HaEvents(
            on_progress=lambda: None,
            on_slaves_lost=lambda: None,
            on_received=lambda: None,
            on_peer_heard=nothing,
            on_caught_up=cast(Any, nothing),
        )
        self.ha = HaService(
            replace(make_env("a"), log=self.events, tls=RealTls(tls or TlsOptions())),
            self.log,
            make_ha_config(config, HARDENED_REPLICATION),
            events,
        )

    def refusals(self) -> list[str]:
        """Why replicas were refused, as the log has it."""
        return [
            str(fields["reason"])
            for _, event, fields in self.events.events
            if event == "replica was refused" and fields["peer"] == LOOPBACK
        ]


@asynccontextmanager
async def pair(
    *, slave_tls: TlsOptions | None = None, **options: Any
) -> AsyncIterator[tuple[Replica, Replica]]:
    """A master with these options, which has messages, and a slave without any."""
    first, second = free_ports(2)
    master = Replica(first, **options)
    slave = Replica(
        second,
        role=BrokerRole.SLAVE,
        broker_id=1,
        ha_master_address=f"{LOOPBACK}:{first}",
        tls=slave_tls,
    )
    for _ in range(MESSAGES):
        master.log.put(bytes(900))
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
            await until(lambda: slave.log.data == master.log.data)
            await until(lambda: master.ha.slave_available(master.log.end_offset))
            assert master.refusals() == []

    asyncio.run(run())


def test_another_replica_is_refused_and_logged_once() -> None:
    async def run() -> None:
        async with pair(ha_hosts=("127.0.0.2",)) as (master, slave):
            await until(master.refusals)
            reader, writer = await asyncio.open_connection(LOOPBACK, master.port)
            writer.write(bytes(8))
            with suppress(ConnectionResetError):  # the other way in which a connection ends
                assert await reader.read() == b""
            writer.close()
            assert (master.ha.replicas, bytes(slave.log.data)) == (0, b"")
            assert not master.ha.slave_available(master.log.end_offset)
            assert master.refusals() == ["haAllowedAddresses does not list it"]

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


# TLS


@cache
def made_pair(_name: str) -> tuple[bytes, bytes]:
    return make_test_certificate()


@pytest.fixture
def files(tmp_path: Path) -> Callable[[str, str], TlsOptions]:
    """Options of a broker with the certificate of the first name, which trusts that of the second."""

    def options(own: str, trusted: str) -> TlsOptions:
        for name in (own, trusted):
            certificate, key = made_pair(name)
            (tmp_path / f"{name}.pem").write_bytes(certificate)
            (tmp_path / f"{name}.key").write_bytes(key)
        return TlsOptions(
            ha_certificate=str(tmp_path / f"{own}.pem"),
            ha_key=str(tmp_path / f"{own}.key"),
            ha_trust=str(tmp_path / f"{trusted}.pem"),
        )

    return options


Files = Callable[[str, str], TlsOptions]


def test_a_replica_with_a_trusted_certificate_gets_the_log(files: Files) -> None:
    async def run() -> None:
        tls = {"tls": files("first", "second"), "slave_tls": files("second", "first")}
        async with pair(ha_hosts=(LOOPBACK,), **tls) as (master, slave):
            await until(lambda: slave.log.data == master.log.data)
            await until(lambda: master.ha.slave_available(master.log.end_offset))
            master.log.put(b"later")
            master.ha.notify_append()
            await until(lambda: slave.log.data == master.log.data)
            assert master.refusals() == []

    asyncio.run(run())


@pytest.mark.parametrize(
    ("slave_certificates", "reason"),
    [
        (("other", "first"), "CERTIFICATE_VERIFY_FAILED"),
        (None, ""),  # a slave that speaks no TLS, such as Apache's
    ],
)
def test_a_replica_without_a_trusted_certificate_is_refused(
    slave_certificates: tuple[str, str] | None, reason: str, files: Files
) -> None:
    async def run() -> None:
        slave_tls = None if slave_certificates is None else files(*slave_certificates)
        async with pair(tls=files("first", "second"), slave_tls=slave_tls) as (master, slave):
            await until(master.refusals)
            assert (master.ha.replicas, bytes(slave.log.data)) == (0, b"")
            [refusal, *_] = master.refusals()
            assert refusal.startswith("no TLS: ")
            assert reason in refusal

    asyncio.run(run())


def test_a_slave_believes_no_master_without_a_trusted_certificate(files: Files) -> None:
    async def run() -> None:
        tls = {"tls": files("first", "second"), "slave_tls": files("second", "other")}
        async with pair(**tls) as (_, slave):
            await until(lambda: "no TLS for replication" in slave.events.names("warning"))
            assert bytes(slave.log.data) == b""

    asyncio.run(run())


def test_who_does_not_shake_hands_counts_as_a_connection_and_ends_with_the_broker(
    files: Files,
) -> None:
    async def run() -> None:
        async with pair(tls=files("first", "second"), slave_tls=files("second", "first")) as both:
            master = both[0]
            await until(lambda: master.ha.replicas == 1)
            reader, writer = await asyncio.open_connection(LOOPBACK, master.port)
            await until(lambda: master.ha._admission.waiting == 1)
            assert master.ha.replicas == 1
            await master.ha.stop()
            assert master.ha._admission.waiting == 0
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()

    asyncio.run(run())


def test_connections_of_replicas_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ha, "REPLICAS_MAX", 1)
    service = Replica(port=10912).ha
    first = service._accept()
    assert isinstance(first, HaSenderConnection)
    service.sender_opened(first)
    assert isinstance(service._accept(), TurnedAway)
    service.sender_closed(first)
    assert isinstance(service._accept(), HaSenderConnection)


async def slave_follows(master: Replica, slave: Replica) -> None:
    await until(lambda: slave.ha.is_following and slave.log.data == master.log.data)


async def visit(port: int, host: str, said: bytes) -> None:
    """Connect from `host`, say something, and wait until the slave has done what it does about it."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port, local_addr=(host, 0))
    writer.write(said)
    await writer.drain()
    writer.write_eof()
    await reader.read()
    writer.close()


@pytest.mark.parametrize("said", [b"", b"GET", (-1).to_bytes(8, "big", signed=True)])
def test_a_stranger_does_not_part_a_slave_from_its_master(said: bytes) -> None:
    async def run() -> None:
        async with pair() as (master, slave):
            await slave_follows(master, slave)
            link = slave.ha._follower._link
            await visit(slave.port, "127.0.0.9", said)
            assert slave.ha._follower._link is link
            assert slave.ha.is_following

    asyncio.run(run())


@pytest.mark.parametrize(("host", "said"), [(LOOPBACK, b""), ("127.0.0.9", (0).to_bytes(8, "big"))])
def test_a_slave_leaves_its_master_for_a_new_one(host: str, said: bytes) -> None:
    """The new one connects from a host that is known, or asks for the log."""

    async def run() -> None:
        async with pair() as (master, slave):
            await slave_follows(master, slave)
            link = slave.ha._follower._link
            assert link is not None
            await visit(slave.port, host, said)
            await until(lambda: slave.ha._follower._link is not link)

    asyncio.run(run())
