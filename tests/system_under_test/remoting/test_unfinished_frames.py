"""Unfinished frames of all connections together: bounded, and the one that lingers pays."""

from __future__ import annotations

from system_under_test.remoting.unfinished_frames import UNCOUNTED_SIZE, UnfinishedFrames

MIB = 1 << 20


class Peer:
    """A connection that remembers how it was ended."""

    def __init__(self) -> None:
        self.refused: list[int] = []

    def refuse_unfinished(self, held_size: int) -> None:
        self.refused.append(held_size)


def test_what_fits_is_left_alone() -> None:
    frames, peer = UnfinishedFrames(4 * MIB), Peer()
    for size in (MIB, 2 * MIB, 4 * MIB):
        frames.hold(peer, size, is_new=False)
    assert (peer.refused, frames.size) == ([], 4 * MIB)


def test_the_frame_that_has_waited_for_longest_is_refused() -> None:
    frames = UnfinishedFrames(4 * MIB)
    first, second, third = Peer(), Peer(), Peer()
    frames.hold(first, MIB, is_new=False)
    frames.hold(second, 2 * MIB, is_new=False)
    frames.hold(first, MIB + 1, is_new=False)  # a dribble does not make it younger
    frames.hold(third, 2 * MIB, is_new=False)
    assert (first.refused, second.refused, third.refused) == ([MIB + 1], [], [])
    assert frames.size == 4 * MIB


def test_a_finished_frame_makes_its_connection_young_again() -> None:
    frames = UnfinishedFrames(4 * MIB)
    busy, lingering = Peer(), Peer()
    frames.hold(busy, 2 * MIB, is_new=False)
    frames.hold(lingering, 2 * MIB, is_new=False)
    frames.hold(busy, 3 * MIB, is_new=True)
    assert (busy.refused, lingering.refused) == ([], [2 * MIB])


def test_who_has_ended_holds_nothing() -> None:
    frames, peer = UnfinishedFrames(4 * MIB), Peer()
    frames.hold(peer, 3 * MIB, is_new=False)
    frames.release(peer)
    frames.release(peer)
    frames.hold(Peer(), 4 * MIB, is_new=False)
    assert (peer.refused, frames.size) == ([], 4 * MIB)


def test_small_remainders_are_not_counted() -> None:
    frames, peer = UnfinishedFrames(UNCOUNTED_SIZE), Peer()
    for _ in range(3):
        frames.hold(Peer(), UNCOUNTED_SIZE, is_new=False)
    frames.hold(peer, 100, is_new=True)
    assert (peer.refused, frames.size) == ([], 0)
