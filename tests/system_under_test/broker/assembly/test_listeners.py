"""The fast port of a simulated broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting import RemotingClient
from tests.system_under_test.broker.registration.test_registration import Cluster

PULL = {
    "consumerGroup": "g",
    "topic": "TBW102",
    "queueId": "0",
    "queueOffset": "0",
    "maxMsgNums": "1",
    "sysFlag": "0",
    "commitOffset": "0",
    "suspendTimeoutMillis": "0",
    "subVersion": "0",
}


@pytest.mark.parametrize(
    ("port", "is_code"),
    [(10911, lambda code: code != 3), (10909, lambda code: code == 3)],
)
def test_everything_but_pulls(port: int, is_code: Callable[[int], bool]) -> None:
    async def story(cluster: Cluster, remoting: RemotingClient) -> None:
        cluster.start_broker()
        await asyncio.sleep(1)
        address = f"10.0.0.3:{port}"
        maximum = RemotingCommand.request(30, {"topic": "TBW102", "queueId": "0"})
        assert (await remoting.invoke(address, maximum, 1.0)).code == 0
        pull = await remoting.invoke(address, RemotingCommand.request(11, PULL), 1.0)
        assert is_code(pull.code)

    Cluster().run(story)
