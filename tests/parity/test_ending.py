"""How connections end, in both worlds: closed, half closed, aborted, or with their process."""

from __future__ import annotations

from tests.parity.node import pattern
from tests.parity.world import PORT, World, played

MUCH = 8 << 20  # more than the socket buffers of both ends hold


@played
async def test_close_is_an_end_of_file_behind_what_was_written(world: World) -> None:
    server, client = await world.connect()
    await client.ask("write", "c", "last words")
    await client.ask("close", "c")
    await server.until("s.1", "lost")
    await client.until("c", "lost")
    assert client.story("c") == ["made", "lost"]
    assert server.story("s.1") == ["made", "data", "eof", "lost"]
    assert server.has("s.1", b"last words")


@played
async def test_half_close_still_receives(world: World) -> None:
    server, client = await world.connect(listening={"half_open": True})
    await client.ask("write", "c", "question")
    await client.ask("write_eof", "c")
    await server.until("s.1", "eof")
    await server.ask("write", "s.1", "answer")
    await client.until_received("c", 6)
    await server.ask("close", "s.1")
    await client.until("c", "lost")
    assert client.story("c") == ["made", "data", "eof", "lost"]
    assert server.story("s.1") == ["made", "data", "eof", "lost"]


@played
async def test_a_killed_peer_says_goodbye(world: World) -> None:
    _, client = await world.connect()
    await world.server.kill()
    await client.until("c", "lost")
    assert client.story("c") == ["made", "eof", "lost"]


@played
async def test_a_process_that_ends_says_goodbye_too(world: World) -> None:
    server, client = await world.connect(listening={"greeting": "welcome"})
    server.tell("end")
    await client.until("c", "lost")
    assert client.story("c") == ["made", "data", "eof", "lost"]


@played
async def test_a_killed_peer_with_unread_bytes_resets(world: World) -> None:
    _, client = await world.connect()
    await world.server.pause()
    await client.ask("write", "c", "never read")
    await world.sleep(0.05)
    await world.server.kill()
    await client.until("c", "lost")
    assert client.story("c") == ["made", "lost ECONNRESET"]


@played
async def test_close_with_unread_bytes_resets(world: World) -> None:
    server, client = await world.connect(listening={"reading": False})
    await client.ask("write", "c", "never read")
    await world.sleep(0.05)
    await server.ask("close", "s.1")
    await client.until("c", "lost")
    assert client.story("c") == ["made", "lost ECONNRESET"]


@played
async def test_bytes_that_a_killed_process_had_sent_arrive(world: World) -> None:
    """The kernel sends what it has been given, although the process that wrote it is gone."""
    server, client = await world.connect(reading=False)
    await server.ask("write_pattern", "s.1", 100_000)
    await world.sleep(0.05)  # until the kernel has all
    await world.server.kill()
    await world.sleep(0.05)
    await client.ask("resume_reading", "c")
    await client.until("c", "lost")
    assert client.story("c") == ["made", "data", "eof", "lost"]
    assert client.has("c", pattern(100_000))


@played
async def test_a_killed_process_takes_along_what_its_kernel_had_no_room_for(world: World) -> None:
    server, client = await world.connect(reading=False)
    size = MUCH
    await server.ask("write_pattern", "s.1", size)
    await world.server.kill()
    await client.ask("resume_reading", "c")
    await client.until("c", "lost")
    assert client.story("c") == ["made", "data", "eof", "lost"]
    assert 0 < client.received("c") < size
    assert client.has_prefix("c", pattern(size))


@played
async def test_close_delivers_what_was_buffered(world: World) -> None:
    server, client = await world.connect(reading=False)
    size = MUCH
    await server.ask("write_pattern", "s.1", size)
    await server.ask("close", "s.1")
    await world.sleep(0.1)
    assert server.story("s.1") == ["made", "pause"]
    await client.ask("resume_reading", "c")
    await client.until("c", "lost")
    assert client.story("c") == ["made", "data", "eof", "lost"]
    assert client.has("c", pattern(size))
    await server.until("s.1", "lost")
    assert server.story("s.1")[-1] == "lost"


@played
async def test_abort_drops_what_is_buffered_and_no_more(world: World) -> None:
    server, client = await world.connect(reading=False)
    size = MUCH
    await server.ask("write_pattern", "s.1", size)
    await server.ask("abort", "s.1")
    await server.until("s.1", "lost")
    assert server.story("s.1") == ["made", "pause", "lost"]
    await client.ask("resume_reading", "c")
    await client.until("c", "lost")
    assert client.story("c") == ["made", "data", "eof", "lost"]
    assert 0 < client.received("c") < size
    assert client.has_prefix("c", pattern(size))


