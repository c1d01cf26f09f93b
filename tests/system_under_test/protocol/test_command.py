"""Commands in both header encodings: the published vectors, round trips, and what peers may get wrong."""

from __future__ import annotations

import struct

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticfire.system_under_test.protocol.codes import LanguageCode
from staticfire.system_under_test.protocol.command import (
    FIELDS_MAX,
    READ_HEADER_SIZE_MAX,
    RemotingCommand,
    decode_command,
)
from staticfire.system_under_test.protocol.frames import RemoteProtocolError
from tests.support.attributes import attributes

JSON, ROCKETMQ = 0, 1

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
WORD = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT16 = st.integers(-(2**15), 2**15 - 1)  # what code and version have in a binary header

JSON_VECTOR = (
    b'{"code":105,"extFields":{"topic":"TopicTest"},"flag":0,"language":"JAVA","opaque":7,'
    b'"serializeTypeCurrentRPC":"JSON","version":407}'
)
BINARY_VECTOR = bytes.fromhex(
    "000000310100002b00690001970000000700000000000000026f6b000000140005746f70696300000009546f70696354657374"
    "6869"
)


def route_request(*, serialize_type: int, remark: str | None) -> RemotingCommand:
    command = RemotingCommand.request(105, {"topic": "TopicTest"}, b"hi")
    command.language = LanguageCode.JAVA
    command.version = 407
    command.opaque = 7
    command.remark = remark
    command.serialize_type = serialize_type
    return command


def parts(command: RemotingCommand) -> tuple[object, ...]:
    return tuple(getattr(command, name) for name in attributes(RemotingCommand))


def frame_of(header: bytes, body: bytes = b"", *, serialize_type: int = JSON) -> bytes:
    return struct.pack(">I", serialize_type << 24 | len(header)) + header + body


def json_frame(**fields: object) -> bytes:
    return frame_of(orjson.dumps(fields))


def binary_frame(remark: bytes, ext: bytes) -> bytes:
    numbers = struct.pack(">hbhii", 105, 0, 409, 7, 0)
    header = numbers + remark + ext
    return frame_of(header, serialize_type=ROCKETMQ)


# The published vectors


def test_json_vector() -> None:
    frame = bytes.fromhex("0000008900000083") + JSON_VECTOR + b"hi"
    assert route_request(serialize_type=JSON, remark=None).encode() == frame
    assert decode_command(frame[4:]).encode() == frame


def test_binary_vector() -> None:
    assert route_request(serialize_type=ROCKETMQ, remark="ok").encode() == BINARY_VECTOR
    assert decode_command(BINARY_VECTOR[4:]).encode() == BINARY_VECTOR


# Round trips


@given(
    code=INT16,
    version=INT16,
    language=st.sampled_from(LanguageCode),
    opaque=INT32,
    flag=INT32,
    remark=st.none() | WORD,
    ext_fields=st.dictionaries(WORD, WORD, max_size=6),
    body=st.binary(max_size=60),
    serialize_type=st.sampled_from((JSON, ROCKETMQ)),
)
def test_every_command_survives_the_wire(
    code: int,
    version: int,
    language: LanguageCode,
    opaque: int,
    flag: int,
    remark: str | None,
    ext_fields: dict[str, str],
    body: bytes,
    serialize_type: int,
) -> None:
    command = RemotingCommand.request(code, ext_fields, body)
    command.version, command.language = version, language
    command.opaque, command.flag, command.remark = opaque, flag, remark
    command.serialize_type = serialize_type
    frame = command.encode()
    assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
    assert parts(decode_command(frame[4:])) == parts(command)


@pytest.mark.slow
@given(ext_fields=st.dictionaries(WORD, TEXT, max_size=6))
def test_json_keeps_empty_values_and_binary_drops_them(ext_fields: dict[str, str]) -> None:
    command = RemotingCommand.request(10, ext_fields)
    assert decode_command(command.encode()[4:]).ext_fields == ext_fields
    command.serialize_type = ROCKETMQ
    kept = {name: value for name, value in ext_fields.items() if value}
    assert decode_command(command.encode()[4:]).ext_fields == kept


def test_a_response_answers_in_the_encoding_of_its_request() -> None:
    request = decode_command(BINARY_VECTOR[4:])
    response = RemotingCommand.response(request, 17, "no route", {"a": "b"}, b"body")
    assert (response.opaque, response.serialize_type) == (7, ROCKETMQ)
    assert response.is_response
    assert not response.is_oneway


@pytest.mark.parametrize("oneway", [True, False])
def test_a_request_says_whether_it_wants_an_answer(oneway: bool) -> None:
    request = RemotingCommand.request(34, oneway=oneway)
    assert (request.is_response, request.is_oneway) == (False, oneway)


# What peers send that our encoder never does


def test_numbers_and_booleans_of_cpp_become_text() -> None:
    ext = {"queueId": 1, "offset": 2**40, "ok": True, "no": False, "nothing": None, "topic": "T"}
    command = decode_command(json_frame(code=11, extFields=ext))
    assert command.ext_fields == {
        "queueId": "1",
        "offset": "1099511627776",
        "ok": "true",
        "no": "false",
        "topic": "T",
    }


def test_missing_fields_are_javas_defaults() -> None:
    command = decode_command(json_frame(unknown="ignored"))
    assert (command.code, command.flag, command.version, command.opaque) == (0, 0, 0, 0)
    assert command.language == LanguageCode.JAVA
    assert (command.remark, command.ext_fields, command.body) == (None, {}, b"")


def test_a_header_may_end_with_a_line_break_as_cpp_writes_it() -> None:
    assert decode_command(frame_of(b'{"code":34}\n', b"body")).body == b"body"


