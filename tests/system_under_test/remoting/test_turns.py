"""Requests that take long share the loop with others: what is left of a chunk waits for the next turn, in its order."""

from __future__ import annotations

from collections.abc import Callable

from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting import Connection, TurnOutput
from staticfire.system_under_test.remoting.held_memory import HeldMemory
from staticfire.system_under_test.remoting.turn_share import TURN_S
from tests.system_under_test.remoting.manual_loop import ManualLoop, MemoryLog, MemoryTransport

OTHER = "something else"


class Slow:
    """A connection whose requests take `seconds` each; `served` has their opaques."""

    def __init__(self, seconds: float, node: Slow | None = None) -> None:
        """`node`: another connection of the same node."""
        self.loop: ManualLoop = ManualLoop() if node is None else node.loop
        self.served: list[int | str] = [] if node is None else node.served
        self.output: TurnOutput = TurnOutput() if node is None else node.output
        self.on_request: Callable[[], None] = lambda: None
        self._seconds = seconds
        self.memory = HeldMemory()
        self.connection = Connection(
            key=1,
            loop=self.loop.loop,
            log=MemoryLog(),
            handler=self._serve,
            memory=self.memory,
            turn_output=self.output,
        )
        self.transport = MemoryTransport(self.loop, self.connection)
        self.connection.connection_made(self.transport)

    def _serve(self, _: Connection, request: RemotingCommand) -> None:
        self.loop.now_s += self._seconds
        self.served.append(request.opaque)
        self.on_request()

    def receive(self, *opaques: int) -> None:
        self.connection.data_received(b"".join(map(_encoded, opaques)))


def _encoded(opaque: int, body: bytes = b"") -> bytes:
    command = RemotingCommand.request(10, {}, body)
    command.opaque = opaque
    return bytes(command.encode())


def test_slow_requests_wait_for_the_next_turn_and_others_come_between() -> None:
    slow = Slow(0.6 * TURN_S)
    slow.loop.call_soon(slow.served.append, OTHER)
    slow.receive(1, 2, 3)
    assert slow.served == [1, 2]
    assert slow.transport.is_paused
    slow.loop.turn()
    assert slow.served == [1, 2, OTHER, 3]
    assert not slow.transport.is_paused


def test_what_arrives_meanwhile_is_served_after_them() -> None:
    slow = Slow(2 * TURN_S)
    slow.receive(1, 2, 3)
    slow.receive(4)  # a TLS session may have more that is decrypted
    assert slow.served == [1]
    slow.loop.turn()
    assert slow.served == [1, 2, 3, 4]


def test_fast_requests_are_served_at_once() -> None:
    slow = Slow(0.0)
    slow.receive(*range(1000))
    assert slow.served == list(range(1000))
    assert not slow.transport.is_paused


def test_a_connection_that_ends_serves_no_more() -> None:
    slow = Slow(2 * TURN_S)
    slow.receive(1, 2)
    slow.connection.abort()
    slow.loop.turn()
    assert slow.served == [1]


def test_a_connection_that_ends_in_a_later_turn_serves_no_more() -> None:
    slow = Slow(2 * TURN_S)
    slow.receive(1, 2, 3)
    slow.on_request = slow.connection.abort
    slow.loop.turn()
    assert slow.served == [1, 2]


def test_bytes_that_are_no_frame_end_the_connection_in_their_turn() -> None:
    slow = Slow(2 * TURN_S)
    slow.connection.data_received(_encoded(1) + b"\x00\x00\x00\x04\x09\x00\x00\x00" + _encoded(2))
    assert slow.served == [1]
    slow.loop.turn()
    assert slow.connection.closed
    assert slow.served == [1]


def test_what_is_sent_after_a_later_turn_goes_out_by_itself() -> None:
    slow = Slow(2 * TURN_S)
    slow.receive(1, 2)
    slow.loop.turn()
    slow.connection.send(RemotingCommand.request(40, {}))
    slow.loop.turn()
    assert [command.code for command in slow.transport.commands()] == [40]


def test_connections_of_one_node_share_a_turn() -> None:
    first = Slow(1.1 * TURN_S)
    second, third = Slow(1.1 * TURN_S, first), Slow(0.0, first)
    first.receive(1, 2)
    second.receive(3, 4)
    third.receive(5)
    assert first.served == [1]
    assert second.transport.is_paused
    assert third.transport.is_paused
    first.loop.turn()
    assert first.served == [1, 2, 3, 5, 4]  # in order of arrival, a slice of each
    assert not any(one.transport.is_paused for one in (first, second, third))


def test_what_waits_counts_as_held_memory() -> None:
    first = Slow(2 * TURN_S)
    second = Slow(0.0, first)
    first.receive(1)
    second.connection.data_received(_encoded(2, bytes(1 << 20)))
    assert second.memory.size > 1 << 20
    first.loop.turn()
    assert first.served == [1, 2]
    assert second.memory.size == 0
