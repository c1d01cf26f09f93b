"""Hashes of keys are Java's, whatever is remembered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticfire.system_under_test.protocol.message import java_string_hash
from staticfire.system_under_test.store.index_keys import KeyHasher, index_hash


def java_index_hash(topic: str, key: str) -> int:
    value = abs(java_string_hash(f"{topic}#{key}"))
    return value if value < 1 << 31 else 0


# Half of them are longer than what is hashed as one piece; texts drawn character by character hardly ever are.
TEXTS = st.builds(lambda piece, times: piece * times, st.text(max_size=20), st.integers(1, 60))


@given(TEXTS, TEXTS)
def test_the_hash_is_java_s(topic: str, key: str) -> None:
    assert index_hash(topic, key) == java_index_hash(topic, key)


@given(st.lists(st.text(alphabet="aß€😀0", min_size=1, max_size=7), max_size=20))
def test_what_is_remembered_does_not_matter(keys: list[str]) -> None:
    hasher = KeyHasher()
    for key in keys * 2:
        assert hasher.hashes("T", key, None) == (java_index_hash("T", key),)


def test_the_unique_key_is_first_and_words_are_separated_by_single_blanks() -> None:
    hashes = KeyHasher().hashes("T", "unique", " a  b ")
    assert hashes == tuple(index_hash("T", key) for key in ("unique", "a", "b"))
    assert KeyHasher().hashes("T", None, "") == ()


def test_nothing_is_indexed_when_it_is_off() -> None:
    assert KeyHasher(is_on=False).hashes("T", "unique", "a") == ()


def test_short_unique_keys_after_longer_ones() -> None:
    hasher = KeyHasher()
    for key in ("U100", "U99", "U", "éU100", "UU100", "UU101"):
        assert hasher.hashes("T", key, None) == (index_hash("T", key),)


@pytest.mark.slow
@given(st.text(max_size=12), st.lists(st.text(max_size=12).filter(lambda key: " " not in key)))
def test_remembered_heads_change_no_hash(topic: str, keys: list[str]) -> None:
    hasher = KeyHasher()
    for _ in range(2):
        expected = tuple(index_hash(topic, key) for key in keys if key)
        assert hasher.hashes(topic, None, " ".join(keys)) == expected
