"""TCP as a process sees it: the cases that clients and brokers meet when hosts and networks fail."""

from __future__ import annotations

import asyncio
import errno

import pytest

from staticfire.system_under_test.runtime.env import Env
from tests.harness.simulation.two_hosts import (
    CLIENT,
    PORT,
    SERVER,
    Echo,
    Recorder,
    TwoHosts,
    echoed,
)


def test_bytes_go_there_and_back() -> None:
    hosts = TwoHosts()
    hosts.listen(Echo)

    async def story(env: Env) -> None:
        client = await hosts.connect()
        assert await echoed(client, b"hello") == b"hello"
        assert client.transport.get_extra_info("peername") == (SERVER, PORT)
        assert hosts.accepted[0].transport.get_extra_info("peername")[0] == CLIENT

    hosts.run(story)


def test_writes_arrive_in_order_and_reads_are_sometimes_short() -> None:
    hosts = TwoHosts()
    sizes: list[int] = []

    class Sink(Recorder):
        def data_received(self, data: bytes) -> None:
            sizes.append(len(data))
            super().data_received(data)

    hosts.listen(Sink)
    sent = b"".join(bytes([number % 256]) * 10 for number in range(500))

    async def story(env: Env) -> None:
        client = await hosts.connect()
        for number in range(500):
            client.transport.write(sent[number * 10 : number * 10 + 10])
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.1)

    hosts.run(story)
    assert hosts.accepted[0].received == sent
    assert any(size % 10 for size in sizes)


def test_a_port_without_a_listener() -> None:
    hosts = TwoHosts()

    async def story(env: Env) -> float:
        loop = asyncio.get_running_loop()
        before_s = loop.time()
        with pytest.raises(ConnectionRefusedError, match=r"Connection refused: 10\.0\.0\.1:10911"):
            await hosts.connect()
        return loop.time() - before_s

    assert hosts.run(story) < 0.01


def test_connect_to_a_host_without_power_takes_127_s() -> None:
    hosts = TwoHosts()
    hosts.server.power_cut()

    async def story(env: Env) -> float:
        loop = asyncio.get_running_loop()
        before_s = loop.time()
        with pytest.raises(TimeoutError, match="Connection timed out"):
            await hosts.connect()
        return loop.time() - before_s

    assert 127 <= hosts.run(story) < 127.1
    assert hosts.network.unreachable("client", "server") == 7
    assert hosts.network.dropped("client", "server") == 0


@pytest.mark.parametrize("lost", [("client", "server"), ("server", "client")])
def test_syn_is_retried_after_1_2_and_4_s(lost: tuple[str, str]) -> None:
    hosts = TwoHosts()
    hosts.listen(Echo)
    hosts.network.drop(*lost)

    async def story(env: Env) -> float:
        loop = asyncio.get_running_loop()
        loop.call_later(4, hosts.network.heal_drop, *lost)
        before_s = loop.time()
        client = await hosts.connect()
        elapsed_s = loop.time() - before_s
        assert await echoed(client, b"alive") == b"alive"
        return elapsed_s

    assert 7 <= hosts.run(story) < 7.1
    assert hosts.network.dropped(*lost) == 3
    assert len(hosts.accepted) == 1


def test_a_connect_that_is_given_up_leaves_nothing_behind() -> None:
    hosts = TwoHosts()
    hosts.listen(Echo)
    hosts.network.drop("server", "client")

    async def story(env: Env) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(hosts.connect(), 2.5)
        hosts.network.heal()
        await asyncio.sleep(10)

    hosts.run(story)
    assert not hosts.accepted
    assert not hosts.client.kernel.sockets
    assert not hosts.server.kernel.sockets


def test_a_killed_peer_sends_fin() -> None:
    hosts = TwoHosts()
    server = hosts.listen()

    async def story(env: Env) -> None:
        client = await hosts.connect()
        server.kill()
        assert await client.gone is None
        assert client.events == ["made", "eof", "lost"]

    hosts.run(story)


def test_a_killed_peer_with_unread_bytes_sends_rst() -> None:
    hosts = TwoHosts()
    server = hosts.listen()

    async def story(env: Env) -> None:
        client = await hosts.connect()
        await asyncio.sleep(0.01)
        server.pause()
        client.transport.write(b"never read")
        await asyncio.sleep(0.01)
        server.kill()
        assert isinstance(await client.gone, ConnectionResetError)
        assert client.events == ["made", "ConnectionResetError"]

    hosts.run(story)


def test_bytes_sent_before_a_kill_still_arrive() -> None:
    hosts = TwoHosts()

    class Greeter(Recorder):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            self.transport.write(b"last words")
            hosts.world.loop.scheduler.at(hosts.world.now_ns, lambda _: server.kill())

    server = hosts.listen(Greeter)

    async def story(env: Env) -> None:
        client = await hosts.connect()
        assert await client.gone is None
        assert client.received == b"last words"

    hosts.run(story)
    assert not server.alive


