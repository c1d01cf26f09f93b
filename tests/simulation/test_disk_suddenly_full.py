"""A disk that is suddenly full under load: refusals with code 14, nothing acknowledged lost, service comes back."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from staticfire.harness.simulation.hosts.host import Host
from staticfire.system_under_test.broker.config import BrokerRole
from tests.system_under_test.broker.simulated_brokers import (
    FLUSH_SLAVE_TIMEOUT,
    MASTER,
    NOT_AVAILABLE,
    OK,
    SLAVE,
    SLAVE_NOT_AVAILABLE,
    Client,
    Cluster,
)

# What a master may say while only its slave is full: stored, but not replicated.
WEAKER = {FLUSH_SLAVE_TIMEOUT, SLAVE_NOT_AVAILABLE}
SENDERS = 4


class Load:
    """Sends as fast as answers come, and remembers what was promised."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.acknowledged: list[str] = []
        self.codes: Counter[int] = Counter()
        self.is_over = False

    async def send(self, sender: int) -> None:
        number = 0
        while not self.is_over:
            key = f"s{sender}-{number}"
            number += 1
            code = await self._client.send(key, timeout_s=10)
            self.codes[code] += 1
            if code == OK:
                self.acknowledged.append(key)
            else:
                await asyncio.sleep(0.02)

    async def until(self, code: int, count: int, *, within_s: float) -> None:
        goal = self.codes[code] + count
        async with asyncio.timeout(within_s):
            while self.codes[code] < goal:
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("sync_flush", [True, False])
@pytest.mark.parametrize("full", ["master", "slave", "both"])
def test_service_returns_by_itself(full: str, sync_flush: bool) -> None:
    cluster = Cluster(
        sync_flush=sync_flush,
        role=BrokerRole.SYNC_MASTER,
        commit_log_file_size=16_384,
        consume_queue_file_size=2_000,
        index_slots=100,
        index_numbers=400,
        clean_interval_s=1.0,
    )
    full_hosts: list[Host] = {
        "master": [cluster.master],
        "slave": [cluster.slave],
        "both": [cluster.master, cluster.slave],
    }[full]

    async def story(client: Client) -> None:
        master, slave = cluster.start_master(), cluster.start_slave()
        await client.send_until(OK, within_s=10)
        load = Load(client)
        senders = [asyncio.ensure_future(load.send(number)) for number in range(SENDERS)]
        await load.until(OK, 50, within_s=20)
        for _ in range(2):
            for host in full_hosts:
                host.disk.fill(free_bytes=0)
            if full == "slave":
                await asyncio.sleep(8)
            else:
                await load.until(NOT_AVAILABLE, 50, within_s=20)
            for host in full_hosts:
                host.disk.free()
            await load.until(OK, 100, within_s=20)
        load.is_over = True
        await asyncio.gather(*senders)
        await asyncio.sleep(3)
        expected = {NOT_AVAILABLE} if full == "master" else {NOT_AVAILABLE, *WEAKER}
        if full == "slave":
            expected = WEAKER
        assert set(load.codes) - {OK} <= expected, load.codes
        assert set(load.codes) - {OK}, "the disk was never full"
        assert len(load.acknowledged) >= 250
        for address in (MASTER, SLAVE):
            keys = await client.keys(address)
            assert set(load.acknowledged) <= set(keys)
            assert len(set(keys) - {"k"}) == len([key for key in keys if key != "k"])
        assert master.alive
        assert slave.alive

    cluster.run(story)
