"""The bloom filter of groups that filter by properties (RocketMQ, BloomFilter and BitsArray).

A group has a few bits; a message has those of all groups whose expression matches it. If one bit of a group is missing,
the group does not want the message; if all are set, it may.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from decimal import Decimal

_MASK = (1 << 64) - 1
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
_LANES = struct.Struct("<QQ")
_LN_2 = Decimal(2).ln()


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomBits:
    """Positions of one group's bits in one topic, in a map of `bit_count` bits."""

    bit_count: int
    positions: tuple[int, ...]

    def are_in(self, bit_map: bytes) -> bool:
        """Whether all of them are set in `bit_map`, which has `bit_count` bits."""
        return all(bit_map[at >> 3] >> (at & 7) & 1 for at in self.positions)


class BloomFilter:
    """Maps names to bits, sized for a rate of false positives and a number of names.

    Args:
        error_percent: rate of false positives, in percent: unwanted messages in which all bits of the group are set.
        names: expected number of groups.
    """

    __slots__ = ("_hashes", "bit_count")

    def __init__(self, error_percent: int, names: int) -> None:
        if not 0 < error_percent < 100 or names < 1:
            raise ValueError(
                f"a bloom filter of {error_percent} % errors for {names} groups cannot be;"
                " 1 to 99 % and at least one group are needed"
            )
        # Decimals, because the logarithms of C libraries differ in the last bit.
        doublings = (Decimal(100) / error_percent).ln() / _LN_2
        self._hashes = math.ceil(doublings)
        bits = math.ceil(names * doublings / _LN_2)
        self.bit_count = (bits + 7) // 8 * 8  # whole bytes

    def bits_of(self, name: str) -> BloomBits:
        """RocketMQ, BloomFilter.calcBitPositions."""
        value = murmur3_low_long(name.encode())
        first, second = _int32(value), _int32(value >> 32)
        positions = []
        for number in range(1, self._hashes + 1):
            combined = _int32(first + number * second)
            positions.append((~combined if combined < 0 else combined) % self.bit_count)
        return BloomBits(bit_count=self.bit_count, positions=tuple(positions))


def _int32(value: int) -> int:
    return ((value + 0x8000_0000) & 0xFFFF_FFFF) - 0x8000_0000


def murmur3_low_long(data: bytes) -> int:
    """The low 64 bits of the 128-bit Murmur3 hash (x64, seed 0)."""
    h1 = h2 = 0
    whole = len(data) // 16 * 16
    for at in range(0, whole, 16):
        k1, k2 = _LANES.unpack_from(data, at)
        h1 ^= _scramble_1(k1)
        h1 = (_rotate(h1, 27) + h2) * 5 + 0x52DCE729 & _MASK
        h2 ^= _scramble_2(k2)
        h2 = (_rotate(h2, 31) + h1) * 5 + 0x38495AB5 & _MASK
    tail = data[whole:]
    if tail:
        h2 ^= _scramble_2(int.from_bytes(tail[8:], "little"))
        h1 ^= _scramble_1(int.from_bytes(tail[:8], "little"))
    h1 ^= len(data)
    h2 ^= len(data)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    h1, h2 = _final_mix(h1), _final_mix(h2)
    return h1 + h2 & _MASK


def _scramble_1(lane: int) -> int:
    return _rotate(lane * _C1 & _MASK, 31) * _C2 & _MASK


def _scramble_2(lane: int) -> int:
    return _rotate(lane * _C2 & _MASK, 33) * _C1 & _MASK


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def _final_mix(value: int) -> int:
    value ^= value >> 33
    value = value * 0xFF51AFD7ED558CCD & _MASK
    value ^= value >> 33
    value = value * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ value >> 33
