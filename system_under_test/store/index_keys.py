"""Selects and hashes the keys of a message to index (RocketMQ, IndexService.buildIndex, indexKeyHashMethod).

Java's string hash takes microseconds in Python, for every send. Unique keys that one producer makes within a minute
differ only in their last characters, so the hasher caches the hash of their common prefix.
"""

from __future__ import annotations

import struct
from operator import mul

from staticfire.system_under_test.store.record_scan import ScannedRecord, property_value

UNIQUE_KEY = "UNIQ_KEY"
USER_KEYS = "KEYS"  # separated by single blanks

_WEIGHTED_MAX = 256  # longer texts are hashed in chunks of this many characters
_UNIQUE_KEY = b"\x02UNIQ_KEY\x01"
_USER_KEYS = b"\x02KEYS\x01"
_POWERS = tuple(pow(31, n, 1 << 32) for n in range(_WEIGHTED_MAX, -1, -1))
_WEIGHTS = tuple(_POWERS[_WEIGHTED_MAX + 1 - n :] for n in range(_WEIGHTED_MAX + 1))
_TAIL_SIZE = 8  # of a unique key: half of its time and its counter
_TAIL_POWERS = tuple(31**n for n in range(_TAIL_SIZE + 1))
_HEADS_MAX = 1_000

Heads = dict[str, int]  # prefix of a key, without its tail -> hash of topic and prefix


def index_hash(topic: str, key: str) -> int:
    """The hash of a key in the index: never negative."""
    return _absolute(_java_hash(f"{topic}#{key}"))


class KeyHasher:
    """Hashes the keys of messages, with a bounded cache. `is_on`: messageIndexEnable; if False, no key is indexed."""

    __slots__ = ("_count", "_heads", "is_on")

    def __init__(self, *, is_on: bool = True) -> None:
        self.is_on = is_on
        self._heads: dict[str, Heads] = {}  # by topic
        self._count = 0  # of all heads

    def hashes(self, topic: str, unique_key: str | None, keys: str | None) -> tuple[int, ...]:
        """The hash of the unique key, then one for each word of `keys`."""
        if not self.is_on:
            return ()
        heads = self._heads.get(topic)
        if heads is None:
            self._count_head()
            heads = self._heads[topic] = {}
        if unique_key and not keys:  # what most messages have
            return (self._hash(heads, topic, unique_key),)
        if unique_key and keys and " " not in keys:
            return self._hash(heads, topic, unique_key), self._hash(heads, topic, keys)
        words = [unique_key] if unique_key else []
        if keys:
            words += keys.split(" ")
        return tuple([self._hash(heads, topic, word) for word in words if word])

    def _hash(self, heads: Heads, topic: str, key: str) -> int:
        """Like `index_hash`; caches the hash of everything before the tail."""
        if not key.isascii():
            return index_hash(topic, key)
        head = heads.get(key[:-_TAIL_SIZE])
        if head is None:
            head = self._new_head(heads, topic, key[:-_TAIL_SIZE])
        tail = key[-_TAIL_SIZE:].encode()
        size = len(tail)
        value = (head * _TAIL_POWERS[size] + sum(map(mul, tail, _WEIGHTS[size]))) & 0xFFFF_FFFF
        return value if value < 0x8000_0000 else _absolute(value)

    def _new_head(self, heads: Heads, topic: str, head: str) -> int:
        """Compute and cache the hash of everything before the tail; for a short key that is the topic alone."""
        self._count_head()
        value = heads[head] = _java_hash(f"{topic}#{head}")
        return value

    def _count_head(self) -> None:
        """Count one more cached prefix or topic; clear the cache if there are too many."""
        self._count += 1
        if self._count > _HEADS_MAX:
            self._heads = {}
            self._count = 1


def record_hashes(hasher: KeyHasher, record: ScannedRecord) -> tuple[int, ...]:
    """The hashes of the keys under which a record is indexed."""
    unique_key = property_value(record.indexed, _UNIQUE_KEY)
    keys = property_value(record.indexed, _USER_KEYS)
    if not unique_key and not keys:
        return ()
    return hasher.hashes(
        record.topic.decode("utf-8", "replace"),
        unique_key.decode("utf-8", "replace"),
        keys.decode("utf-8", "replace"),
    )


def _java_hash(text: str) -> int:
    """Java's String.hashCode, as an unsigned number."""
    units: bytes | tuple[int, ...]
    try:
        units = text.encode("latin-1")
    except UnicodeEncodeError:
        data = text.encode("utf-16-be", "surrogatepass")
        units = struct.unpack(f">{len(data) // 2}H", data)
    value = 0
    for start in range(0, len(units), _WEIGHTED_MAX):
        part = units[start : start + _WEIGHTED_MAX]
        value = value * pow(31, len(part), 1 << 32) + sum(map(mul, part, _WEIGHTS[len(part)]))
    return value & 0xFFFF_FFFF


def _absolute(unsigned: int) -> int:
    """Java's Math.abs of the signed value; 0 for the smallest value, which has no positive counterpart."""
    if unsigned < 0x8000_0000:
        return unsigned
    return 0x1_0000_0000 - unsigned if unsigned > 0x8000_0000 else 0
