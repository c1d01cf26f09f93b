"""How connections begin, in both worlds."""

from __future__ import annotations

import asyncio

import pytest

from tests.parity.node import pattern
from tests.parity.world import PORT, Failed, World, played


@played
async def test_a_port_without_a_listener(world: World) -> None:
    await world.server.start()
    client = await world.client.start()
    assert await client.fails("connect", "c", world.server.address, PORT) == "ECONNREFUSED"
    assert client.story("c") == []


@played
async def test_a_host_that_is_gone_is_given_up(world: World) -> None:
    await world.give_up_soon()
    client = await world.client.start()
    await world.server.power_cut()
    assert await client.fails("connect", "c", world.server.address, PORT) == "ETIMEDOUT"


@played
async def test_a_lost_syn_is_sent_again(world: World) -> None:
    server, client = await world.start()
    await server.ask("listen", "s", world.server.address, PORT)
    await world.drop(world.client, world.server)
    connecting = client.tell("connect", "c", world.server.address, PORT)
    await world.sleep(0.3)
    assert not connecting.done()
    await world.heal()
    await connecting
    await server.until("s.1", "made")
    assert server.story("s.2") == []


@played
async def test_a_lost_syn_ack_makes_one_connection(world: World) -> None:
    server, client = await world.start()
    await server.ask("listen", "s", world.server.address, PORT)
    await world.drop(world.server, world.client)
    connecting = client.tell("connect", "c", world.server.address, PORT)
    await world.sleep(0.3)
    assert not connecting.done()
    assert server.story("s.1") == []  # half of a handshake is nothing that can be accepted
    await world.heal()
    await connecting
    await client.ask("write", "c", "hello")
    await server.until_received("s.1", 5)
    assert server.story("s.1") == ["made", "data"]
    assert server.story("s.2") == []


@played
async def test_a_stopped_process_accepts_by_its_backlog(world: World) -> None:
    """The name server that is fake dead: the kernel accepts connections and bytes, and the process does not answer."""
    server, client = await world.start()
    await server.ask("listen", "s", world.server.address, PORT, echo=True)
    await world.server.pause()
    await client.ask("connect", "c", world.server.address, PORT)
    await client.ask("write", "c", "question")
    await world.sleep(0.3)
    assert client.story("c") == ["made"]
    await world.server.resume()
    await client.until_received("c", 8)
    assert client.has("c", b"question")


@played
async def test_what_came_and_went_while_the_process_was_stopped(world: World) -> None:
    server, client = await world.start()
    await server.ask("listen", "s", world.server.address, PORT)
    await world.server.pause()
    await client.ask("connect", "c", world.server.address, PORT)
    await client.ask("write", "c", "last words")
    await client.ask("close", "c")
    await client.until("c", "lost")
    await world.server.resume()
    await server.until("s.1", "lost")
    assert server.story("s.1") == ["made", "data", "eof", "lost"]
    assert server.has("s.1", b"last words")


@played
async def test_a_full_backlog_ignores_syn(world: World) -> None:
    server, client = await world.start()
    await server.ask("listen", "s", world.server.address, PORT, backlog=1)
    await world.server.pause()
    await client.ask("connect", "c1", world.server.address, PORT)
    await client.ask("connect", "c2", world.server.address, PORT)  # backlog + 1 fit in
    await world.sleep(0.05)
    third = client.tell("connect", "c3", world.server.address, PORT)
    await world.sleep(0.3)
    assert not third.done()
    await world.server.resume()
    await third
    await server.until("s.3", "made")


@played
async def test_a_backlog_is_widened_while_it_is_used(world: World) -> None:
    server, client = await world.start()
    await server.ask("listen", "s", world.server.address, PORT, backlog=1)
    await server.ask("widen", "s", 2)
    await world.server.pause()
    for name in ("c1", "c2", "c3"):  # backlog + 1 fit in
        await client.ask("connect", name, world.server.address, PORT)
    await world.sleep(0.05)
    fourth = client.tell("connect", "c4", world.server.address, PORT)
    await world.sleep(0.3)
    assert not fourth.done()
    await world.server.resume()
    await fourth
    await server.until("s.4", "made")


