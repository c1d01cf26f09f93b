"""Numbers that follow from names, so that spans of one message find each other without being held in memory."""

from __future__ import annotations

from hashlib import blake2b


def number_of(*names: str, size_bytes: int = 8) -> int:
    """A number of so many bytes that is never 0."""
    text = "\0".join(f"{len(name)}:{name}" for name in names)
    digest = blake2b(text.encode(errors="surrogatepass"), digest_size=size_bytes).digest()
    return int.from_bytes(digest, "big") or 1


def flow_of(key: str, group: str) -> int:
    """The arrow of a message to a consumer group."""
    return number_of("flow", key, group)
