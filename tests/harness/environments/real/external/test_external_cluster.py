"""An external cluster is found by its name servers, and a run leaves nothing in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from staticfire.harness.clients.admin import READER
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.environments.real.external import external_cluster as external_cluster
from staticfire.harness.environments.real.external.address import traces_of
from staticfire.harness.environments.real.external.external_cluster import (
    FoundCluster,
    find_cluster,
    remove_traces,
)
from staticfire.harness.local_cluster import LocalCluster
from staticfire.harness.machines.errors import EnvironmentFailed
from staticfire.system_under_test.admin.client import AdminClient
from staticfire.system_under_test.admin.groups import group_configs, update_group
from staticfire.system_under_test.admin.topics import topic_list, update_topic
from staticfire.system_under_test.protocol.bodies import SubscriptionGroupConfig, TopicConfig
from staticfire.system_under_test.runtime.real_env import make_env

pytestmark = pytest.mark.real


def test_slaves_are_counted_by_master() -> None:
    names = ("a:0", "a:1", "a:3", "b:0")
    assert FoundCluster(brokers=dict.fromkeys(names, "")).slaves == (2, 0)


def test_brokers_are_found_with_their_masters_first() -> None:
    async def run() -> None:
        async with LocalCluster(masters=2, slaves=(1, 0)) as cluster:
            found = await find_cluster(cluster.name_servers)
            assert list(found.brokers) == ["broker-a:0", "broker-a:1", "broker-b:0"]
            assert found.slaves == (1, 0)

    asyncio.run(run())


def test_traces_of_a_run_are_removed_and_nothing_else() -> None:
    async def run() -> None:
        async with (
            LocalCluster() as cluster,
            AdminClient(make_env("t"), cluster.name_servers) as admin,
        ):
            [master] = (await admin.masters()).values()
            for name in ("mine", "other", "%RETRY%group"):
                await update_topic(admin, master, TopicConfig(topic_name=name))
            for name in ("group", "other", READER):
                await update_group(admin, master, SubscriptionGroupConfig(group_name=name))
            said: list[str] = []
            await remove_traces(
                cluster.name_servers, [master], topic="mine", group="group", say=said.append
            )
            topics = await topic_list(admin)
            assert ("other" in topics, "mine" in topics, "%RETRY%group" in topics) == (
                True,
                False,
                False,
            )
            groups = await group_configs(admin, master)
            assert ("other" in groups, "group" in groups, READER in groups) == (True, False, False)
            assert said == []

    asyncio.run(run())


def test_what_a_run_leaves_follows_from_its_members_and_is_its_own() -> None:
    given = {"workload": "forwarded", "consumers": 4, "token": "x", "faults": ()}
    own, wide = traces_of(draw_campaign(1, given))
    assert own == ("staticfire-x-1-topic", "staticfire-x-1-group")
    assert wide == ("staticfire-x-1-topic-forwarded", "staticfire-x-1-group-forwarded")
    theirs = {"consumers": 2, "token": "x", "faults": (), "consumer_topics": ("Orders", "Payments")}
    assert traces_of(draw_campaign(1, theirs)) == [own]  # topics that the campaign names


def test_topics_and_groups_beside_the_load_are_traces() -> None:
    campaign = draw_campaign(1, {"token": "x", "faults": ("offsets-cloned",)})
    [number] = {planned.fault_id for planned in campaign.plan}
    topic, group = f"staticfire-x-1-topic-side-{number}", f"staticfire-x-1-group-side-{number}"
    assert traces_of(campaign)[1:] == [(topic, group), (topic, f"{group}-clone")]


def test_what_cannot_be_removed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    asyncio.run(
        remove_traces(["127.0.0.1:1"], ["127.0.0.1:1"], topic="t", group="g", say=said.append)
    )
    assert len(said) == 2
    assert all(line.startswith("t and g may be left: no answer from 127.0.0.1:1") for line in said)


@asynccontextmanager
async def unrelated_server(answer: bytes | None) -> AsyncIterator[str]:
    """Another product, which gives this answer to every client; or one that hangs."""

    served: list[asyncio.Future[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        served.append(done)
        if answer is None:
            await reader.read()
        else:
            writer.write(answer)
        writer.close()
        await asyncio.wait([asyncio.ensure_future(writer.wait_closed())])
        done.set_result(None)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        yield f"{host}:{port}"
        await asyncio.gather(*served)


@pytest.mark.parametrize("answer", [None, b"HTTP/1.1 400 Bad Request\r\n\r\n", b""])
def test_a_server_that_is_no_name_server_is_reported_in_one_sentence(
    answer: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with unrelated_server(answer) as address:
            with pytest.raises(EnvironmentFailed, match=f"the cluster at {address}: no answer"):
                await find_cluster([address])

    monkeypatch.setattr(external_cluster, "LOOK_TIMEOUT_S", 0.1)
    asyncio.run(run())


def test_an_address_without_a_server_is_reported_in_one_sentence() -> None:
    with pytest.raises(EnvironmentFailed, match=r"no answer from 127\.0\.0\.1:1 .*cannot connect"):
        asyncio.run(find_cluster(["127.0.0.1:1"]))


def test_name_servers_without_brokers_are_no_cluster_to_test() -> None:
    async def run() -> None:
        async with LocalCluster() as cluster:
            await asyncio.to_thread(cluster.stop_node, "broker-a-0")
            with pytest.raises(EnvironmentFailed, match="know of no broker"):
                await find_cluster(cluster.name_servers)

    asyncio.run(run())
