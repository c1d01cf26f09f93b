"""Records, properties, hashes and ids: the published vectors, a real broker's store, round trips, hostile bytes."""

from __future__ import annotations

import struct
import tarfile
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.system_under_test.protocol.message import (
    MAGIC_BLANK,
    MAGIC_MESSAGE,
    Message,
    RecordError,
    decode_properties,
    decode_record,
    decode_records,
    encode_properties,
    encode_record,
    java_string_hash,
    offset_message_id,
    parse_offset_message_id,
    patch_record,
    size_at,
    tags_code,
)
from tests.support.attributes import attributes

GOLDEN = Path(__file__).parents[2] / "data" / "golden-store"
BATCH_SIZE = 5  # messages of the one batch in the golden store

RECORD_VECTOR = bytes.fromhex(
    "0000007a daa320a7 77d18982 00000002 00000000 0000000000000005 0000000000000400 00000000"
    "00000174876e8000 c0a8010a0000c350 00000174876e8001 0a00000100002a9f 00000000 0000000000000000"
    "00000005 48656c6c6f 09 546f70696354657374 0011 4b455953016b3102544147530154616741"
)
BODY_LENGTH_AT, TOPIC_LENGTH_AT, PROPERTIES_LENGTH_AT = 84, 93, 103

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
PLAIN = st.characters(exclude_categories=["Cs"], exclude_characters="\x00\x01\x02")
WORD = st.text(PLAIN, min_size=1, max_size=20)
HOSTS = st.tuples(st.ip_addresses().map(str), st.integers(0, 65535))
MESSAGES = st.builds(
    Message,
    topic=st.text(PLAIN, min_size=1, max_size=31),
    body=st.binary(max_size=60),
    properties=st.dictionaries(WORD, WORD, max_size=5),
    flag=INT32,
    sys_flag=INT32.map(lambda flags: flags & ~0x30),  # the encoder sets the bits of the hosts
    queue_id=INT32,
    queue_offset=INT64,
    physical_offset=INT64,
    born_timestamp_ms=INT64,
    born_host=HOSTS,
    store_timestamp_ms=INT64,
    store_host=HOSTS,
    reconsume_times=INT32,
    prepared_transaction_offset=INT64,
)


def vector_message() -> Message:
    return Message(
        topic="TopicTest",
        body=b"Hello",
        properties={"KEYS": "k1", "TAGS": "TagA"},
        queue_id=2,
        queue_offset=5,
        physical_offset=1024,
        born_timestamp_ms=1_600_000_000_000,
        born_host=("192.168.1.10", 50000),
        store_timestamp_ms=1_600_000_000_001,
        store_host=("10.0.0.1", 10911),
    )


def changed(at: int, data: bytes) -> bytes:
    return RECORD_VECTOR[:at] + data + RECORD_VECTOR[at + len(data) :]


def content(message: Message) -> tuple[object, ...]:
    """Everything the writer of a message decides."""
    derived = ("body_crc", "size_bytes", "sys_flag")
    names = [name for name in attributes(Message) if name not in derived]
    return (*(getattr(message, name) for name in names), message.sys_flag & ~0x30)


# Records


def test_the_published_record_is_written_byte_for_byte() -> None:
    assert bytes(encode_record(vector_message())) == RECORD_VECTOR


def test_the_published_record_is_read() -> None:
    message = decode_record(RECORD_VECTOR, check_crc=True)
    assert content(message) == content(vector_message())
    assert (message.body_crc, message.size_bytes) == (2010220930, 122)


@pytest.mark.parametrize(
    ("body", "crc"),
    [
        (b"Hello", 2010220930),
        (b"123456789", 1274296614),
        (b"", 0),
        (b"\xff\xff\xff\xff", 2147483647),
    ],
)
def test_crc_vectors(body: bytes, crc: int) -> None:
    record = encode_record(Message(topic="T", body=body, properties={}))
    assert decode_record(record).body_crc == crc


@pytest.mark.slow
@given(MESSAGES)
def test_every_message_survives_its_record(message: Message) -> None:
    record = encode_record(message)
    again = decode_record(record, check_crc=True)
    assert content(again) == content(message)
    assert again.size_bytes == len(record)
    assert encode_record(again) == record


@pytest.mark.slow
@given(MESSAGES, st.binary(max_size=20), st.binary(max_size=20))
def test_a_record_is_found_anywhere_in_a_buffer(
    message: Message, before: bytes, after: bytes
) -> None:
    record = encode_record(message)
    buffer = memoryview(before + bytes(record) + after)
    assert decode_record(buffer, len(before)) == decode_record(record)
    assert size_at(buffer, len(before)) == len(record)


@pytest.mark.slow
@given(MESSAGES, INT64, INT64, INT64)
def test_patching_equals_encoding_with_the_final_values(
    message: Message, queue_offset: int, physical_offset: int, store_timestamp_ms: int
) -> None:
    record = encode_record(message)
    patch_record(
        record,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        store_timestamp_ms=store_timestamp_ms,
    )
    message.queue_offset, message.physical_offset = queue_offset, physical_offset
    message.store_timestamp_ms = store_timestamp_ms
    assert record == encode_record(message)


