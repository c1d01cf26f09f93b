"""What becomes visible in one turn of the loop is bounded: the rest of a large batch, or of a flush, comes later."""

from __future__ import annotations

import asyncio

import pytest

from staticfire.harness.simulation.hosts.world import World
from staticfire.system_under_test.broker.append_pipeline import append_pipeline
from staticfire.system_under_test.broker.assembly.broker import Broker, main
from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.sending import batches
from staticfire.system_under_test.protocol.batch import BatchEntry, encode_batch
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting import RemotingClient
from staticfire.system_under_test.runtime.env import Env
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.results import Dispatched
from tests.support.small_index import SMALL_INDEX
from tests.system_under_test.broker.bench import send_ext
from tests.system_under_test.broker.simulated_brokers import OK, Client, Cluster, wipe

BROKER, CLIENT = "10.0.0.1", "10.0.0.2"
AT_ONCE = 4


@pytest.mark.needs_sources
@pytest.mark.parametrize("sync_flush", [False, True])
def test_a_batch_becomes_visible_over_several_turns(
    monkeypatch: pytest.MonkeyPatch, sync_flush: bool
) -> None:
    monkeypatch.setattr(append_pipeline, "DISPATCHED_AT_ONCE", AT_ONCE)
    monkeypatch.setattr(batches, "PART_WEIGHT", 3 * batches.MESSAGE_WEIGHT)
    seen: list[list[int]] = []
    dispatch = MessageStore.dispatch

    def watched(self: MessageStore, up_to: int | None = None) -> list[Dispatched]:
        messages = dispatch(self, up_to)
        seen.append([message.queue_offset for message in messages])
        return messages

    monkeypatch.setattr(MessageStore, "dispatch", watched)
    world = World(3)
    host, client = world.add_host("broker", BROKER), world.add_host("client", CLIENT)
    config = BrokerConfig(
        broker_name="a",
        listen_host=BROKER,
        sync_flush=sync_flush,
        commit_log_file_size=1 << 20,
        consume_queue_file_size=20_000,
        **SMALL_INDEX,
    )

    async def send(env: Env) -> None:
        remoting = RemotingClient(env)
        body = encode_batch([BatchEntry(b"%d" % number, {}) for number in range(50)])
        request = RemotingCommand.request(320, send_ext("TopicTest", m="true"), body)
        answer = await remoting.invoke(f"{BROKER}:10911", request, 5.0)
        assert (answer.code, answer.ext_fields["queueOffset"]) == (0, "0")
        assert len(answer.ext_fields["msgId"].split(",")) == 50
        await remoting.close()

    async def run() -> None:
        host.start("broker", lambda env: main(env, config))
        await asyncio.sleep(0.5)
        seen.clear()
        await client.start("client", send).exit
        await asyncio.sleep(1)

    world.run(run)
    assert [offset for turn in seen for offset in turn] == list(range(50))
    assert max(map(len, seen)) == AT_ONCE


@pytest.mark.needs_sources
def test_a_master_that_has_caught_up_shows_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it compares the offsets of groups with the ends of its queues, and sets back those beyond them."""
    monkeypatch.setattr(append_pipeline, "DISPATCHED_AT_ONCE", 1)
    ends: list[tuple[int, int]] = []
    caught_up = Broker._caught_up

    async def watched(self: Broker) -> None:
        await caught_up(self)
        ends.append((self.store.dispatched_offset, self.store.end_offset))

    monkeypatch.setattr(Broker, "_caught_up", watched)
    cluster = Cluster()

    async def story(client: Client) -> None:
        master = cluster.start_master()
        cluster.start_slave()
        await client.send_until(OK, within_s=5)
        for number in range(20):
            assert await client.send(f"k{number}") == OK
        master.kill()
        wipe(cluster.master.disk, "/store")
        ends.clear()
        cluster.start_master()
        await client.send_until(OK, within_s=5)
        [(visible, end)] = ends
        assert visible == end > 0

    cluster.run(story)
