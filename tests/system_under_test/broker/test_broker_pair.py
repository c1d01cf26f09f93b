"""A master and its slave in a simulated world: replication, faults, catch-up, graceful stop."""

from __future__ import annotations

import asyncio
from errno import EIO

import pytest

from staticfire.system_under_test.broker.append_pipeline.flush import StoreFailed
from staticfire.system_under_test.broker.config import BrokerRole
from staticfire.system_under_test.configuration.mode import Mode
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.store.errors import StoreError
from staticfire.system_under_test.store.index.message_index import MessageIndex
from tests.system_under_test.broker.bench import pull_ext, send_ext
from tests.system_under_test.broker.simulated_brokers import (
    FLUSH_DISK_TIMEOUT,
    FLUSH_SLAVE_TIMEOUT,
    MASTER,
    NAME_SERVER,
    NOT_AVAILABLE,
    OK,
    SLAVE,
    SLAVE_NOT_AVAILABLE,
    Client,
    Cluster,
    on_cluster,
    wipe,
)


@pytest.mark.parametrize("sync_flush", [True, False])
def test_slave_is_a_copy_and_both_stop_cleanly(sync_flush: bool) -> None:
    cluster = Cluster(sync_flush=sync_flush)

    async def story(client: Client) -> None:
        master, slave = cluster.start_master(), cluster.start_slave()
        await client.send_until(OK, within_s=5)
        assert [await client.send(f"k{n}") for n in range(20)] == [OK] * 20
        await asyncio.sleep(0.1)  # with async flush what is stored becomes visible a little later
        assert (await client.keys(MASTER))[-20:] == [f"k{n}" for n in range(20)]
        for process in (master, slave):
            process.terminate()
            assert (await process.exit).kind == "terminated"
        assert cluster.log(cluster.master) == cluster.log(cluster.slave)
        assert not cluster.master.disk.exists("/store/abort")
        assert not cluster.slave.disk.exists("/store/abort")

    cluster.run(story)


@on_cluster()
async def test_empty_master_answers_14_until_its_peer_was_heard(
    cluster: Cluster, client: Client
) -> None:
    cluster.start_master()
    await asyncio.sleep(3)
    assert await client.send() == NOT_AVAILABLE
    cluster.start_slave()
    await client.send_until(OK, within_s=3)


@on_cluster()
async def test_admin_may_accept_sends_without_the_peer(cluster: Cluster, client: Client) -> None:
    cluster.start_master()
    await asyncio.sleep(1)
    assert await client.send() == NOT_AVAILABLE
    answer = await client.ask(MASTER, RequestCode.LIFT_CATCH_UP)
    assert (answer.code, answer.ext_fields["lifted"]) == (OK, "true")
    assert await client.send() == SLAVE_NOT_AVAILABLE
    again = await client.ask(MASTER, RequestCode.LIFT_CATCH_UP)
    assert again.ext_fields["lifted"] == "false"


@on_cluster()
async def test_a_slave_has_no_catch_up_to_lift(cluster: Cluster, client: Client) -> None:
    cluster.start_slave()
    await asyncio.sleep(0.5)
    assert (await client.ask(SLAVE, RequestCode.LIFT_CATCH_UP)).code == ResponseCode.SYSTEM_ERROR


@on_cluster()
async def test_dead_slave_is_reported_at_once_and_comes_back(
    cluster: Cluster, client: Client
) -> None:
    cluster.start_master()
    slave = cluster.start_slave()
    await client.send_until(OK, within_s=5)
    slave.kill()
    await client.send_until(SLAVE_NOT_AVAILABLE, within_s=0.5)
    assert await client.send("alone") == SLAVE_NOT_AVAILABLE
    cluster.start_slave()
    await client.send_until(OK, within_s=2.5)
    assert cluster.log(cluster.slave) == cluster.log(cluster.master)


@on_cluster()
async def test_frozen_slave_costs_the_slave_timeout_and_is_dropped(
    cluster: Cluster, client: Client
) -> None:
    """Until then consumers do not see what only the master has."""
    cluster.start_master()
    slave = cluster.start_slave()
    await client.send_until(OK, within_s=5)
    slave.pause()
    assert await client.send("weak", timeout_s=4.0) == FLUSH_SLAVE_TIMEOUT
    assert "weak" not in await client.keys(MASTER)
    await asyncio.sleep(26)
    assert "weak" in await client.keys(MASTER)
    assert await client.send() == SLAVE_NOT_AVAILABLE
    slave.resume()
    await client.send_until(OK, within_s=10)


def test_tail_that_only_the_slave_kept_is_fetched_before_sends_are_accepted() -> None:
    """Sync master, async flush: the power goes while acknowledged messages are not flushed."""
    assert sum(lose_and_fetch_tail(seed) for seed in range(6)) > 0


