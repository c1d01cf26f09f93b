"""Registrations on connections that a broker gave up, and that a name server accepts after newer ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from staticfire.harness.simulation.hosts.world import World
from staticfire.system_under_test.configuration.mode import Mode
from staticfire.system_under_test.name_server import requests
from staticfire.system_under_test.name_server.config import NameServerConfig
from staticfire.system_under_test.name_server.name_server import main
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting import RemotingClient
from staticfire.system_under_test.runtime.env import Env

ADDRESS = "10.0.0.1:9876"
Story = Callable[[Env, RemotingClient], Coroutine[Any, Any, None]]


def registration(version: int, queues: int) -> RemotingCommand:
    header = {
        "brokerName": "a",
        "brokerAddr": "10.0.0.2:10911",
        "clusterName": "c",
        "brokerId": "0",
        "haServerAddr": "10.0.0.2:10912",
    }
    topic = {"topicName": "T", "readQueueNums": queues, "writeQueueNums": queues, "perm": 6}
    tables = {"topicConfigTable": {"T": topic}, "dataVersion": {"timestamp": 1, "counter": version}}
    body = json_dialect.dumps({"topicConfigSerializeWrapper": tables})
    return RemotingCommand.request(RequestCode.REGISTER_BROKER, header, body)


async def queues(client: RemotingClient) -> int:
    """How many queues the route has; 0 if there is no broker."""
    command = RemotingCommand.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
    answer = await client.invoke(ADDRESS, command, 3.0)
    if answer.code != ResponseCode.SUCCESS:
        return 0
    [data] = json_dialect.loads(answer.body)["queueDatas"]
    found: int = data["readQueueNums"]
    return found


def run(story: Story, mode: Mode = Mode.HARDENED) -> None:
    """Run a story of a broker that has registered eight queues, as version 2, on the connection that it is given."""

    async def name_server(env: Env) -> None:
        await main(env, NameServerConfig(listen_host="10.0.0.1", mode=mode))

    async def broker(env: Env) -> None:
        await asyncio.sleep(1.0)
        newest = RemotingClient(env)
        assert (await newest.invoke(ADDRESS, registration(2, 8), 3.0)).code == 0
        await story(env, newest)

    async def harness() -> None:
        world.add_host("name-server", "10.0.0.1").start("name-server", name_server)
        status = await world.add_host("broker", "10.0.0.2").start("broker", broker).exit
        if status.error is not None:
            raise status.error

    world = World(1)
    world.run(harness)


async def given_up(env: Env, newest: RemotingClient) -> None:
    """What was sent on a connection that is closed right after that is not believed."""
    older = RemotingClient(env)
    await older.invoke_oneway(ADDRESS, registration(1, 4))
    await asyncio.sleep(0.01)
    await older.close()
    for _ in range(20):
        assert await queues(newest) == 8
        await asyncio.sleep(0.1)


async def lost_its_topics(env: Env, newest: RemotingClient) -> None:
    """A broker whose disk lost a change registers less than before; its former connection ended unseen."""
    loop, again = asyncio.get_running_loop(), RemotingClient(env)
    since_s = loop.time()
    assert (await again.invoke(ADDRESS, registration(1, 4), 3.0)).code == 0
    assert loop.time() - since_s >= requests.DOUBT_S
    assert await queues(again) == 4


async def changed_meanwhile(env: Env, newest: RemotingClient) -> None:
    """What comes while a registration waits is registered after it."""
    again = RemotingClient(env)
    answers = await asyncio.gather(
        again.invoke(ADDRESS, registration(1, 4), 3.0),
        again.invoke(ADDRESS, registration(3, 6), 3.0),
    )
    assert [answer.code for answer in answers] == [0, 0]
    assert await queues(again) == 6


async def later_version(env: Env, newest: RemotingClient) -> None:
    loop, again = asyncio.get_running_loop(), RemotingClient(env)
    since_s = loop.time()
    await again.invoke(ADDRESS, registration(3, 6), 3.0)
    assert loop.time() - since_s < 0.1
    assert await queues(again) == 6


@pytest.mark.parametrize("story", [given_up, lost_its_topics, changed_meanwhile, later_version])
def test_hardened(story: Story) -> None:
    run(story)


def test_as_rocketmq_does_it_what_is_read_last_counts() -> None:
    async def story(env: Env, newest: RemotingClient) -> None:
        older = RemotingClient(env)
        assert (await older.invoke(ADDRESS, registration(1, 4), 0.5)).code == 0
        assert await queues(newest) == 4

    run(story, Mode.FAITHFUL)


def test_few_registrations_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "DOUBTED_MAX", 1)

    async def story(env: Env, newest: RemotingClient) -> None:
        again = RemotingClient(env)
        answers = await asyncio.gather(
            *(again.invoke(ADDRESS, registration(1, 4), 3.0) for _ in range(2))
        )
        assert [answer.code for answer in answers] == [0, ResponseCode.SYSTEM_BUSY]

    run(story)
