"""Derives numbers from names, so that spans of one message get matching ids without being kept in memory."""

from __future__ import annotations

from hashlib import blake2b


def number_of(*names: str, size_bytes: int = 8) -> int:
    """Return a number of `size` bytes that is never 0."""
    text = "\0".join(f"{len(name)}:{name}" for name in names)
    digest = blake2b(text.encode(errors="surrogatepass"), digest_size=size_bytes).digest()
    return int.from_bytes(digest, "big") or 1


def flow_of(key: str, group: str) -> int:
    """Return the id of the arrow from a message to a consumer group."""
    return number_of("flow", key, group)