def lose_and_fetch_tail(seed: int) -> int:
    """Return how many bytes the power cut took."""
    cluster = Cluster(sync_flush=False, fsync_ns=300_000_000, seed=seed)
    lost: list[int] = []

    async def story(client: Client) -> None:
        cluster.start_master()
        cluster.start_slave()
        await client.send_until(OK, within_s=5)
        await asyncio.sleep(2)
        acked = [f"k{n}" for n in range(10)]
        for key in acked:
            assert await client.send(key) == OK
        lost.append(cluster.master.power_cut().bytes_lost)
        await asyncio.sleep(0.1)
        cluster.master.power_on()
        cluster.start_master()
        await client.send_until(OK, within_s=10)
        await asyncio.sleep(3)
        keys = await client.keys(MASTER)
        assert [key for key in keys if key in acked] == acked
        assert cluster.log(cluster.slave) == cluster.log(cluster.master)

    cluster.run(story)
    return lost[0]


def test_what_a_dead_master_left_in_the_network_does_not_reach_the_slave() -> None:
    """The record was lost with a failed fsync; the kernel of the dead process still tries to deliver it."""
    cluster = Cluster(sync_flush=False)
    seen_by_slave: list[bool] = []

    async def story(client: Client) -> None:
        master = cluster.start_master()
        cluster.start_slave()
        await client.send_until(OK, within_s=5)
        await asyncio.sleep(1)
        cluster.world.network.drop("master", "slave")
        cluster.master.disk.fail_fsync(1)
        assert await client.send("vanished") in (FLUSH_DISK_TIMEOUT, -1)
        await master.exit
        await asyncio.sleep(0.65)  # retransmissions come 0.2, 0.6 and 1.4 s after the first attempt
        cluster.world.network.heal()
        cluster.start_master()
        for _ in range(20):
            await asyncio.sleep(0.1)
            seen_by_slave.append(b"vanished" in cluster.log(cluster.slave))
        await client.send_until(OK, within_s=10)
        assert cluster.log(cluster.slave) == cluster.log(cluster.master)

    cluster.run(story)
    assert not any(seen_by_slave)


@on_cluster()
async def test_master_with_a_new_disk_gets_everything_back(
    cluster: Cluster, client: Client
) -> None:
    master = cluster.start_master()
    cluster.start_slave()
    await client.send_until(OK, within_s=5)
    for number in range(10):
        assert await client.send(f"k{number}") == OK
    master.kill()
    wipe(cluster.master.disk, "/store")
    cluster.start_master()
    await client.send_until(OK, within_s=5)
    keys = await client.keys(MASTER)
    assert [key for key in keys if key != "k"] == [f"k{number}" for number in range(10)]


@on_cluster(role=BrokerRole.ASYNC_MASTER)
async def test_failed_fsync_ends_the_process_and_promises_nothing(
    cluster: Cluster, client: Client
) -> None:
    cluster.start_slave()
    master = cluster.start_master()
    await client.send_until(OK, within_s=5)
    cluster.master.disk.fail_fsync(1)
    assert await client.send() in (FLUSH_DISK_TIMEOUT, -1)
    status = await master.exit
    assert status.kind == "raised"
    assert isinstance(status.error, StoreFailed)
    assert cluster.master.disk.exists("/store/abort")
    cluster.start_master()
    await client.send_until(OK, within_s=5)


@pytest.mark.needs_sources
def test_a_failed_write_of_the_index_ends_a_broker_that_stores_nothing_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(role=BrokerRole.ASYNC_MASTER)

    def fail(*_: object, **__: object) -> None:
        raise OSError(EIO, "Input/output error", "/store/index/1")

    async def story(client: Client) -> None:
        cluster.start_master()
        slave = cluster.start_slave()
        await client.send_until(OK, within_s=5)
        await asyncio.sleep(2)
        monkeypatch.setattr(MessageIndex, "write_out", fail)
        cluster.world.network.drop("master", "slave")
        async with asyncio.timeout(10.5):
            status = await slave.exit
        assert "/store/index/1" in str(status.error)

    cluster.run(story)


@pytest.mark.parametrize("kind", ["write", "fsync"])
def test_faithful_a_broker_goes_on_after_a_disk_error(kind: str) -> None:
    """Fsyncs of the log, and of the queues 10 s later, count although they failed (R01)."""
    cluster = Cluster(role=BrokerRole.ASYNC_MASTER, mode=Mode.FAITHFUL)

    async def story(client: Client) -> None:
        master = cluster.start_master()
        await client.send_until(OK, within_s=5)
        disk = cluster.master.disk
        for _ in range(3):
            disk.fail_write(1) if kind == "write" else disk.fail_fsync(1)
            await client.send()
            await asyncio.sleep(6)
        assert await client.send() == OK
        assert not master.exit.done()

    cluster.run(story)


