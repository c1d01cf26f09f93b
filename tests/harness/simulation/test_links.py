"""Links: faults, addresses, latency by seed, loss, and limited bandwidth."""

from __future__ import annotations

import asyncio

import pytest

from staticfire.harness.simulation import World
from staticfire.system_under_test.runtime.env import Env
from tests.harness.simulation.two_hosts import (
    SERVER,
    Echo,
    TwoHosts,
    echoed,
)


def test_names_of_faults_are_checked() -> None:
    network = TwoHosts().network
    with pytest.raises(ValueError, match="host 'serber' is unknown; known: server, client"):
        network.drop("serber", "client")


def test_an_address_belongs_to_one_host() -> None:
    world = World(1)
    world.add_host("a", SERVER)
    with pytest.raises(ValueError, match="name or address is taken"):
        world.add_host("b", SERVER)


def test_links_differ_by_seed_and_direction() -> None:
    def latencies(seed: int) -> tuple[int, int]:
        network = TwoHosts(seed).network
        return network.link("client", "server").base_ns, network.link("server", "client").base_ns

    there, back = latencies(1)
    assert there != back
    assert latencies(1) == (there, back)
    assert latencies(2) != (there, back)


def test_what_a_lossy_link_loses_arrives_later_and_in_order() -> None:
    hosts = TwoHosts()
    hosts.listen()
    numbers = [b"%03d" % number for number in range(200)]

    async def story(env: Env) -> None:
        client = await hosts.connect()
        hosts.network.lose("client", "server", 0.2)
        for number in numbers:
            client.transport.write(number)
            await asyncio.sleep(0.02)
        await asyncio.sleep(60)

    hosts.run(story)
    assert hosts.accepted[0].received == b"".join(numbers)
    assert hosts.network.link("client", "server").lost > 10
    assert hosts.network.link("server", "client").lost == 0


def test_a_lost_segment_costs_a_time_out() -> None:
    hosts = TwoHosts()
    hosts.listen(Echo)

    async def story(env: Env) -> float:
        client = await hosts.connect()
        loop = asyncio.get_running_loop()
        hosts.network.lose("client", "server", 1.0)
        loop.call_later(0.1, hosts.network.heal)
        before_s = loop.time()
        await echoed(client, b"x")
        return loop.time() - before_s

    assert 0.2 <= hosts.run(story) < 0.25
    assert hosts.network.link("client", "server").lost == 1


def test_no_connection_succeeds_where_everything_is_lost() -> None:
    hosts = TwoHosts()
    hosts.listen()

    async def story(env: Env) -> None:
        hosts.network.lose("server", "client", 1.0)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(hosts.connect(), 10)
        hosts.network.heal()
        await hosts.connect()

    hosts.run(story)


def test_a_narrow_wire_takes_its_time_and_holds_writers_back() -> None:
    hosts = TwoHosts()
    hosts.listen(Echo)
    size = 100_000

    async def story(env: Env) -> tuple[float, float]:
        client = await hosts.connect()
        hosts.network.limit("client", 1_000_000)
        loop = asyncio.get_running_loop()
        before_s = loop.time()
        await echoed(client, b"x" * size)
        limited_s = loop.time() - before_s
        hosts.network.limit("client", 0)
        before_s = loop.time()
        await echoed(client, b"x" * size)
        return limited_s, loop.time() - before_s

    limited_s, free_s = hosts.run(story)
    assert size * 8 / 1e6 <= limited_s < size * 8 / 1e6 + 0.1
    assert free_s < 0.05


@pytest.mark.parametrize("end", ["limit", "heal"])
def test_what_waits_in_front_of_a_narrow_wire_leaves_when_it_is_wide_again(end: str) -> None:
    hosts = TwoHosts()
    hosts.listen()
    sent = bytes(number % 251 for number in range(200_000))

    async def story(env: Env) -> None:
        client = await hosts.connect()
        hosts.network.limit("client", 100_000)  # 16 s
        client.transport.write(sent[:100_000])
        await asyncio.sleep(0.1)
        client.transport.write(sent[100_000:])
        client.transport.close()
        assert len(hosts.accepted[0].received) < 100_000
        if end == "limit":
            hosts.network.limit("client", 0)
        else:
            hosts.network.heal()
        await asyncio.sleep(0.05)

    hosts.run(story)
    assert bytes(hosts.accepted[0].received) == sent


def test_connections_of_one_host_share_its_wire() -> None:
    hosts = TwoHosts()
    hosts.listen()

    async def story(env: Env) -> None:
        one, other = await hosts.connect(), await hosts.connect()
        hosts.network.limit("client", 1_000_000)
        one.transport.write(b"x" * 50_000)
        other.transport.write(b"y" * 50_000)
        await asyncio.sleep(0.5)
        assert len(hosts.accepted[0].received) == 50_000
        assert len(hosts.accepted[1].received) < 50_000
        await asyncio.sleep(0.35)

    hosts.run(story)
    assert len(hosts.accepted[1].received) == 50_000
    assert hosts.network.limited("client") >= 1
    assert hosts.network.limited("server") == 0