def test_writing_to_a_closed_peer_is_answered_by_rst() -> None:
    hosts = TwoHosts()
    hosts.listen()

    class HalfOpen(Recorder):
        def eof_received(self) -> bool | None:
            super().eof_received()
            return True

    async def story(env: Env) -> None:
        client = await hosts.connect(HalfOpen)
        await asyncio.sleep(0.01)
        hosts.accepted[0].transport.close()
        await asyncio.sleep(0.01)
        assert client.events == ["made", "eof"]
        client.transport.write(b"late data")
        await asyncio.sleep(0.01)
        client.transport.write(b"late data")
        assert isinstance(await client.gone, ConnectionResetError | BrokenPipeError)

    hosts.run(story)


def test_half_close_still_receives() -> None:
    hosts = TwoHosts()

    class AnswersAtTheEnd(Recorder):
        def eof_received(self) -> bool | None:
            self.transport.write(b"got %d" % len(self.received))
            return None

    hosts.listen(AnswersAtTheEnd)

    async def story(env: Env) -> None:
        client = await hosts.connect()
        client.transport.write(b"12345")
        client.transport.write_eof()
        assert await client.gone is None
        assert client.received == b"got 5"

    hosts.run(story)


def test_close_delivers_what_was_written() -> None:
    hosts = TwoHosts()
    hosts.listen()
    size = 2_000_000

    async def story(env: Env) -> None:
        client = await hosts.connect()
        client.transport.write(bytes(size))
        client.transport.close()
        await client.gone
        await asyncio.sleep(0.1)

    hosts.run(story)
    assert len(hosts.accepted[0].received) == size
    assert hosts.accepted[0].events == ["made", "eof", "lost"]


def test_abort_drops_what_is_buffered() -> None:
    hosts = TwoHosts()
    hosts.listen()

    async def story(env: Env) -> None:
        client = await hosts.connect()
        client.transport.write(bytes(2_000_000))
        client.transport.abort()
        assert await client.gone is None
        await asyncio.sleep(0.1)

    hosts.run(story)
    assert len(hosts.accepted[0].received) == 256 * 1024


def test_back_pressure_of_a_peer_that_does_not_read() -> None:
    hosts = TwoHosts()
    hosts.listen()

    async def story(env: Env) -> list[int]:
        client = await hosts.connect()
        await asyncio.sleep(0.01)
        hosts.accepted[0].transport.pause_reading()
        steps = []
        for _ in range(40):
            client.transport.write(bytes(16 * 1024))
            steps.append(client.transport.get_write_buffer_size())
            await asyncio.sleep(0.001)
            if not client.writable:
                break
        hosts.accepted[0].transport.resume_reading()
        await asyncio.sleep(0.1)
        assert client.events == ["made", "pause", "resume"]
        assert client.transport.get_write_buffer_size() == 0
        return steps

    steps = hosts.run(story)
    # 256 KiB go to the window, and more than 64 KiB in user space pause the protocol.
    assert len(steps) == 16 + 5
    assert steps[15:] == [0, 16384, 32768, 49152, 65536, 81920]
    assert len(hosts.accepted[0].received) == len(steps) * 16 * 1024


def test_a_lost_segment_is_retried_after_200_ms_doubling() -> None:
    hosts = TwoHosts()
    hosts.listen(Echo)

    async def story(env: Env) -> float:
        loop = asyncio.get_running_loop()
        client = await hosts.connect()
        await asyncio.sleep(0.01)
        hosts.network.drop("client", "server")
        loop.call_later(1, hosts.network.heal_drop, "client", "server")
        before_s = loop.time()
        assert await echoed(client, b"late") == b"late"
        return loop.time() - before_s

    # Lost at 0, 0.2 and 0.6; the retry at 1.4 arrives.
    assert 1.4 <= hosts.run(story) < 1.41
    assert hosts.network.dropped("client", "server") == 3
    assert hosts.network.dropped("server", "client") == 0


def test_a_lost_way_back_delivers_once_and_stalls_the_sender() -> None:
    hosts = TwoHosts()
    hosts.listen(Echo)

    async def story(env: Env) -> None:
        client = await hosts.connect()
        await asyncio.sleep(0.01)
        hosts.network.drop("server", "client")
        client.transport.write(b"first,")
        await asyncio.sleep(0.05)
        client.transport.write(b"second,")  # no retry has failed yet
        await asyncio.sleep(0.5)
        client.transport.write(b"third")  # the window has collapsed
        await asyncio.sleep(2)
        assert hosts.accepted[0].received == b"first,second,"
        assert not client.received
        hosts.network.heal()
        await asyncio.sleep(5)
        assert hosts.accepted[0].received == b"first,second,third"
        assert client.received == b"first,second,third"

    hosts.run(story)
    assert hosts.network.dropped("server", "client") > 3
    assert hosts.network.dropped("client", "server") == 0


