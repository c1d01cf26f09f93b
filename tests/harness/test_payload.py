"""Bodies with a checksum of their own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticfire.harness.clients.payload import BLOCK_BYTES, is_intact, key_of, make_body

KEYS = st.integers(0, 999).map("p1-{}".format)


@pytest.mark.slow
@given(KEYS, st.integers(16, 500))
def test_a_body_has_its_size_and_tells_its_key(key: str, size: int) -> None:
    body = make_body(key, size)
    assert (len(body), key_of(body), is_intact(body)) == (size, key, True)


@pytest.mark.parametrize("size", [0, 6, 7, 8, BLOCK_BYTES, BLOCK_BYTES + 6, 3 * BLOCK_BYTES + 1])
def test_a_body_repeats_its_key_up_to_its_size(size: int) -> None:
    assert make_body("p1-100", size) == (b"p1-100 " * (size // 7 + 1))[: max(size, 7)]


@given(KEYS, st.integers(16, 500), st.integers(0), st.integers(1, 255))
def test_any_changed_byte_is_seen(key: str, size: int, place: int, change: int) -> None:
    body = bytearray(make_body(key, size))
    body[place % size] ^= change
    assert not (is_intact(bytes(body)) and key_of(bytes(body)) == key)


@pytest.mark.slow
@given(KEYS, st.integers(32, 500), st.integers(1, 10))
def test_a_body_cut_short_is_another_body(key: str, size: int, cut: int) -> None:
    assert make_body(key, size)[:-cut] == make_body(key, size - cut)
