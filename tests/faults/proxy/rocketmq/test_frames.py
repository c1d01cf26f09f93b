"""Streams are cut into frames; what is none goes through untouched."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from staticfire.faults.proxy.rocketmq.frames import FrameSplitter, Piece, StreamKind
from staticfire.system_under_test.protocol.command import RemotingCommand

FRAME = RemotingCommand.request(105, {"topic": "T"}, b"body").encode()


@given(st.lists(st.integers(1, 40), max_size=12), st.integers(1, 4))
def test_frames_are_the_same_however_they_come(cuts: list[int], count: int) -> None:
    stream = FRAME * count
    splitter = FrameSplitter()
    pieces: list[Piece] = []
    for size in [*cuts, len(stream)]:
        chunk, stream = stream[:size], stream[size:]
        pieces += splitter.feed(chunk) if chunk else []
    assert pieces == [Piece(FRAME, is_frame=True)] * count
    assert splitter.held_size == 0
    assert splitter.end() == []


def test_half_a_frame_at_the_end_is_not_forgotten() -> None:
    splitter = FrameSplitter()
    assert splitter.feed(FRAME[:-1]) == []
    assert splitter.held_size == len(FRAME) - 1
    assert splitter.end() == [Piece(FRAME[:-1], is_frame=False)]


def test_nonsense_passes_from_there_on() -> None:
    splitter = FrameSplitter()
    nonsense = b"\x00\x00\x00\x01abc"
    assert splitter.feed(FRAME + nonsense) == [
        Piece(FRAME, is_frame=True),
        Piece(nonsense, is_frame=False),
    ]
    assert splitter.kind is StreamKind.RAW
    assert splitter.feed(FRAME) == [Piece(FRAME, is_frame=False)]


def test_tls_is_known_by_its_first_byte() -> None:
    splitter = FrameSplitter()
    assert splitter.feed(b"\x16\x03\x01") == [Piece(b"\x16\x03\x01", is_frame=False)]
    assert splitter.kind is StreamKind.TLS


def test_replication_has_no_frames() -> None:
    splitter = FrameSplitter(is_raw=True)
    assert splitter.feed(FRAME[:5]) == [Piece(FRAME[:5], is_frame=False)]
