"""Bytes on their way, in both worlds: back-pressure, stopped readers, lost packets, hosts that were gone."""

from __future__ import annotations

from tests.parity.node import pattern
from tests.parity.world import PORT, World, played

MUCH = 8 << 20  # more than the socket buffers of both ends hold


@played
async def test_many_bytes_arrive_in_order(world: World) -> None:
    server, client = await world.connect()
    await client.ask("write_pattern", "c", 3_000_000)
    await server.until_received("s.1", 3_000_000)
    assert server.has("s.1", pattern(3_000_000))
    await client.until("c", "resume")
    assert client.story("c") == ["made", "pause", "resume"]


@played
async def test_a_writer_to_a_peer_that_does_not_read_is_asked_to_pause(world: World) -> None:
    server, client = await world.connect(listening={"reading": False})
    size = await client.ask("flood", "c", MUCH)
    assert 256 * 1024 <= size < MUCH
    assert client.story("c")[-1] == "pause"
    assert server.received("s.1") == 0
    await server.ask("resume_reading", "s.1")
    await server.until_received("s.1", size)
    assert server.has("s.1", pattern(MUCH)[:size])
    await client.until_true(lambda: client.story("c")[-1] == "resume")


@played
async def test_a_stopped_process_takes_bytes_up_to_the_window(world: World) -> None:
    """Its connection stays; when it goes on, everything is there, in order."""
    server, client = await world.connect()
    await world.server.pause()
    size = await client.ask("flood", "c", MUCH)
    assert 256 * 1024 <= size < MUCH
    assert client.story("c")[-1] == "pause"
    await world.server.resume()
    await server.until_received("s.1", size)
    assert server.story("s.1") == ["made", "data"]
    assert server.has("s.1", pattern(MUCH)[:size])
    await client.until_true(lambda: client.story("c")[-1] == "resume")


@played
async def test_timers_that_fell_due_while_a_process_stood_still_come_first(world: World) -> None:
    """SIGCONT ends a sleep without events, so a time-out beats the answer that came before it was due (signal(7))."""
    server, client = await world.connect()
    await client.ask("start_timer", "t", 1.0)
    await world.sleep(0.05)
    await world.client.pause()
    await server.ask("write", "s.1", "an answer in time")
    await world.sleep(1.2)
    assert client.order() == ["c made"]
    await world.client.resume()
    await client.until("c", "data")
    assert client.order() == ["c made", "t timer", "c data"]


@played
async def test_what_came_while_a_process_stood_still_comes_before_later_timers(
    world: World,
) -> None:
    server, client = await world.connect()
    await client.ask("start_timer", "t", 2.0)
    await world.sleep(0.05)
    await world.client.pause()
    await server.ask("write", "s.1", "an answer in time")
    await world.sleep(0.2)
    await world.client.resume()
    await client.until("t", "timer")
    assert client.order() == ["c made", "c data", "t timer"]


@played
async def test_what_is_lost_on_one_way_arrives_after_the_heal(world: World) -> None:
    server, client = await world.connect()
    await world.drop(world.client, world.server)
    for word in ("one ", "two ", "three "):
        await client.ask("write", "c", word)
    await server.ask("write", "s.1", "answer")  # the other way is open
    await client.until_received("c", 6)
    await world.sleep(0.3)
    assert server.story("s.1") == ["made"]
    await world.heal()
    await server.until_received("s.1", 14)
    await client.ask("write", "c", "four")
    await server.until_received("s.1", 18)
    assert server.has("s.1", b"one two three four")
    assert client.story("c") == ["made", "data"]


@played
async def test_bytes_of_which_no_acknowledgement_came_arrive_once(world: World) -> None:
    server, client = await world.connect()
    await world.drop(world.server, world.client)
    await client.ask("write", "c", "once ")
    await server.until_received("s.1", 5)
    await world.sleep(0.5)  # it was sent again meanwhile
    await client.ask("write", "c", "more")
    await world.heal()
    await server.until_received("s.1", 9)
    await world.sleep(0.3)
    assert server.has("s.1", b"once more")


