"""The time for which a running broker holds a pull that finds nothing (RocketMQ, PullRequestHoldService)."""

from __future__ import annotations

import asyncio

import pytest

from staticfire.system_under_test.broker.config import BrokerRole
from tests.system_under_test.broker.bench import pull_ext
from tests.system_under_test.broker.simulated_brokers import MASTER, OK, Client, Cluster

PULL_NOT_FOUND = 19


@pytest.mark.parametrize(("long_polling", "low_s", "high_s"), [(False, 0.3, 0.7), (True, 2.0, 8.1)])
def test_how_long_a_pull_is_held(long_polling: bool, low_s: float, high_s: float) -> None:
    """3 s were asked for, and are looked at every 5 s; short polling knows only its own time."""
    cluster = Cluster(
        role=BrokerRole.ASYNC_MASTER, slaves=1, long_polling=long_polling, short_polling_s=0.3
    )

    async def story(client: Client) -> None:
        cluster.start_slave()
        cluster.start_master()
        await client.send_until(OK, within_s=10.0)
        end = int(
            (await client.ask(MASTER, 30, {"topic": "TopicTest", "queueId": "0"})).ext_fields[
                "offset"
            ]
        )
        held_s = []
        for _ in range(3):
            began_s = asyncio.get_running_loop().time()
            ext = pull_ext("TopicTest", offset=end, sys_flag=2 | 4, hold_ms=3000)
            answer = await client.ask(MASTER, 11, ext, 20.0)
            assert answer.code == PULL_NOT_FOUND
            held_s.append(asyncio.get_running_loop().time() - began_s)
        assert low_s < min(held_s) <= max(held_s) < high_s

    cluster.run(story)