@settings(max_examples=30)
@given(st.lists(MESSAGES, max_size=3))
def test_records_in_a_row_are_read_in_order(messages: list[Message]) -> None:
    body = b"".join(bytes(encode_record(message)) for message in messages)
    assert list(map(content, decode_records(body))) == list(map(content, messages))


@pytest.mark.parametrize(
    "message",
    [
        Message(topic="", body=b"", properties={}),
        Message(topic="t" * 128, body=b"", properties={}),
        Message(topic="\u00e9" * 64, body=b"", properties={}),  # 128 bytes
        Message(topic="T", body=b"", properties={"k": "v" * 32766}),
    ],
    ids=["no topic", "long topic", "long topic in bytes", "long properties"],
)
def test_what_no_record_can_hold_is_refused(message: Message) -> None:
    with pytest.raises(RecordError):
        encode_record(message)


def test_the_largest_topic_and_properties_fit() -> None:
    message = Message(topic="t" * 127, body=b"", properties={"k": "v" * 32765})
    assert content(decode_record(encode_record(message))) == content(message)


# Hostile records


@pytest.mark.parametrize(
    "record",
    [
        b"",
        bytes(200),
        RECORD_VECTOR[:7],
        RECORD_VECTOR[:-1],
        changed(0, struct.pack(">i", -1)),
        changed(0, struct.pack(">i", 0)),
        changed(0, struct.pack(">i", 90)),
        changed(0, struct.pack(">i", 121)),
        changed(0, struct.pack(">i", 123)),
        changed(0, struct.pack(">i", 2**31 - 1)),
        changed(4, struct.pack(">i", MAGIC_BLANK)),
        changed(4, struct.pack(">i", 0)),
        changed(36, struct.pack(">i", 0x30)),  # claims hosts that are 24 bytes longer
        changed(BODY_LENGTH_AT, struct.pack(">i", -1)),
        changed(BODY_LENGTH_AT, struct.pack(">i", 4)),
        changed(BODY_LENGTH_AT, struct.pack(">i", 6)),
        changed(BODY_LENGTH_AT, struct.pack(">i", 2**31 - 1)),
        changed(TOPIC_LENGTH_AT, b"\xff"),
        changed(TOPIC_LENGTH_AT, b"\x08"),
        changed(TOPIC_LENGTH_AT + 1, b"\xff"),  # not UTF-8
        changed(PROPERTIES_LENGTH_AT, b"\xff\xff"),
        changed(PROPERTIES_LENGTH_AT, b"\x00\x10"),
        changed(PROPERTIES_LENGTH_AT + 2, b"\xff"),
    ],
)
def test_what_is_no_record_is_refused(record: bytes) -> None:
    with pytest.raises(RecordError):
        decode_record(record)
    with pytest.raises(RecordError):
        decode_records(record or b"\0")


def test_lengths_are_signed_as_in_java() -> None:
    """A topic of 128 bytes and properties of 32768 have negative lengths there."""
    record = encode_record(Message(topic="t" * 127, body=b"", properties={}))
    long_topic = record[:88] + b"\x80" + b"t" * 128 + bytes(2)
    long_properties = record[:-2] + b"\x80\x00" + b"k\x01" + b"v" * 32766
    for bad in (long_topic, long_properties):
        struct.pack_into(">i", bad, 0, len(bad))
        with pytest.raises(RecordError):
            decode_record(bad)


def test_a_wrong_body_is_seen_only_by_its_checksum() -> None:
    record = changed(88, b"J")
    assert decode_record(record).body == b"Jello"
    with pytest.raises(RecordError):
        decode_record(record, check_crc=True)


@given(at=st.integers(0, len(RECORD_VECTOR) - 1), value=st.integers(0, 255))
def test_a_changed_byte_is_a_message_or_a_record_error(at: int, value: int) -> None:
    record = changed(at, bytes((value,)))
    try:
        message = decode_record(record)
    except RecordError:
        return
    assert message.size_bytes == len(record)


@given(st.binary(max_size=150))
def test_random_bytes_are_a_record_error(data: bytes) -> None:
    with pytest.raises(RecordError):
        decode_record(struct.pack(">ii", len(data) + 8, MAGIC_MESSAGE) + data, 1)


@given(st.binary(max_size=150))
def test_random_bytes_behind_a_good_start_raise_nothing_else(data: bytes) -> None:
    try:
        decode_record(struct.pack(">ii", len(data) + 8, MAGIC_MESSAGE) + data)
    except RecordError:
        return


@pytest.mark.parametrize("data", [b"", b"\0\0\0\x08", bytes(8), bytes(100)])
def test_scanning_refuses_what_is_neither_record_nor_blank(data: bytes) -> None:
    with pytest.raises(RecordError):
        size_at(data, 0)


def test_scanning_refuses_a_blank_that_ends_before_its_own_header() -> None:
    with pytest.raises(RecordError):
        size_at(struct.pack(">ii", 7, MAGIC_BLANK), 0)


# A real broker's store


