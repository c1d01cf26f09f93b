"""Administrators, real brokers and real consumers in a simulated world; and what a slave refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from staticfire.system_under_test.protocol.bodies import SubscriptionGroupConfig
from staticfire.system_under_test.protocol.bodies_clients import (
    ConsumeDirectlyResult,
    ConsumerConnections,
    ConsumerRunningInfo,
)
from staticfire.system_under_test.protocol.bodies_queues import (
    ConsumerStatus,
    ConsumeStats,
    ResetOffsetBody,
)
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import offset_message_id
from staticfire.system_under_test.remoting import RemotingClient
from staticfire.system_under_test.runtime.env import Env
from tests.system_under_test.client.simulated_cluster import ADMIN, TOPIC, Cluster

Ask = Callable[..., Awaitable[RemotingCommand]]


async def administer(cluster: Cluster, server: str, work: Callable[[Ask], Awaitable[None]]) -> None:
    """Let `work` ask one server."""
    failure: list[BaseException] = []

    async def main(env: Env) -> None:
        remoting = RemotingClient(env)

        async def ask(
            code: RequestCode, ext: dict[str, str] | None = None, body: bytes = b""
        ) -> RemotingCommand:
            command = RemotingCommand.request(code, ext or {}, body)
            return await remoting.invoke(cluster.address_of(server), command, 15.0)

        try:
            await work(ask)
        except BaseException as error:
            failure.append(error)
        await remoting.close()

    await cluster.world.hosts[ADMIN].start(ADMIN, main).exit
    if failure:
        raise failure[0]


def test_a_consumer_is_looked_at_and_reset() -> None:
    cluster = Cluster()

    async def story() -> None:
        cluster.start_producer("p", until_s=12.0, every_s=0.05)
        cluster.start_consumer("c")
        await cluster.until(14.0)
        await administer(cluster, "a", look_and_reset)
        before = cluster.repeats()
        await cluster.until(30.0)
        assert before == 0
        sent_to_a = [sent for sent in cluster.sent if sent.broker == "a"]
        assert cluster.repeats() == len(sent_to_a)  # broker a's queues began again at 0

    async def look_and_reset(ask: Ask) -> None:
        group = {"consumerGroup": "g"}
        connections = ConsumerConnections.from_bytes(
            (await ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, group)).body
        )
        (member,) = connections.connection_set
        assert member.version == 409
        who = {**group, "clientId": member.client_id}
        answer = await ask(RequestCode.GET_CONSUMER_RUNNING_INFO, {**who, "jstackEnable": "false"})
        info = ConsumerRunningInfo.from_bytes(answer.body)
        assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
        assert len(info.mq_table) == 10  # two of the retry topic
        assert info.status_table[TOPIC].consume_ok_tps > 0
        topic = {"topic": TOPIC, "group": "g"}
        status = ConsumerStatus.from_bytes(
            (await ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, topic)).body
        )
        assert list(status.consumer_table) == [member.client_id]
        stats = ConsumeStats.from_bytes((await ask(RequestCode.GET_CONSUME_STATS, group)).body)
        assert stats.total_lag == 0
        reset = {**topic, "timestamp": "0", "isForce": "true"}
        answer = await ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset)
        assert set(ResetOffsetBody.from_bytes(answer.body).offset_table.values()) == {0}

    cluster.run(story, "p", "c")
    assert cluster.lost() == []


def test_one_message_is_consumed_directly() -> None:
    cluster = Cluster()

    async def story() -> None:
        cluster.start_producer("p", until_s=4.0, every_s=0.2)
        cluster.start_consumer("c")
        await cluster.until(12.0)
        await administer(cluster, "a", consume_first)

    async def consume_first(ask: Ask) -> None:
        client_id = f"{cluster.address_of('c').partition(':')[0]}@c"
        ext = {
            "consumerGroup": "g",
            "clientId": client_id,
            "msgId": offset_message_id("10.0.0.3", 10911, 0),
        }
        before = len(cluster.consumed)
        answer = await ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, ext)
        assert ConsumeDirectlyResult.from_bytes(answer.body).consume_result == "CR_SUCCESS"
        assert len(cluster.consumed) == before + 1

    cluster.run(story, "p", "c")


def test_a_consumer_that_is_frozen_does_not_answer_in_time() -> None:
    cluster = Cluster()

    async def story() -> None:
        cluster.start_consumer("c")
        await cluster.until(10.0)
        cluster.process("c").pause()
        await administer(cluster, "a", ask_frozen)

    async def ask_frozen(ask: Ask) -> None:
        client_id = f"{cluster.address_of('c').partition(':')[0]}@c"
        ext = {"consumerGroup": "g", "clientId": client_id, "jstackEnable": "false"}
        answer = await ask(RequestCode.GET_CONSUMER_RUNNING_INFO, ext)
        assert answer.code == ResponseCode.CONSUME_MSG_TIMEOUT

    cluster.run(story, "c")


@pytest.mark.parametrize(
    ("code", "ext", "body"),
    [
        (
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            {
                "topic": "new",
                "defaultTopic": "TBW102",
                "readQueueNums": "1",
                "writeQueueNums": "1",
                "perm": "6",
                "topicFilterType": "SINGLE_TAG",
            },
            b"",
        ),
        (RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": TOPIC}, b""),
        (
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
            {},
            SubscriptionGroupConfig(group_name="g").to_json(),
        ),
        (RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "g"}, b""),
    ],
    ids=["create topic", "delete topic", "create group", "delete group"],
)
def test_a_slave_refuses_changes(
    code: RequestCode, ext: dict[str, str], body: bytes | dict[str, object]
) -> None:
    cluster = Cluster(slaves=True)

    async def refused(ask: Ask) -> None:
        encoded = (
            body if isinstance(body, bytes) else SubscriptionGroupConfig.from_json(body).encode()
        )
        answer = await ask(code, ext, encoded)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "from slave broker" in (answer.remark or "")

    async def story() -> None:
        await administer(cluster, "a1", refused)
        await asyncio.sleep(0)

    cluster.run(story)