@played
async def test_a_transfer_goes_on_after_a_black_hole(world: World) -> None:
    server, client = await world.connect(listening={"reading": False})
    await client.ask("write_pattern", "c", 2_000_000)
    await world.drop(world.client, world.server)
    await world.drop(world.server, world.client)
    await server.ask("resume_reading", "s.1")
    await world.sleep(0.4)
    assert server.received("s.1") < 2_000_000
    assert client.story("c") in (["made"], ["made", "pause"])
    await world.heal()
    await server.until_received("s.1", 2_000_000)
    assert server.has("s.1", pattern(2_000_000))


@played
async def test_an_end_of_file_that_was_lost_is_sent_again(world: World) -> None:
    server, client = await world.connect()
    await world.drop(world.server, world.client)
    await server.ask("write", "s.1", "last words")
    await server.ask("close", "s.1")
    await server.until("s.1", "lost")
    await world.sleep(0.2)
    assert client.story("c") == ["made"]
    await world.heal()
    await client.until("c", "lost")
    assert client.story("c") == ["made", "data", "eof", "lost"]
    assert client.has("c", b"last words")


@played
async def test_a_kernel_says_goodbye_for_a_process_that_died_behind_a_partition(
    world: World,
) -> None:
    server, client = await world.connect()
    await world.drop(world.server, world.client)
    await server.ask("write", "s.1", "last words")
    await world.server.kill()
    await world.sleep(0.2)
    assert client.story("c") == ["made"]
    await world.heal()
    await client.until("c", "lost")
    assert client.story("c") == ["made", "data", "eof", "lost"]


@played
async def test_a_lost_reset_is_not_sent_again(world: World) -> None:
    """The peer of a process that died with unread bytes behind a partition learns it from its own next write."""
    _, client = await world.connect(listening={"reading": False})
    await client.ask("write", "c", "never read")
    await world.sleep(0.05)
    await world.drop(world.server, world.client)
    await world.server.kill()
    await world.sleep(0.05)
    await world.heal()
    await world.sleep(0.5)
    assert client.story("c") == ["made"]
    await client.ask("write", "c", "question")
    await client.until("c", "lost")
    assert client.story("c") == ["made", "lost ECONNRESET"]


@played
async def test_a_host_that_rebooted_knows_no_connection(world: World) -> None:
    """A power cut sends no packet to peers. The new kernel answers the first segment that it sees by RST."""
    _, client = await world.connect()
    await world.server.power_cut()
    await world.sleep(0.2)
    await world.server.power_on()
    server = await world.server.start()
    await server.ask("listen", "s", world.server.address, PORT)
    await world.sleep(0.3)
    assert client.story("c") == ["made"]
    await client.ask("write", "c", "question")
    await client.until("c", "lost")
    assert client.story("c") == ["made", "lost ECONNRESET"]
    assert server.story("s.1") == []


@played
async def test_bytes_sent_to_a_dead_host_are_reset_after_its_boot(world: World) -> None:
    _, client = await world.connect()
    await world.server.power_cut()
    await client.ask("write", "c", "question")
    await world.sleep(0.3)
    assert client.story("c") == ["made"]
    await world.server.power_on()
    await client.until("c", "lost")
    assert client.story("c") == ["made", "lost ECONNRESET"]


@played
async def test_a_connection_without_acknowledgements_is_given_up(world: World) -> None:
    await world.give_up_soon()
    _, client = await world.connect()
    await world.server.power_cut()
    await client.ask("write", "c", "question")
    await client.until("c", "lost")
    assert client.story("c") == ["made", "lost ETIMEDOUT"]


@played
async def test_an_idle_connection_does_not_notice_a_partition(world: World) -> None:
    server, client = await world.connect()
    await world.drop(world.client, world.server)
    await world.drop(world.server, world.client)
    await world.sleep(0.4)
    await world.heal()
    await client.ask("write", "c", "still here")
    await server.until_received("s.1", 10)
    assert (client.story("c"), server.story("s.1")) == (["made"], ["made", "data"])
