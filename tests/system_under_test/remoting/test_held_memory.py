"""The memory that connections hold for their peers has one bound; the frame held longest is refused."""

from __future__ import annotations

from staticfire.system_under_test.remoting.held_memory import UNCOUNTED_SIZE, HeldMemory

MIB = 1 << 20


class Peer:
    """A connection that remembers how it was ended."""

    def __init__(self) -> None:
        self.refused: list[int] = []

    def refuse_memory(self, held_size: int) -> None:
        self.refused.append(held_size)


def test_what_fits_is_left_alone() -> None:
    memory, peer = HeldMemory(4 * MIB), Peer()
    for size in (MIB, 2 * MIB, 4 * MIB):
        memory.hold(peer, size)
    assert (peer.refused, memory.size) == ([], 4 * MIB)


def test_the_frame_that_has_waited_for_longest_is_refused() -> None:
    memory = HeldMemory(4 * MIB)
    first, second, third = Peer(), Peer(), Peer()
    memory.hold(first, MIB)
    memory.hold(second, 2 * MIB)
    memory.hold(first, MIB + 1)  # a dribble does not make it younger
    memory.hold(third, 2 * MIB)
    assert (first.refused, second.refused, third.refused) == ([MIB + 1], [], [])
    assert memory.size == 4 * MIB


def test_a_finished_frame_makes_its_connection_young_again() -> None:
    memory = HeldMemory(4 * MIB)
    busy, lingering = Peer(), Peer()
    memory.hold(busy, 2 * MIB)
    memory.hold(lingering, 2 * MIB)
    memory.hold(busy, 3 * MIB, is_new=True)
    assert (busy.refused, lingering.refused) == ([], [2 * MIB])


def test_who_has_ended_holds_nothing() -> None:
    memory, peer = HeldMemory(4 * MIB), Peer()
    memory.hold(peer, 3 * MIB)
    memory.release(peer)
    memory.release(peer)
    memory.hold(Peer(), 4 * MIB)
    assert (peer.refused, memory.size) == ([], 4 * MIB)


def test_small_remainders_are_not_counted() -> None:
    memory, peer = HeldMemory(UNCOUNTED_SIZE), Peer()
    for _ in range(3):
        memory.hold(Peer(), UNCOUNTED_SIZE)
    memory.hold(peer, 100, is_new=True)
    assert (peer.refused, memory.size) == ([], 0)
