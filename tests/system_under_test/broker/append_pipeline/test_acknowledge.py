"""A send that needs only the page cache is answered after the write of the turn, never before."""

from __future__ import annotations

import asyncio
from typing import cast

from staticfire.harness.simulation.disk.disk import DiskOptions
from staticfire.harness.simulation.hosts.world import World
from staticfire.system_under_test.broker.append_pipeline.acknowledge import (
    Acknowledger,
    make_waiting_sends,
)
from staticfire.system_under_test.broker.assembly.broker import main
from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.policies.policies import BROKER_POLICIES
from staticfire.system_under_test.broker.replication.ha import HaService
from staticfire.system_under_test.configuration.mode import Mode
from staticfire.system_under_test.protocol.bodies_clients import KVTable
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting import RemotingClient
from staticfire.system_under_test.runtime.env import Env
from tests.support.small_index import SMALL_INDEX
from tests.system_under_test.broker.bench import Bench, send_ext

MASTER, CLIENT = "10.0.0.1", "10.0.0.2"


def make_acknowledger(bench: Bench) -> Acknowledger:
    times = bench.administration.rates.put_times
    return Acknowledger(
        bench.store,
        cast(HaService, None),  # no send waits for a replica here
        make_waiting_sends(bench.config, times),
        BROKER_POLICIES[Mode.HARDENED].replication,
        times,
        now_ns=bench.clock.monotonic_ns,
    )


def test_an_answer_waits_for_the_write() -> None:
    acknowledger = make_acknowledger(Bench())
    codes: list[ResponseCode] = []
    acknowledger.acknowledge(100, codes.append, True)
    acknowledger.settle()
    assert codes == []
    assert acknowledger.awaits_write
    acknowledger.written()
    acknowledger.written()
    assert codes == [ResponseCode.SUCCESS]
    assert not acknowledger.awaits_write


def test_what_waits_for_the_page_cache_alone_is_timed_by_turns() -> None:
    bench = Bench()
    acknowledger = make_acknowledger(bench)
    acknowledger.acknowledge(100, _ignore, True)
    bench.clock.move(0.020)
    acknowledger.acknowledge(200, _ignore, True)
    bench.clock.move(0.010)
    acknowledger.written()
    acknowledger.written()
    times = bench.administration.rates.put_times
    assert times.longest_ms == 30
    assert times.text().startswith("[<=0ms]:0 [0~10ms]:0 [10~50ms]:2 ")


def _ignore(_code: ResponseCode) -> None:
    """Takes an answer that no send waits for."""


def test_a_failed_write_is_no_success() -> None:
    acknowledger = make_acknowledger(Bench())
    codes: list[ResponseCode] = []
    acknowledger.acknowledge(100, codes.append, True)
    acknowledger.fail_all()
    acknowledger.written()
    assert codes == [ResponseCode.FLUSH_DISK_TIMEOUT]


def test_a_process_that_is_killed_after_an_answer_has_written_the_message() -> None:
    world = World(3)
    host = world.add_host("master", MASTER, disk=DiskOptions(fsync_ns=50_000_000))
    client = world.add_host("client", CLIENT)
    config = BrokerConfig(
        broker_name="a",
        listen_host=MASTER,
        commit_log_file_size=1 << 20,
        consume_queue_file_size=20_000,
        **SMALL_INDEX,
    )

    async def tell(env: Env) -> None:
        remoting = RemotingClient(env)
        for number in range(
            5
        ):  # the first begins a flush that lasts; the others are written beside it
            request = RemotingCommand.request(310, send_ext("TopicTest"), b"message-%d" % number)
            answer = await remoting.invoke(f"{MASTER}:10911", request, 5.0)
            assert answer.code == ResponseCode.SUCCESS
            assert b"message-%d" % number in host.disk.read_cached("/store/commitlog/" + "0" * 20)
        await remoting.close()

    async def run() -> None:
        host.start("master", lambda env: main(env, config))
        await asyncio.sleep(0.5)
        await client.start("client", tell).exit

    world.run(run)


def test_a_broker_tells_how_long_its_puts_took() -> None:
    world = World(4)
    host = world.add_host("master", MASTER, disk=DiskOptions(fsync_ns=50_000_000))
    client = world.add_host("client", CLIENT)
    config = BrokerConfig(
        broker_name="a",
        listen_host=MASTER,
        sync_flush=True,
        commit_log_file_size=1 << 20,
        consume_queue_file_size=20_000,
        **SMALL_INDEX,
    )
    reported: dict[str, str] = {}

    async def ask(env: Env) -> None:
        remoting = RemotingClient(env)
        send = RemotingCommand.request(310, send_ext("TopicTest"), b"message")
        await remoting.invoke(f"{MASTER}:10911", send, 5.0)
        info = RemotingCommand.request(RequestCode.GET_BROKER_RUNTIME_INFO)
        answer = await remoting.invoke(f"{MASTER}:10911", info, 5.0)
        reported.update(KVTable.from_bytes(answer.body).table)
        await remoting.close()

    async def run() -> None:
        host.start("master", lambda env: main(env, config))
        await asyncio.sleep(0.5)
        await client.start("client", ask).exit

    world.run(run)
    assert 50 <= int(reported["putMessageEntireTimeMax"]) < 500
    assert float(reported["putLatency99"]) > 0
