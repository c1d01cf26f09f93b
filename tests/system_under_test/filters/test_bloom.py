"""The bloom filter: positions as RocketMQ's, and what a map may and may not say."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.filters.bloom import BloomFilter, murmur3_low_long


def test_positions_are_those_of_rocketmq() -> None:
    bloom = BloomFilter(20, 32)
    assert bloom.bit_count == 112
    assert bloom.bits_of("g1#t1").positions == (19, 102, 73)
    assert bloom.bits_of("CID_order#TopicTest").positions == (94, 56, 18)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("hello", 0xCBD8A7B341BD9B02), ("hello, world", 0x342FAC623A5EBC8E)],
)
def test_hash_of_known_texts(text: str, expected: int) -> None:
    assert murmur3_low_long(text.encode()) == expected


def test_long_text_goes_through_whole_blocks() -> None:
    text = b"The quick brown fox jumps over the lazy dog."
    assert murmur3_low_long(text) == 0xCD99481F9EE902C9


def test_bits_are_counted_from_the_lowest_of_the_first_byte() -> None:
    bits = BloomFilter(20, 32).bits_of("g1#t1")
    bit_map = bytearray(14)
    for at in (19, 102, 73):
        assert not bits.are_in(bytes(bit_map))
        bit_map[at // 8] |= 1 << at % 8
    assert bits.are_in(bytes(bit_map))


@pytest.mark.parametrize(("error", "names"), [(0, 32), (100, 32), (20, 0)])
def test_filters_that_cannot_be(error: int, names: int) -> None:
    with pytest.raises(ValueError, match="cannot be"):
        BloomFilter(error, names)