@pytest.mark.parametrize("language", ["COBOL", 77, None])
def test_an_unknown_language_does_not_matter(language: object) -> None:
    assert decode_command(json_frame(code=34, language=language)).code == 34


def test_an_unknown_language_byte_can_be_written_again() -> None:
    frame = bytearray(BINARY_VECTOR[4:])
    frame[6] = 0x7F
    command = decode_command(bytes(frame))
    assert decode_command(command.encode()[4:]).code == 105


# Hostile frames


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\0\0",
        b"\x02\0\0\x02{}",  # serialize type 2
        b"\xff\0\0\x02{}",
        b"\0\0\0\x03{}",  # the header ends behind the frame
        b"\0\xff\xff\xff{}",
        frame_of(b""),
        frame_of(b"{"),
        frame_of(b"[]"),
        frame_of(b"null"),
        frame_of(b'{"code":1,}'),
        frame_of(b'{"remark":"\xff"}'),
        frame_of(b"[" * 100_000),
        frame_of(b'{"extFields":' * 10_000),
        json_frame(code="105"),
        json_frame(code=1.5),
        json_frame(code=True),
        json_frame(code=None),
        json_frame(opaque=2**31),
        json_frame(flag=-(2**31) - 1),
        frame_of(b'{"opaque":' + b"9" * 5000 + b"}"),
        json_frame(extFields=[1]),
        json_frame(extFields="text"),
    ],
    ids=lambda frame: repr(frame[:24]),
)
def test_what_is_no_command_is_refused(frame: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_command(frame)


INT = struct.Struct(">i")
NOTHING = INT.pack(0)
HUGE = INT.pack(2**31 - 1)
NEGATIVE = INT.pack(-1)


@pytest.mark.parametrize(
    ("remark", "ext"),
    [
        (NEGATIVE, NOTHING),
        (HUGE, NOTHING),
        (INT.pack(5) + b"ok", b""),
        (INT.pack(1) + b"\xff", NOTHING),
        (NOTHING, b""),  # cut before the length of the ext fields
        (NOTHING, NEGATIVE),
        (NOTHING, HUGE),
        (NOTHING, INT.pack(1) + b"\0"),
        (NOTHING, INT.pack(3) + b"\0\x01k"),  # a key without a value
        (NOTHING, INT.pack(6) + b"\xff\xff" + NOTHING),  # key length -1
        (NOTHING, INT.pack(6) + b"\x7f\xff" + NOTHING),
        (NOTHING, INT.pack(8) + b"\0\x01k" + NEGATIVE + b"v"),
        (NOTHING, INT.pack(8) + b"\0\x01k" + HUGE + b"v"),
        (NOTHING, INT.pack(8) + b"\0\x01\xff" + INT.pack(1) + b"v"),
    ],
)
def test_a_binary_header_whose_lengths_lie_is_refused(remark: bytes, ext: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_command(binary_frame(remark, ext))


@given(st.binary(max_size=200))
def test_random_bytes_are_a_command_or_a_protocol_error(frame: bytes) -> None:
    try:
        command = decode_command(frame)
    except RemoteProtocolError:
        return
    assert len(command.body) <= len(frame)


@given(position=st.integers(0, len(BINARY_VECTOR) - 5), value=st.integers(0, 255))
def test_a_changed_byte_is_a_command_or_a_protocol_error(position: int, value: int) -> None:
    frame = bytearray(BINARY_VECTOR[4:])
    frame[position] = value
    try:
        command = decode_command(bytes(frame))
    except RemoteProtocolError:
        return
    assert decode_command(command.encode()[4:]).ext_fields == command.ext_fields


@given(size=st.integers(0, len(BINARY_VECTOR) - 5))
def test_a_cut_header_is_refused(size: int) -> None:
    header_end = 4 + 0x2B
    if size < header_end:
        with pytest.raises(RemoteProtocolError):
            decode_command(BINARY_VECTOR[4 : 4 + size])
    else:
        assert decode_command(BINARY_VECTOR[4 : 4 + size]).remark == "ok"


@pytest.mark.parametrize("serialize_type", [JSON, ROCKETMQ])
def test_fields_of_a_header_are_bounded(serialize_type: int) -> None:
    def with_fields(count: int) -> bytes:
        ext = {f"k{number}": "v" for number in range(count)}
        command = RemotingCommand(105, ext, serialize_type=serialize_type)
        return command.encode()[4:]

    assert len(decode_command(with_fields(FIELDS_MAX)).ext_fields) == FIELDS_MAX
    with pytest.raises(RemoteProtocolError, match=f"allowed: up to {FIELDS_MAX}"):
        decode_command(with_fields(FIELDS_MAX + 1))


def test_fields_that_are_dropped_or_repeated_count() -> None:
    empty = struct.pack(">hi", 0, 0)
    again = struct.pack(">h", 1) + b"k" + struct.pack(">i", 1) + b"v"
    for entry in (empty, again):
        ext = entry * (FIELDS_MAX + 1)
        with pytest.raises(RemoteProtocolError, match=f"allowed: up to {FIELDS_MAX}"):
            decode_command(binary_frame(struct.pack(">i", 0), struct.pack(">i", len(ext)) + ext))


@pytest.mark.parametrize("serialize_type", [JSON, ROCKETMQ])
def test_a_header_that_is_too_long_is_not_parsed(serialize_type: int) -> None:
    header = b" " * (READ_HEADER_SIZE_MAX + 1)
    with pytest.raises(RemoteProtocolError, match=f"allowed: up to {READ_HEADER_SIZE_MAX}"):
        decode_command(frame_of(header, serialize_type=serialize_type))
    longest = b"{}".ljust(READ_HEADER_SIZE_MAX)
    assert decode_command(frame_of(longest)).code == 0