def test_segments_keep_their_order_when_one_is_lost_on_a_slow_link() -> None:
    hosts = TwoHosts()
    hosts.listen()
    numbers = [b"%03d" % number for number in range(40)]

    async def story(env: Env) -> None:
        client = await hosts.connect()
        hosts.network.delay("client", "server", 700)
        loop = asyncio.get_running_loop()
        loop.call_later(1.0, hosts.network.drop, "client", "server")
        loop.call_later(1.6, hosts.network.heal_drop, "client", "server")
        for number in numbers:
            client.transport.write(number)
            await asyncio.sleep(0.1)
        await asyncio.sleep(30)

    hosts.run(story)
    assert hosts.accepted[0].received == b"".join(numbers)
    assert hosts.network.dropped("client", "server") > 0


def test_a_sender_that_never_rests_recovers_as_soon_as_its_retry_arrives() -> None:
    hosts = TwoHosts()
    hosts.listen()

    async def story(env: Env) -> int:
        loop = asyncio.get_running_loop()
        client = await hosts.connect()
        hosts.network.drop("client", "server")
        loop.call_later(0.1, hosts.network.heal)
        hosts.network.delay("client", "server", 50)
        for _ in range(100):
            client.transport.write(b"x")
            await asyncio.sleep(0.005)
        return len(hosts.accepted[0].received)

    assert hosts.run(story) > 50


def test_a_retry_of_what_had_arrived_is_reset_by_the_rebooted_host() -> None:
    hosts = TwoHosts()
    hosts.listen()

    async def story(env: Env) -> None:
        client = await hosts.connect()
        await asyncio.sleep(0.01)
        hosts.network.drop("server", "client")
        client.transport.write(b"arrives, but the acknowledgement does not")
        await asyncio.sleep(0.01)
        assert hosts.accepted[0].received
        hosts.server.power_cut()
        hosts.server.power_on()
        await asyncio.sleep(0.5)
        assert client.events == ["made"]  # the RST was dropped, too
        hosts.network.heal()
        assert isinstance(await client.gone, ConnectionResetError)

    hosts.run(story)


def test_rst_leaves_what_was_not_read() -> None:
    hosts = TwoHosts()
    server = hosts.listen()

    async def story(env: Env) -> None:
        client = await hosts.connect()
        await asyncio.sleep(0.01)
        client.transport.pause_reading()
        hosts.accepted[0].transport.write(b"not read yet")
        await asyncio.sleep(0.01)
        server.pause()
        client.transport.write(b"unread, so that the kill sends RST")
        await asyncio.sleep(0.01)
        server.kill()
        await asyncio.sleep(0.01)
        client.transport.resume_reading()
        assert isinstance(await client.gone, ConnectionResetError)
        assert client.received == b"not read yet"

    hosts.run(story)


def test_a_port_of_loopback_is_closed_to_others() -> None:
    hosts = TwoHosts()

    async def serve(env: Env) -> None:
        server = await asyncio.get_running_loop().create_server(Recorder, "127.0.0.1", PORT)
        await server.serve_forever()

    hosts.server.start("server", serve)

    async def story(env: Env) -> None:
        with pytest.raises(ConnectionRefusedError):
            await hosts.connect()

    hosts.run(story)


def test_a_connection_without_answers_fails_after_a_quarter_of_an_hour() -> None:
    hosts = TwoHosts()
    hosts.listen()

    async def story(env: Env) -> float:
        loop = asyncio.get_running_loop()
        client = await hosts.connect()
        hosts.network.drop("server", "client")
        hosts.network.drop("client", "server")
        client.transport.write(b"into the void")
        before_s = loop.time()
        error = await client.gone
        assert isinstance(error, TimeoutError)
        assert error.errno == errno.ETIMEDOUT
        return loop.time() - before_s

    assert 900 < hosts.run(story) < 950


def test_a_power_cut_is_noticed_only_when_the_rebooted_host_sees_a_segment() -> None:
    hosts = TwoHosts()
    hosts.listen(Echo)

    async def story(env: Env) -> None:
        loop = asyncio.get_running_loop()
        client = await hosts.connect()
        await echoed(client, b"x")
        hosts.server.power_cut()
        await asyncio.sleep(60)
        hosts.server.power_on()
        await asyncio.sleep(60)
        assert client.events == ["made"]  # half-open: no packet has informed it
        before_s = loop.time()
        client.transport.write(b"are you there?")
        assert isinstance(await client.gone, ConnectionResetError)
        assert loop.time() - before_s < 0.01

    hosts.run(story)


