"""A broker with a transient store pool: how long a message stays in memory, and what a disk that hangs does."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from staticfire.system_under_test.broker.config import BrokerConfig, BrokerRole
from staticfire.system_under_test.protocol import json_dialect
from tests.system_under_test.broker.simulated_brokers import MASTER, OK, SLAVE, Client, Cluster

BUSY = 2


class Pooled(Cluster):
    """The master has a pool; without replication it also has no peers that it could wait for."""

    def __init__(self, *, role: BrokerRole = BrokerRole.ASYNC_MASTER, **options: Any) -> None:
        super().__init__(sync_flush=False, role=role, **options)

    def _config(
        self, address: str, role: BrokerRole, broker_id: int, *, ha_master: str | None = None
    ) -> BrokerConfig:
        config = super()._config(address, role, broker_id, ha_master=ha_master)
        if role is BrokerRole.ASYNC_MASTER:
            config.ha_peers = ()
        return replace(config, transient_pool=role is not BrokerRole.SLAVE)


async def figures(client: Client) -> dict[str, str]:
    answer = await client.ask(MASTER, 28)
    table: dict[str, str] = json_dialect.loads(answer.body.decode())["table"]
    return table


def test_a_message_is_seen_within_a_commit_interval_and_a_kill_before_takes_it() -> None:
    cluster = Pooled()

    async def story(client: Client) -> None:
        master = cluster.start_master()
        await client.send_until(OK, within_s=5)
        await asyncio.sleep(0.5)
        seen = await client.keys(MASTER)
        assert await client.send("kept") == OK
        assert await client.keys(MASTER) == seen
        await asyncio.sleep(0.5)
        assert await client.keys(MASTER) == [*seen, "kept"]
        assert await client.send("lost") == OK
        master.kill()
        await asyncio.sleep(0.1)
        cluster.start_master()
        await client.send_until(OK, within_s=5)
        await asyncio.sleep(0.5)
        assert (await client.keys(MASTER))[: len(seen) + 2] == [*seen, "kept", "k"]

    cluster.run(story)


def test_a_synchronous_master_with_a_pool_loses_nothing_in_a_kill() -> None:
    cluster = Pooled(role=BrokerRole.SYNC_MASTER)

    async def story(client: Client) -> None:
        master = cluster.start_master()
        cluster.start_slave()
        await client.send_until(OK, within_s=10)
        for number in range(20):
            assert await client.send(f"k{number}") == OK
        master.kill()
        await asyncio.sleep(0.1)
        cluster.start_master()
        await client.send_until(OK, within_s=20)
        await asyncio.sleep(1)
        keys = await client.keys(MASTER)
        assert [key for key in keys if key != "k"] == [f"k{number}" for number in range(20)]
        assert await client.keys(SLAVE) == keys

    cluster.run(story)


def test_on_a_disk_that_hangs_sends_go_on_until_the_pool_is_empty() -> None:
    cluster = Pooled(commit_log_file_size=16_384, transient_pool_size=2)
    acknowledged: list[str] = []

    async def story(client: Client) -> None:
        cluster.start_master()
        await client.send_until(OK, within_s=5)
        assert (await figures(client))["remainTransientStoreBufferNumbs"] == "1"
        await asyncio.sleep(1)
        cluster.master.disk.slow(5000.0)  # a flush takes five seconds
        codes = []
        for number in range(300):
            codes.append(await client.send(f"m{number}"))
            if codes[-1] == OK:
                acknowledged.append(f"m{number}")
            await asyncio.sleep(0.01)
        assert set(codes) == {OK, BUSY}
        assert codes[-1] == BUSY
        table = await figures(client)
        assert table["remainTransientStoreBufferNumbs"] == "0"
        assert table["remainHowManyDataToCommit"] != "0 B"
        cluster.master.disk.heal()
        await client.send_until(OK, within_s=10)
        await asyncio.sleep(2)
        keys = await client.keys(MASTER)
        assert [key for key in keys if key != "k"] == acknowledged
        assert (await figures(client))["remainHowManyDataToCommit"] == "0 B"

    cluster.run(story)
    assert len(acknowledged) > 50


@pytest.mark.parametrize(
    ("role", "broker_id", "sync_flush"),
    [(BrokerRole.SLAVE, 1, False), (BrokerRole.ASYNC_MASTER, 0, True)],
)
def test_slaves_and_synchronous_flush_are_refused(
    role: BrokerRole, broker_id: int, sync_flush: bool
) -> None:
    with pytest.raises(ValueError, match="a master with asynchronous flush is needed"):
        BrokerConfig(
            broker_name="a",
            listen_host=MASTER,
            role=role,
            broker_id=broker_id,
            sync_flush=sync_flush,
            transient_pool=True,
        )
