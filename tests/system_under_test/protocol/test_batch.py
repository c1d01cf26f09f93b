"""Bodies of batch sends: the documented bytes, and what is refused."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticfire.system_under_test.protocol.batch import BatchEntry, decode_batch, encode_batch
from staticfire.system_under_test.protocol.message import RecordError

# Made by RocketMQ 4.9.8.
GOLDEN = bytes.fromhex(
    "00000024 00000000 00000000 00000003 00000005 68656c6c6f 0009 544147530154616741"
    "00000024 00000000 00000000 00000000 00000001 77         000d 6b017602574149540174727565"
)
ENTRIES = [
    BatchEntry(b"hello", {"TAGS": "TagA"}, 3, "TAGS\x01TagA"),
    BatchEntry(b"w", {"k": "v", "WAIT": "true"}, 0, "k\x01v\x02WAIT\x01true"),
]

texts = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF), min_size=1, max_size=8)
entries = st.builds(
    BatchEntry,
    st.binary(max_size=40),
    st.dictionaries(texts, texts, max_size=3),
    st.integers(-5, 5),
    st.just(""),
)


def test_the_bytes_are_those_of_rocketmq() -> None:
    assert encode_batch(ENTRIES) == GOLDEN
    assert list(decode_batch(GOLDEN)) == ENTRIES


@pytest.mark.slow
@given(st.lists(entries, max_size=4))
def test_what_is_encoded_is_decoded(batch: list[BatchEntry]) -> None:
    decoded = list(decode_batch(encode_batch(batch)))
    assert [entry._replace(property_text="") for entry in decoded] == batch


def test_properties_that_end_before_their_message_are_refused() -> None:
    data = bytearray(GOLDEN)
    data[26] -= 1  # the length of the first message's properties
    with pytest.raises(RecordError, match="message at 0 of a batch ends at 35, not 36"):
        list(decode_batch(bytes(data)))


@given(st.integers(0, len(GOLDEN) - 1), st.integers(0, 255))
def test_damage_is_a_record_error_or_another_batch(position: int, value: int) -> None:
    data = bytearray(GOLDEN)
    data[position] = value
    with contextlib.suppress(RecordError):
        list(decode_batch(bytes(data)))


@pytest.mark.parametrize("end", [1, 21, 35, 37, 50])
def test_a_cut_off_batch_is_refused(end: int) -> None:
    with pytest.raises(RecordError, match="batch"):
        list(decode_batch(GOLDEN[:end]))
