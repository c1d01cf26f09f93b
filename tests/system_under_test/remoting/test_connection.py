"""A connection on a transport in memory and a loop whose time is moved by hand."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting import (
    Connection,
    Handler,
    RemotingClosed,
    RemotingError,
    RemotingTimeout,
    TurnOutput,
)
from staticfire.system_under_test.remoting.connection import (
    IDLE_TIMEOUT_S,
    LARGE_READ_SIZE,
    OUTPUT_SIZE_MAX,
    READ_SIZE,
)
from staticfire.system_under_test.remoting.held_memory import HeldMemory
from tests.system_under_test.remoting.manual_loop import ManualLoop, MemoryLog, MemoryTransport


class Wire:
    """A connection with its surroundings; `closes` counts the calls of on_close."""

    def __init__(self, handler: Handler | None = None, memory: HeldMemory | None = None) -> None:
        self.loop = ManualLoop()
        self.log = MemoryLog()
        self.closes = 0
        self.connection = Connection(
            key=1,
            loop=self.loop.loop,
            log=self.log,
            handler=handler,
            on_close=self._closed,
            memory=memory,
        )
        self.transport = MemoryTransport(self.loop, self.connection)
        self.connection.connection_made(self.transport)

    def _closed(self, connection: Connection) -> None:
        assert connection is self.connection
        self.closes += 1

    def invoke(self, timeout_s: float = 3.0, **kwargs: bool) -> asyncio.Future[RemotingCommand]:
        return self.connection.invoke_nowait(request(), timeout_s, **kwargs)

    def receive(self, *commands: RemotingCommand) -> None:
        self.connection.data_received(b"".join(command.encode() for command in commands))
        self.loop.turn()


def request(code: int = 105, opaque: int = 0, *, oneway: bool = False) -> RemotingCommand:
    command = RemotingCommand.request(code, {"topic": "T"}, b"hi", oneway=oneway)
    command.opaque = opaque
    return command


def echo(connection: Connection, command: RemotingCommand) -> RemotingCommand:
    return RemotingCommand.response(command, ResponseCode.SUCCESS, body=command.body)


def never(connection: Connection, command: RemotingCommand) -> None:
    return None


def raising(error: Exception) -> Handler:
    def handler(connection: Connection, command: RemotingCommand) -> RemotingCommand:
        raise error

    return handler


# Serving


def test_knows_its_peer() -> None:
    assert (Wire().connection.remote_host, Wire().connection.address) == (
        "10.0.0.9",
        "10.0.0.9:40000",
    )


def test_pipelined_requests_are_answered_in_order_with_one_write() -> None:
    wire = Wire(echo)
    wire.receive(request(opaque=7), request(opaque=8), request(opaque=9))
    assert [answer.opaque for answer in wire.transport.commands()] == [7, 8, 9]
    assert len(wire.transport.writes) == 1


def test_a_frame_may_come_byte_by_byte() -> None:
    wire = Wire(echo)
    for byte in request(opaque=7).encode():
        wire.connection.data_received(bytes([byte]))
    assert [answer.opaque for answer in wire.transport.commands()] == [7]


class SelectorTransport(MemoryTransport):
    """A transport that lets its protocol choose how much it reads at once, as those of asyncio's selector loop do."""

    max_size = 1 << 18


def test_inside_a_large_frame_more_is_read_at_once() -> None:
    wire = Wire(echo)
    transport = SelectorTransport(wire.loop, wire.connection)
    wire.connection.connection_made(transport)
    assert transport.max_size == READ_SIZE
    large = RemotingCommand.request(105, body=bytes(3 * READ_SIZE)).encode()
    wire.connection.data_received(large[:READ_SIZE])
    assert transport.max_size == LARGE_READ_SIZE
    wire.connection.data_received(large[READ_SIZE:] + large[:10])
    assert transport.max_size == READ_SIZE