@pytest.mark.parametrize(("mode", "sent"), [(Mode.HARDENED, False), (Mode.FAITHFUL, True)])
def test_faithful_a_slave_may_have_what_its_master_has_not_flushed(mode: Mode, sent: bool) -> None:
    cluster = Cluster(role=BrokerRole.ASYNC_MASTER, mode=mode)

    async def story(client: Client) -> None:
        cluster.start_master()
        cluster.start_slave()
        await client.send_until(OK, within_s=5)
        await asyncio.sleep(6)  # the slave has connected
        cluster.master.disk.slow(1_000)
        late = asyncio.get_running_loop().create_task(client.send("late", timeout_s=9.0))
        await asyncio.sleep(0.5)
        assert b"late" in cluster.log(cluster.master)
        assert (b"late" in cluster.log(cluster.slave)) is sent
        assert not late.done()
        assert await late == OK
        await asyncio.sleep(0.5)
        assert b"late" in cluster.log(cluster.slave)

    cluster.run(story)


@on_cluster(role=BrokerRole.ASYNC_MASTER)
async def test_full_disk_refuses_and_service_returns_by_itself(
    cluster: Cluster, client: Client
) -> None:
    cluster.start_slave()
    cluster.start_master()
    await client.send_until(OK, within_s=5)
    cluster.master.disk.fill()
    codes = [await client.send(queue_id=1) for _ in range(3)]  # a new queue needs a new file
    assert codes == [NOT_AVAILABLE] * 3
    cluster.master.disk.free()
    assert await client.send(queue_id=1) == OK


@on_cluster()
async def test_long_poll_is_answered_by_the_next_send(cluster: Cluster, client: Client) -> None:
    cluster.start_master()
    cluster.start_slave()
    await client.send_until(OK, within_s=5)
    end = len(await client.keys(MASTER))
    pull = asyncio.ensure_future(
        client.ask(MASTER, 11, pull_ext("TopicTest", offset=end, sys_flag=6), 30.0)
    )
    await asyncio.sleep(1)
    assert not pull.done()
    assert await client.send() == OK
    await asyncio.sleep(0.01)
    assert pull.done()
    assert (await pull).code == OK


@on_cluster(name_servers=(f"{NAME_SERVER}:9876",))
async def test_slave_learns_its_master_and_copies_its_tables(
    cluster: Cluster, client: Client
) -> None:
    cluster.start_name_server()
    cluster.start_slave()
    await asyncio.sleep(0.5)
    cluster.start_master()
    await client.send_until(OK, within_s=5)
    offset = {"consumerGroup": "g", "topic": "TopicTest", "queueId": "0"}
    await client.ask(MASTER, 15, {**offset, "commitOffset": "1"})
    await asyncio.sleep(12)
    answer = await client.ask(SLAVE, 14, offset)
    assert answer.ext_fields == {"offset": "1"}
    assert await client.keys(SLAVE) == await client.keys(MASTER)


@on_cluster(name_servers=(f"{NAME_SERVER}:9876",))
async def test_a_pair_that_starts_together_serves_at_once(cluster: Cluster, client: Client) -> None:
    """The slave starts first, before a name server knows its master. It still serves without waiting for a timer."""
    cluster.start_slave()
    await asyncio.sleep(0.1)
    cluster.start_name_server()
    cluster.start_master()
    await client.send_until(OK, within_s=0.6)


@on_cluster()
async def test_slave_refuses_sends(cluster: Cluster, client: Client) -> None:
    cluster.start_slave()
    await asyncio.sleep(0.5)
    answer = await client.ask(SLAVE, 310, send_ext("TopicTest"))
    assert answer.code == NOT_AVAILABLE


@on_cluster()
async def test_unsupported_request_code(cluster: Cluster, client: Client) -> None:
    cluster.start_slave()
    await asyncio.sleep(0.5)
    answer = await client.ask(SLAVE, 13)
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


@pytest.mark.parametrize(
    ("name", "document", "what"),
    [
        ("topics.json", b'{"topicConfigTable": 7}', "topics"),
        ("subscriptionGroup.json", b'{"subscriptionGroupTable": 7}', "subscription groups"),
        ("consumerOffset.json", b'{"offsetTable": {"T@g": 7}}', "consumer offsets"),
    ],
)
def test_metadata_of_another_shape_is_refused_in_one_sentence(
    name: str, document: bytes, what: str
) -> None:
    cluster = Cluster()
    disk = cluster.master.disk
    disk.makedirs("/store/config")
    disk.open(f"/store/config/{name}", create=True).pwrite(document, 0)

    async def story(client: Client) -> None:
        status = await cluster.start_master().exit
        assert isinstance(status.error, StoreError)
        assert str(status.error).startswith(f"the {what} in /store/config cannot be used: ")

    cluster.run(story)