@played
async def test_killing_a_process_resets_who_waits_in_its_backlog(world: World) -> None:
    server, client = await world.start()
    await server.ask("listen", "s", world.server.address, PORT)
    await world.server.pause()
    await client.ask("connect", "c", world.server.address, PORT)
    await world.sleep(0.05)
    await world.server.kill()
    await client.until("c", "lost")
    assert client.story("c") == ["made", "lost ECONNRESET"]


@played
async def test_who_stops_listening_keeps_its_connections(world: World) -> None:
    server, client = await world.connect()
    await server.ask("stop_listening", "s")
    assert await client.fails("connect", "d", world.server.address, PORT) == "ECONNREFUSED"
    await client.ask("write", "c", "still here")
    await server.until_received("s.1", 10)
    assert server.has("s.1", b"still here")


@played
async def test_a_port_is_free_again_after_a_kill(world: World) -> None:
    """With connections that their peers have not closed yet (SO_REUSEADDR, which asyncio sets)."""
    _, client = await world.connect(half_open=True)
    await world.server.kill()
    await client.until("c", "eof")
    server = await world.server.start()
    await server.ask("listen", "s", world.server.address, PORT)
    await client.ask("connect", "d", world.server.address, PORT)
    await server.until("s.1", "made")
    assert client.story("c") == ["made", "eof"]


@played
async def test_addresses_in_use(world: World) -> None:
    server = await world.server.start()
    own = world.server.address
    await server.ask("listen", "own", own, PORT)
    assert await server.fails("listen", "again", own, PORT) == "EADDRINUSE"
    assert await server.fails("listen", "any", "0.0.0.0", PORT) == "EADDRINUSE"
    assert await server.fails("listen", "alien", world.client.address, PORT) == "EADDRNOTAVAIL"
    assert await server.fails("listen", "loopback", "127.0.0.1", PORT) is None
    await server.ask("listen", "any", "0.0.0.0", PORT + 1)
    assert await server.fails("listen", "own", own, PORT + 1) == "EADDRINUSE"


@played
async def test_loopback_and_the_own_address_are_two_places(world: World) -> None:
    server, client = await world.start()
    own = world.server.address
    await server.ask("listen", "inside", "127.0.0.1", PORT, greeting="inside")
    assert await client.fails("connect", "c", own, PORT) == "ECONNREFUSED"
    assert await server.fails("connect", "c", own, PORT) == "ECONNREFUSED"
    await server.ask("listen", "outside", own, PORT, greeting="outside")
    await server.ask("connect", "i", "127.0.0.1", PORT)
    await client.ask("connect", "o", own, PORT)
    await server.until_received("i", 6)
    await client.until_received("o", 7)
    assert server.has("i", b"inside")
    assert client.has("o", b"outside")


@played
async def test_a_greeting_may_arrive_before_anything_was_sent(world: World) -> None:
    _, client = await world.connect(listening={"greeting": "welcome"})
    await client.until_received("c", 7)
    assert client.story("c") == ["made", "data"]


@played
async def test_connects_at_once_and_bytes_of_each(world: World) -> None:
    server, client = await world.start()
    await server.ask("listen", "s", world.server.address, PORT, echo=True)
    names = [f"c{number}" for number in range(10)]
    await asyncio.gather(
        *(client.tell("connect", name, world.server.address, PORT) for name in names)
    )
    for number, name in enumerate(names):
        await client.ask("write_pattern", name, 1000 + number)
    for number, name in enumerate(names):
        await client.until_received(name, 1000 + number)
        assert client.has(name, pattern(1000 + number))


@played
async def test_a_dead_port_answers_who_is_cut_off_only_afterwards(world: World) -> None:
    await world.server.start()
    client = await world.client.start()
    await world.drop(world.server, world.client)
    connecting = client.tell("connect", "c", world.server.address, PORT)
    await world.sleep(0.3)
    assert not connecting.done()
    await world.heal()
    with pytest.raises(Failed, match="ECONNREFUSED"):
        await connecting