@cache
def golden_log(store: str) -> bytes:
    """The commit-log files in order, as one range of bytes."""
    with tarfile.open(GOLDEN / f"store-{store}.tar.xz") as archive:
        names = sorted(name for name in archive.getnames() if "/commitlog/" in name)
        files = [archive.extractfile(name) for name in names]
        return b"".join(file.read() for file in files if file is not None)


def golden_messages(store: str) -> list[Message]:
    log = golden_log(store)
    messages: list[Message] = []
    position = 0
    while position < len(log) and log[position : position + 4] != bytes(4):
        (size, magic) = struct.unpack_from(">ii", log, position)
        if magic != MAGIC_BLANK:
            messages.append(decode_record(log, position, check_crc=True))
        position += size
    return messages


@pytest.mark.parametrize("store", ["clean", "killed"])
def test_a_real_store_is_read_and_written_byte_for_byte(store: str) -> None:
    log = golden_log(store)
    messages = golden_messages(store)
    assert len(messages) > 120
    different = 0
    for message in messages:
        start = message.physical_offset
        assert size_at(log, start) == message.size_bytes
        again = bytes(encode_record(message))
        assert content(decode_record(again)) == content(message)
        different += again != log[start : start + message.size_bytes]
    # A batch adds its own WAIT behind the one of each message; of equal names only the last is kept.
    assert different == BATCH_SIZE


def test_a_real_store_holds_what_its_producer_received() -> None:
    by_offset = {message.physical_offset: message for message in golden_messages("clean")}
    lines = (GOLDEN / "ledger.txt").read_text().splitlines()
    sends = [line.split() for line in lines if line.startswith("send ")]
    assert len(sends) == 120
    for _, number, _, unique_id, offset_id, queue_id, queue_offset in sends:
        message = by_offset[parse_offset_message_id(offset_id)[2]]
        assert offset_message_id(*message.store_host, message.physical_offset) == offset_id
        assert message.properties["UNIQ_KEY"] == unique_id
        assert message.properties["n"] == number
        assert (message.queue_id, message.queue_offset) == (int(queue_id), int(queue_offset))
        assert message.body == golden_body(int(number))


def golden_body(number: int) -> bytes:
    return bytes([ord("a") + number % 26]) * (20 + number * 37 % 900)


# Properties


def test_properties_vectors() -> None:
    assert decode_properties("a\x01b\x02c\x01\x02d\x01e\x02") == {"a": "b", "d": "e"}
    assert encode_properties({"KEYS": "k1", "TAGS": "TagA"}) == b"KEYS\x01k1\x02TAGS\x01TagA"


@given(st.dictionaries(WORD, WORD, max_size=8))
def test_properties_survive_as_bytes_and_as_text(properties: dict[str, str]) -> None:
    data = encode_properties(properties)
    assert decode_properties(data) == properties
    assert decode_properties(data.decode()) == properties


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("", {}),
        ("\x02\x02", {}),
        ("name", {}),
        ("\x01value", {}),
        ("name\x01", {}),
        ("a\x011\x02a\x012", {"a": "2"}),
        ("a\x01b\x01c", {"a": "b\x01c"}),
    ],
)
def test_properties_that_are_not_well_formed(text: str, properties: dict[str, str]) -> None:
    assert decode_properties(text) == properties


@pytest.mark.parametrize("bad", ["\x00", "\x01", "\x02", "b\x02TAGS\x01stolen"])
def test_no_value_and_no_name_can_smuggle_another_property_in(bad: str) -> None:
    for properties in ({"k": f"a{bad}"}, {f"k{bad}": "v"}):
        with pytest.raises(RecordError):
            encode_properties(properties)
        with pytest.raises(RecordError):
            encode_record(Message(topic="T", body=b"", properties=properties))


def test_properties_that_are_not_utf8_are_a_record_error() -> None:
    with pytest.raises(RecordError):
        decode_properties(b"k\x01\xff")


# Hashes and ids


@pytest.mark.parametrize(
    ("tags", "code"),
    [("TagA", 2598919), ("TagB", 2598920), ("中文", 646394), ("", 0), (None, 0)],
)
def test_tags_code_vectors(tags: str | None, code: int) -> None:
    assert tags_code(tags) == code


@pytest.mark.parametrize(
    ("text", "value"),
    [("TopicTest#k1", 2746024), ("", 0), ("polygenelubricants", -(2**31)), ("😀", 1772899)],
)
def test_java_hash_vectors(text: str, value: int) -> None:
    assert java_string_hash(text) == value


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("10.0.0.1", "0A00000100002A9F0000000000000400"),
        ("2001:db8::1", "20010DB800000000000000000000000100002A9F0000000000000400"),
    ],
)
def test_offset_message_id_vectors(host: str, text: str) -> None:
    assert offset_message_id(host, 10911, 1024) == text
    assert parse_offset_message_id(text) == (host, 10911, 1024)


@pytest.mark.parametrize("text", ["", "0", "zz" * 16, "00" * 15, "00" * 17, "00" * 29])
def test_what_is_no_message_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_offset_message_id(text)
