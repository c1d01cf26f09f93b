"""Hashes of keys: whatever is remembered on the way, each is that of the whole key."""

from __future__ import annotations

from system_under_test.store.index_keys import KeyHasher, index_hash


def test_short_unique_keys_after_longer_ones() -> None:
    hasher = KeyHasher()
    for key in ("U100", "U99", "U", "éU100", "UU100", "UU101"):
        assert hasher.hashes("T", key, None) == (index_hash("T", key),)