def test_a_transport_that_encrypts_reads_as_it_likes() -> None:
    wire = Wire(echo)
    wire.connection.connection_made(SelectorTransport(wire.loop, wire.connection))
    wire.connection.use_transport(wire.transport)
    wire.connection.data_received(b"\0\0")
    assert not hasattr(wire.transport, "max_size")


class BrokenTransport(MemoryTransport):
    """A TLS session that has failed."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        raise ssl.SSLError("protocol is shutdown")


def test_a_session_that_has_failed_ends_its_connection_alone() -> None:
    wire, other = Wire(), Wire()
    output = TurnOutput()
    wire.connection.use_transport(BrokenTransport(wire.loop, wire.connection))
    with output:
        for connection in (wire.connection, other.connection):
            connection.send(request())
            output.add(connection, wire.loop.loop)
    assert wire.connection.closed
    assert wire.log.names("warning") == ["cannot write"]
    assert len(other.transport.writes) == 1


def test_an_answer_shows_that_the_peer_has_read_what_was_sent_before() -> None:
    wire = Wire()
    first, one_way, second = request(), request(), request()
    for command in (first, one_way, second):
        if command is one_way:
            wire.connection.invoke_oneway(command)
        else:
            wire.connection.invoke_nowait(command, timeout_s=3)
    for answered, is_read in ((first, False), (second, True), (first, True)):
        wire.receive(RemotingCommand.response(answered, ResponseCode.SUCCESS))
        assert wire.connection.has_answered_after(one_way.opaque) is is_read
    wire.connection.abort()
    assert wire.connection.has_answered_after(one_way.opaque)
    assert not wire.connection.has_answered_after(second.opaque)


@pytest.mark.parametrize("serialize_type", [0, 1])
def test_answers_in_the_serialize_type_of_the_request(serialize_type: int) -> None:
    wire = Wire(echo)
    asked = request(opaque=7)
    asked.serialize_type = serialize_type
    wire.receive(asked)
    [answer] = wire.transport.commands()
    assert (answer.serialize_type, answer.body, answer.is_response) == (serialize_type, b"hi", True)


@pytest.mark.parametrize(
    ("handler", "oneway", "codes"),
    [
        (echo, False, [ResponseCode.SUCCESS]),
        (echo, True, []),
        (never, False, []),
        (raising(ValueError("topic is missing")), False, [ResponseCode.SYSTEM_ERROR]),
        (raising(KeyError("topic")), False, [ResponseCode.SYSTEM_ERROR]),
        (raising(ValueError("topic is missing")), True, []),
        (None, False, [ResponseCode.REQUEST_CODE_NOT_SUPPORTED]),
        (None, True, []),
    ],
)
def test_answers(handler: Handler | None, oneway: bool, codes: list[int]) -> None:
    wire = Wire(handler)
    wire.receive(request(oneway=oneway))
    assert [answer.code for answer in wire.transport.commands()] == codes
    assert not wire.connection.closed


def test_the_text_of_an_exception_goes_to_the_peer_up_to_a_length() -> None:
    wire = Wire(raising(ValueError("x" * 5000)))
    wire.receive(request())
    [answer] = wire.transport.commands()
    assert answer.remark is not None
    assert answer.remark.startswith("ValueError: xxx")
    assert len(answer.remark) == 1024


@pytest.mark.parametrize(
    ("error", "logged"),
    [(ValueError("asked wrongly"), []), (KeyError("our mistake"), ["request failed"])],
)
def test_only_our_own_failures_are_logged(error: Exception, logged: list[str]) -> None:
    wire = Wire(raising(error))
    wire.receive(request())
    assert wire.log.names("warning", "error") == logged


def test_a_handler_may_answer_later() -> None:
    asked: list[RemotingCommand] = []

    def hold(connection: Connection, command: RemotingCommand) -> None:
        asked.append(command)

    wire = Wire(hold)
    wire.receive(request(opaque=7))
    wire.connection.send(RemotingCommand.response(asked[0], ResponseCode.PULL_NOT_FOUND))
    wire.connection.send(RemotingCommand.response(asked[0], ResponseCode.SUCCESS))
    assert wire.transport.writes == []  # both leave together, in the next turn of the loop
    wire.loop.turn()
    assert len(wire.transport.writes) == 1
    assert [answer.code for answer in wire.transport.commands()] == [19, 0]


# Asking


def test_answers_may_come_in_any_order() -> None:
    wire = Wire()
    futures = [wire.invoke(), wire.invoke()]
    wire.loop.turn()
    sent = wire.transport.commands()
    for command in reversed(sent):
        wire.receive(RemotingCommand.response(command, ResponseCode.SUCCESS))
    assert [future.result().opaque for future in futures] == [command.opaque for command in sent]


@pytest.mark.parametrize("opaque", [0, 999, -1])
def test_a_response_without_a_waiting_request_is_ignored(opaque: int) -> None:
    wire = Wire()
    future = wire.invoke()
    wire.receive(RemotingCommand.response(request(opaque=opaque), ResponseCode.SUCCESS))
    assert (future.done(), wire.connection.closed) == (False, False)


def test_a_late_response_is_ignored() -> None:
    wire = Wire()
    future = wire.invoke(1.0)
    wire.loop.advance(2.0)
    wire.receive(RemotingCommand.response(wire.transport.commands()[0], ResponseCode.SUCCESS))
    with pytest.raises(RemotingTimeout, match=r"request 105 to 10.0.0.9:40000 .* in 1 s"):
        future.result()
    assert not wire.connection.closed


def test_a_timeout_closes_only_if_requested() -> None:
    wire = Wire()
    other, future = wire.invoke(30.0), wire.invoke(1.0, close_on_timeout=True)
    wire.loop.advance(1.0)
    assert isinstance(future.exception(), RemotingTimeout)
    assert isinstance(other.exception(), RemotingClosed)
    assert (wire.transport.closing, wire.closes) == ("closed", 1)


def test_a_caller_that_gave_up_does_not_close_the_connection() -> None:
    wire = Wire()
    wire.invoke(1.0, close_on_timeout=True).cancel()
    wire.loop.advance(2.0)
    assert not wire.connection.closed


@given(st.lists(st.floats(0.001, 5.0), min_size=1, max_size=30), st.data())
def test_every_request_times_out_soon_after_its_deadline(
    timeouts: list[float], data: st.DataObject
) -> None:
    wire = Wire()
    ended: dict[int, float] = {}
    deadlines = []

    def note_end(number: int, future: asyncio.Future[RemotingCommand]) -> None:
        assert isinstance(future.exception(), RemotingTimeout)
        ended[number] = wire.loop.now_s

    for number, timeout_s in enumerate(timeouts):
        wire.loop.advance(data.draw(st.floats(0.0, 0.1)))
        deadlines.append(wire.loop.now_s + timeout_s)
        wire.invoke(timeout_s).add_done_callback(partial(note_end, number))
        assert len(wire.loop.timers) == 2  # the sweep and the idle check
    wire.loop.advance(6.0)
    for number, deadline_s in enumerate(deadlines):
        assert -1e-6 <= ended[number] - deadline_s <= 0.05 + 1e-6
    assert len(wire.loop.timers) == 1


def test_requests_answered_in_time_leave_the_timer_alone() -> None:
    wire = Wire(echo)
    for _ in range(100):
        wire.invoke(3.0)
        wire.loop.turn()
        sent = wire.transport.commands()[-1]
        timers = list(wire.loop.timers)
        wire.receive(RemotingCommand.response(sent, ResponseCode.SUCCESS))
        assert wire.loop.timers == timers


def test_oneway_requests_say_so() -> None:
    wire = Wire()
    wire.connection.invoke_oneway(request())
    wire.loop.turn()
    assert [command.is_oneway for command in wire.transport.commands()] == [True]


def unencodable(code: int = 105) -> RemotingCommand:
    return RemotingCommand.request(code, {"topic": "x" * (1 << 24)})


def test_a_request_that_cannot_be_encoded_fails_alone() -> None:
    wire = Wire()
    future, other = wire.connection.invoke_nowait(unencodable(), 3.0), wire.invoke()
    assert isinstance(future.exception(), ValueError)
    assert (other.done(), wire.connection.closed) == (False, False)


def test_a_response_that_cannot_be_encoded_is_code_1() -> None:
    def handler(connection: Connection, command: RemotingCommand) -> RemotingCommand:
        return RemotingCommand.response(command, 0, ext_fields=unencodable().ext_fields)

    wire = Wire(handler)
    wire.receive(request())
    assert [answer.code for answer in wire.transport.commands()] == [ResponseCode.SYSTEM_ERROR]


# Ending


@pytest.mark.parametrize(
    "end",
    [
        lambda wire: wire.connection.close(),
        lambda wire: wire.connection.abort(),
        lambda wire: wire.connection.connection_lost(ConnectionResetError("reset")),
        lambda wire: wire.connection.data_received(b"\x16\x03\x01\x02\x00"),  # a TLS hello
    ],
)
def test_the_end_answers_outstanding_requests_at_once(end: Callable[[Wire], None]) -> None:
    wire = Wire()
    future = wire.invoke()
    end(wire)
    with pytest.raises(RemotingClosed):
        future.result()
    wire.loop.turn()
    assert (wire.connection.closed, wire.loop.timers) == (True, [])


def test_close_delivers_what_was_sent() -> None:
    wire = Wire()
    wire.connection.invoke_oneway(request())
    wire.connection.close()
    wire.loop.turn()
    assert (len(wire.transport.commands()), wire.transport.closing) == (1, "closed")


def test_nothing_happens_after_the_end() -> None:
    wire = Wire()
    wire.connection.close()
    wire.connection.send(request())
    wire.connection.close()
    wire.connection.abort()
    with pytest.raises(RemotingError):
        wire.invoke().result()
    wire.loop.turn()
    assert (wire.transport.writes, wire.closes) == ([], 1)


def test_requests_behind_the_end_are_not_served() -> None:
    served: list[int] = []

    def close_at_8(connection: Connection, command: RemotingCommand) -> None:
        served.append(command.opaque)
        if command.opaque == 8:
            connection.close()

    Wire(close_at_8).receive(request(opaque=7), request(opaque=8), request(opaque=9))
    assert served == [7, 8]


def test_a_closing_peer_that_does_not_read_is_cut_off() -> None:
    wire = Wire()
    wire.transport.reads = False
    wire.connection.close()
    wire.loop.advance(4.9)
    assert wire.transport.closing == "closed"
    wire.loop.advance(0.2)
    assert (wire.transport.closing, wire.closes) == ("aborted", 1)


def test_a_silent_connection_is_closed_and_a_used_one_is_not() -> None:
    wire = Wire(echo)
    for _ in range(5):
        wire.loop.advance(IDLE_TIMEOUT_S - 1)
        wire.receive(request())
    assert not wire.connection.closed
    wire.loop.advance(IDLE_TIMEOUT_S + 0.1)
    assert (wire.connection.closed, wire.log.names("info")) == (True, ["connection was idle"])


def test_writing_counts_as_use() -> None:
    wire = Wire()
    for _ in range(3):
        wire.loop.advance(IDLE_TIMEOUT_S - 1)
        wire.connection.invoke_oneway(request())
        wire.loop.turn()
    assert not wire.connection.closed


def test_our_own_pause_is_not_the_silence_of_the_peer() -> None:
    wire = Wire()
    wire.loop.freeze(IDLE_TIMEOUT_S + 60)
    assert not wire.connection.closed
    wire.loop.advance(IDLE_TIMEOUT_S + 0.1)
    assert wire.connection.closed


# Peers that mean no good


def test_a_peer_that_does_not_read_is_cut_off_at_the_high_water_mark() -> None:
    big = b"x" * (1 << 20)

    def answer_big(connection: Connection, command: RemotingCommand) -> RemotingCommand:
        return RemotingCommand.response(command, ResponseCode.SUCCESS, body=big)

    wire = Wire(answer_big)
    wire.transport.reads = False
    wire.receive(*(request() for _ in range(200)))
    assert (wire.transport.closing, wire.log.names("warning")) == (
        "aborted",
        ["peer does not read"],
    )
    assert sum(map(len, wire.transport.writes)) < OUTPUT_SIZE_MAX + 3 * len(big)


def test_what_a_peer_leaves_unread_is_held_memory_until_it_reads() -> None:
    memory = HeldMemory(8 << 20)

    def answer_big(connection: Connection, command: RemotingCommand) -> RemotingCommand:
        return RemotingCommand.response(command, ResponseCode.SUCCESS, body=b"x" * (1 << 20))

    slow, stuck = Wire(answer_big, memory), Wire(answer_big, memory)
    slow.transport.reads = stuck.transport.reads = False
    slow.receive(*(request() for _ in range(3)))
    stuck.receive(*(request() for _ in range(3)))
    slow.transport.read_all()
    assert 3 << 20 < memory.size < 4 << 20
    stuck.receive(*(request() for _ in range(6)))
    assert (slow.connection.closed, stuck.connection.closed) == (False, True)
    assert stuck.log.names("warning") == ["peer holds too much memory"]
    assert memory.size == 0


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="http"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00", id="tls hello"),
        pytest.param(b"\xff\xff\xff\xff", id="negative length"),
        pytest.param(b"\x00\x00\x00\x00", id="length zero"),
        pytest.param(b"\x7f\xff\xff\xff", id="2 GiB"),
        pytest.param(b"\x01\x00\x00\x01", id="above 16 MiB"),
        pytest.param(b"\x00\x00\x00\x08\x00\xff\xff\xff{}  ", id="header longer than the frame"),
        pytest.param(b"\x00\x00\x00\x06\x07\x00\x00\x02{}", id="unknown serialize type"),
        pytest.param(b"\x00\x00\x00\x06\x00\x00\x00\x02{]", id="no JSON"),
        pytest.param(b"\x00\x00\x00\x06\x01\x00\x00\x02{}", id="short binary header"),
    ],
)
def test_hostile_bytes_end_the_connection_with_one_line(data: bytes) -> None:
    wire = Wire(echo)
    wire.receive(request(opaque=7))
    wire.connection.data_received(data)
    wire.loop.turn()
    assert (wire.connection.closed, wire.transport.closing, wire.closes) == (True, "aborted", 1)
    assert wire.log.names("warning", "error") == ["peer broke the protocol"]


@pytest.mark.slow
@settings(max_examples=200)
@given(st.lists(st.binary(max_size=200), max_size=10))
def test_random_bytes_never_escape(chunks: list[bytes]) -> None:
    wire = Wire(echo)
    for chunk in chunks:
        if not wire.connection.closed:
            wire.connection.data_received(chunk)
            wire.loop.turn()
    assert len(wire.log.names("warning", "error")) == int(wire.connection.closed)


@settings(max_examples=200)
@given(st.binary(max_size=64), st.integers(0, 1), st.binary(max_size=16), st.integers(0, 300))
def test_damaged_frames_are_answered_or_refused(
    header: bytes, serialize_type: int, body: bytes, cut: int
) -> None:
    frame = bytes([serialize_type]) + len(header).to_bytes(3, "big") + header + body
    wire = Wire(echo)
    wire.connection.data_received((len(frame).to_bytes(4, "big") + frame)[: cut or None])
    wire.loop.turn()
    assert len(wire.log.names("warning", "error")) == int(wire.connection.closed)