@played
async def test_the_first_write_to_a_closed_peer_succeeds(world: World) -> None:
    """It is answered by RST. Behind an end of file that is a broken pipe for the next one (Linux: tcp_reset)."""
    server, client = await world.connect(half_open=True)
    await server.ask("close", "s.1")
    await client.until("c", "eof")
    await client.ask("write", "c", "late data")
    await world.sleep(0.1)
    assert client.story("c") == ["made", "eof"]
    await client.ask("write", "c", "late data")
    await client.until("c", "lost")
    assert client.story("c") == ["made", "eof", "lost EPIPE"]


@played
async def test_a_write_to_who_closed_early_is_reset(world: World) -> None:
    """Who reads on finds the end of the file before the reset that its own write caused."""
    server, client = await world.connect(reading=False)
    await server.ask("write", "s.1", "goodbye")
    await server.ask("close", "s.1")
    await world.sleep(0.05)
    await client.ask("write", "c", "late data")
    await world.sleep(0.05)
    assert client.story("c") == ["made"]
    await client.ask("resume_reading", "c")
    await client.until("c", "lost")
    assert client.story("c") == ["made", "data", "eof", "lost"]
    assert client.has("c", b"goodbye")


@played
async def test_a_reset_leaves_what_had_arrived(world: World) -> None:
    server, client = await world.connect(
        reading=False, listening={"greeting": "welcome", "reading": False}
    )
    await client.ask("write", "c", "never read")
    await world.sleep(0.05)
    await server.ask("close", "s.1")
    await world.sleep(0.05)
    await client.ask("resume_reading", "c")
    await client.until("c", "lost")
    assert client.story("c") == ["made", "data", "lost ECONNRESET"]
    assert client.has("c", b"welcome")


@played
async def test_a_reset_leaves_what_had_arrived_in_a_stopped_process(world: World) -> None:
    server, client = await world.connect(listening={"reading": False})
    await client.ask("write", "c", "never read")
    await world.sleep(0.05)
    await world.client.pause()
    await server.ask("write_pattern", "s.1", 10_000)
    await world.sleep(0.05)
    await world.server.kill()
    await world.sleep(0.05)
    await world.client.resume()
    await client.until("c", "lost")
    assert client.story("c") == ["made", "data", "lost ECONNRESET"]
    assert client.has("c", pattern(10_000))


@played
async def test_a_reset_without_a_reader_is_found_by_the_next_write(world: World) -> None:
    server, client = await world.connect(reading=False, listening={"reading": False})
    await client.ask("write", "c", "never read")
    await world.sleep(0.05)
    await server.ask("close", "s.1")
    await world.sleep(0.05)
    assert client.story("c") == ["made"]
    await client.ask("write", "c", "late data")
    await client.until("c", "lost")
    assert client.story("c") == ["made", "lost ECONNRESET"]


@played
async def test_an_end_of_file_waits_for_who_does_not_read(world: World) -> None:
    _, client = await world.connect(reading=False)
    await world.server.kill()
    await world.sleep(0.1)
    assert client.story("c") == ["made"]
    await client.ask("resume_reading", "c")
    await client.until("c", "lost")
    assert client.story("c") == ["made", "eof", "lost"]


@played
async def test_a_writer_to_a_killed_reader_gets_an_error(world: World) -> None:
    _, client = await world.connect(listening={"reading": False})
    await client.ask("flood", "c", MUCH)
    await world.server.kill()
    await client.until("c", "lost")
    assert client.story("c")[-2:] == ["pause", "lost ECONNRESET"]


@played
async def test_both_close_at_once(world: World) -> None:
    server, client = await world.connect(listening={"half_open": True}, half_open=True)
    both = [client.tell("write_eof", "c"), server.tell("write_eof", "s.1")]
    for one in both:
        await one
    await client.until("c", "eof")
    await server.until("s.1", "eof")
    assert client.story("c") == ["made", "eof"]
    await client.ask("close", "c")
    await server.ask("close", "s.1")
    await client.until("c", "lost")
    await server.until("s.1", "lost")
    assert server.story("s.1") == ["made", "eof", "lost"]


@played
async def test_a_port_answers_for_old_connections_after_a_restart(world: World) -> None:
    """A new process on the port is no heir of the connections of the old one."""
    _, client = await world.connect(half_open=True)
    await world.server.kill()
    await client.until("c", "eof")
    server = await world.server.start()
    await server.ask("listen", "s", world.server.address, PORT)
    await client.ask("write", "c", "to the old one")
    await world.sleep(0.05)
    await client.ask("write", "c", "to the old one")
    await client.until("c", "lost")
    assert client.story("c") == ["made", "eof", "lost EPIPE"]
    assert server.story("s.1") == []