def test_bytes_sent_to_a_dead_host_are_reset_by_a_retry_after_it_rebooted() -> None:
    hosts = TwoHosts()
    hosts.listen(Echo)

    async def story(env: Env) -> float:
        loop = asyncio.get_running_loop()
        client = await hosts.connect()
        await echoed(client, b"x")
        hosts.server.power_cut()
        client.transport.write(b"are you there?")
        loop.call_later(2, hosts.server.power_on)
        before_s = loop.time()
        assert isinstance(await client.gone, ConnectionResetError)
        return loop.time() - before_s

    assert 3 <= hosts.run(story) < 3.01  # retries at 0.2, 0.6, 1.4 and 3.0
    assert hosts.network.unreachable("client", "server") == 4


def test_a_paused_process_accepts_and_acknowledges_but_does_not_answer() -> None:
    hosts = TwoHosts()
    hosts.listen(Echo)

    async def story(env: Env) -> None:
        hosts.server.pause()
        client = await hosts.connect()  # the kernel completes it from the backlog
        client.transport.write(b"question")
        await asyncio.sleep(600)
        assert client.events == ["made"]
        assert not client.received
        assert not hosts.accepted
        hosts.server.resume()
        await asyncio.sleep(0.1)
        assert client.received == b"question"

    hosts.run(story)
    assert hosts.network.dropped("client", "server") == 0


def test_a_paused_process_takes_bytes_up_to_the_window() -> None:
    hosts = TwoHosts()
    hosts.listen()

    async def story(env: Env) -> None:
        client = await hosts.connect()
        await asyncio.sleep(0.01)
        hosts.server.pause()
        client.transport.write(bytes(400 * 1024))
        await asyncio.sleep(600)
        assert client.transport.get_write_buffer_size() == (400 - 256) * 1024
        assert client.events == ["made", "pause"]
        hosts.server.resume()
        await asyncio.sleep(0.1)
        assert len(hosts.accepted[0].received) == 400 * 1024

    hosts.run(story)


def test_a_full_backlog_ignores_syn() -> None:
    hosts = TwoHosts()
    server = hosts.listen(backlog=2)

    async def story(env: Env) -> None:
        server.pause()
        for _ in range(3):  # Linux takes one more than the backlog says
            await hosts.connect()
            await asyncio.sleep(0.01)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(hosts.connect(), 5)
        server.resume()
        await hosts.connect()

    hosts.run(story)


def test_killing_a_process_resets_who_waits_in_its_backlog() -> None:
    hosts = TwoHosts()
    server = hosts.listen()

    async def story(env: Env) -> None:
        server.pause()
        client = await hosts.connect()
        await asyncio.sleep(0.01)
        server.kill()
        assert isinstance(await client.gone, ConnectionResetError)

    hosts.run(story)


def test_a_lost_rst_is_not_sent_again() -> None:
    hosts = TwoHosts()
    server = hosts.listen()

    async def story(env: Env) -> None:
        client = await hosts.connect()
        await asyncio.sleep(0.01)
        server.pause()
        client.transport.write(b"unread")
        await asyncio.sleep(0.01)
        hosts.network.drop("server", "client")
        server.kill()
        await asyncio.sleep(1)
        hosts.network.heal()
        await asyncio.sleep(600)
        assert client.events == ["made"]
        client.transport.write(b"?")
        assert isinstance(await client.gone, ConnectionResetError)

    hosts.run(story)


def test_loopback_and_port_zero() -> None:
    hosts = TwoHosts()

    async def story(env: Env) -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Echo, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        assert host == "127.0.0.1"
        assert port >= 32768
        _, client = await loop.create_connection(Recorder, "127.0.0.1", port)
        assert await echoed(client, b"me") == b"me"
        with pytest.raises(OSError, match="address already in use"):
            await loop.create_server(Echo, "0.0.0.0", port)
        with pytest.raises(OSError, match=r"cannot bind 10\.9\.9\.9"):
            await loop.create_server(Echo, "10.9.9.9", 1)
        server.close()
        with pytest.raises(ConnectionRefusedError):
            await loop.create_connection(Recorder, "127.0.0.1", port)

    hosts.run(story)


def test_streams_work_too() -> None:
    hosts = TwoHosts()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def story(env: Env) -> bytes:
        server = await asyncio.start_server(serve, CLIENT, PORT)
        reader, writer = await asyncio.open_connection(CLIENT, PORT)
        writer.write(b"hello\n")
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        server.close()
        return answer

    assert hosts.run(story) == b"HELLO\n"
