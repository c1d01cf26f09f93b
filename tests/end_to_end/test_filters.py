"""SQL92 filters on real sockets and files: heartbeat, check, pulls, long polling, and the bits of the queues."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from staticfire.harness.local_cluster.cluster import LocalCluster
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.bodies import (
    ConsumerData,
    HeartbeatData,
    SubscriptionData,
)
from staticfire.system_under_test.protocol.bodies_clients import CheckClientConfig
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import decode_records
from staticfire.system_under_test.remoting import RemotingClient
from staticfire.system_under_test.runtime.real_env import make_env
from tests.system_under_test.broker.bench import pull_ext, send_ext

pytestmark = pytest.mark.real

TIMEOUT_S = 30.0
PROPERTIES = {
    "enablePropertyFilter": "true",
    "enableConsumeQueueExt": "true",
    "enableCalcFilterBitMap": "true",
    "filterDataCleanTimeSpan": "3600000",
}


class Client:
    """One connection to the first broker."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._client = RemotingClient(make_env("client"))

    async def ask(
        self, code: RequestCode, ext: dict[str, str] | None = None, body: bytes = b""
    ) -> RemotingCommand:
        request = RemotingCommand.request(code, ext or {}, body)
        return await self._client.invoke(self._address, request, TIMEOUT_S)

    async def close(self) -> None:
        await self._client.close()

    async def send(self, **properties: str) -> None:
        ext = send_ext("TopicTest", properties=properties)
        body = properties.get("a", "").encode()
        assert (await self.ask(RequestCode.SEND_MESSAGE_V2, ext, body)).code == 0

    async def beat(self, subscription: SubscriptionData) -> None:
        data = HeartbeatData(
            client_id="c1",
            consumers=[ConsumerData(group_name="consumers", subscriptions=[subscription])],
        )
        body = json_dialect.dumps(data.to_json())
        assert (await self.ask(RequestCode.HEART_BEAT, body=body)).code == 0

    async def pull(self, offset: int, *, sys_flag: int = 0) -> RemotingCommand:
        ext = pull_ext("TopicTest", offset=offset, sys_flag=sys_flag, sub_version=5)
        return await self.ask(RequestCode.PULL_MESSAGE, ext)


def bodies(answer: RemotingCommand) -> list[bytes]:
    return [message.body for message in decode_records(answer.body)]


async def use_filters(address: str) -> None:
    wanted = SubscriptionData(
        topic="TopicTest",
        sub_string="a BETWEEN 3 AND 5 OR b IN ('yes')",
        sub_version=5,
        expression_type="SQL92",
    )
    client = Client(address)
    check = CheckClientConfig(client_id="c1", group="consumers", subscription_data=wanted)
    try:
        await client.send(a="4")
        assert (await client.ask(RequestCode.CHECK_CLIENT_CONFIG, body=check.encode())).code == 0
        await client.beat(wanted)
        for number in range(10):
            await client.send(a=str(number))
        await client.send(b="yes")
        answer = await client.pull(0)
        assert bodies(answer) == [b"4", b"3", b"4", b"5", b""]
        assert answer.ext_fields["nextBeginOffset"] == "12"
        held = asyncio.ensure_future(client.pull(12, sys_flag=2))
        await client.send(a="99")
        await client.send(a="5")
        assert bodies(await held) == [b"5"]
    finally:
        await client.close()


def test_expressions_and_bits(tmp_path: Path) -> None:
    with LocalCluster(broker_properties=PROPERTIES, store=tmp_path, flush="sync") as cluster:
        asyncio.run(use_filters(cluster.brokers[0].address))
    [units] = tmp_path.rglob("consumequeue_ext/TopicTest/0/*")
    assert units.read_bytes()[:2] in (b"\0\x14", b"\0\x22")
    [table] = tmp_path.rglob("consumerFilter.json")
    document = json_dialect.loads(table.read_text())
    known = document["filterDataByTopic"]["TopicTest"]["groupFilterData"]["consumers"]
    assert (known["expression"], known["dead"]) == ("a BETWEEN 3 AND 5 OR b IN ('yes')", True)
