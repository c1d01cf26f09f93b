"""Any frames in any chunks come out whole; no length makes the decoder keep more than one frame."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticfire.system_under_test.protocol.frames import FrameDecoder, RemoteProtocolError

# A frame holds at least the word with serialize type and header length.
FRAMES = st.lists(st.binary(min_size=4, max_size=60), max_size=8)


def on_wire(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


@pytest.mark.slow
@given(frames=FRAMES, cuts=st.lists(st.integers(0, 600), max_size=20))
def test_frames_survive_any_cutting(frames: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(map(on_wire, frames))
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    decoder = FrameDecoder()
    chunks = [stream[start:end] for start, end in pairwise(edges)]
    assert [frame for chunk in chunks for frame in decoder.feed(chunk)] == frames


def test_a_frame_comes_out_with_its_last_byte() -> None:
    decoder = FrameDecoder()
    stream = on_wire(b"frame")
    for index in range(len(stream) - 1):
        assert decoder.feed(stream[index : index + 1]) == []
    assert decoder.feed(stream[-1:]) == [b"frame"]


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 3, 16_777_213, 2**31 - 1])
def test_an_impossible_length_is_refused_before_anything_is_kept(length: int) -> None:
    with pytest.raises(RemoteProtocolError, match=str(length)):
        FrameDecoder().feed(struct.pack(">i", length))


def test_the_largest_frame_of_the_protocol_is_taken() -> None:
    assert FrameDecoder().feed(struct.pack(">i", 16_777_212)) == []


@pytest.mark.parametrize(("size", "fits"), [(16, True), (17, False)])
def test_the_limit_counts_the_length_field(size: int, fits: bool) -> None:
    decoder = FrameDecoder(frame_size_max=20)
    if fits:
        assert decoder.feed(on_wire(bytes(size))) == [bytes(size)]
    else:
        with pytest.raises(RemoteProtocolError):
            decoder.feed(on_wire(bytes(size)))


def test_a_tls_hello_is_no_frame() -> None:
    with pytest.raises(RemoteProtocolError):
        FrameDecoder().feed(bytes.fromhex("1603010200010001fc0303"))
