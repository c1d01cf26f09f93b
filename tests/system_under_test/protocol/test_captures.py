"""Every frame of the recorded Java and C++ sessions is understood, and written back with the same meaning."""

from __future__ import annotations

import json
import struct
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand, decode_command
from staticfire.system_under_test.protocol.frames import FrameDecoder
from staticfire.system_under_test.protocol.message import RecordError, decode_record, encode_record

CAPTURES = Path(__file__).parents[2] / "data" / "captures"
NAMES = sorted(path.name for path in CAPTURES.glob("*.jsonl"))
FRAMES_RECORDED = 884  # 881 read by a proxy, 3 sniffed
COMMAND_KEYS = ("code", "flag", "opaque", "remark", "version")


@cache
def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (CAPTURES / name).read_text().splitlines()]


def body_of(line: dict[str, Any]) -> bytes:
    """The recorded body; a binary one was cut to 200 bytes."""
    text: str = line["body"]
    return bytes.fromhex(text[4:]) if text.startswith("hex:") else text.encode()


def frames(name: str) -> list[tuple[dict[str, Any], bytes]]:
    """Headers as recorded, and the bytes of the frames behind their length."""
    proxied = [
        (line["head"], line["rawhead"].encode(), body_of(line))
        for line in lines(name)
        if "rawhead" in line
    ]
    assert all(line["ser"] == 0 for line in lines(name) if "rawhead" in line)
    found = [(head, struct.pack(">I", len(raw)) + raw + body) for head, raw, body in proxied]
    for line in lines(name):
        if "data" in line:  # sniffed, as text of one character a byte
            sniffed = FrameDecoder().feed(line["data"].encode("latin-1"))
            found += [(json.loads(frame[4:]), frame) for frame in sniffed]
    return found


def as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def test_no_capture_is_missing() -> None:
    assert sum(len(frames(name)) for name in NAMES) == FRAMES_RECORDED


@pytest.mark.parametrize("name", NAMES)
def test_every_frame_is_understood(name: str) -> None:
    for head, frame in frames(name):
        command = decode_command(frame)
        for key in COMMAND_KEYS:
            assert getattr(command, key) == head.get(key), (key, head)
        ext = head.get("extFields", {})
        assert command.ext_fields == {key: as_text(value) for key, value in ext.items()}


@pytest.mark.parametrize("serialize_type", [0, 1])
@pytest.mark.parametrize("name", NAMES)
def test_every_frame_keeps_its_meaning_when_written_again(name: str, serialize_type: int) -> None:
    for _, frame in frames(name):
        command = decode_command(frame)
        command.serialize_type = serialize_type
        again = decode_command(command.encode()[4:])
        assert meaning(again) == meaning(command)
        assert again.serialize_type == serialize_type


def meaning(command: RemotingCommand) -> tuple[object, ...]:
    """Everything but what a binary header cannot say: empty text."""
    ext = {key: value for key, value in command.ext_fields.items() if value}
    numbers = (command.code, command.language, command.version, command.opaque, command.flag)
    return (*numbers, command.remark or None, ext, command.body)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("java")])
def test_java_headers_are_written_byte_for_byte(name: str) -> None:
    for _, frame in frames(name):
        encoded = decode_command(frame).encode()[8:]
        # Java writes an empty map where we write none; both read alike.
        assert encoded == frame[4:].replace(b'"extFields":{},', b"", 1)


def test_every_request_code_of_the_captures_has_a_name() -> None:
    codes = {head["code"] for name in NAMES for head, _ in frames(name) if not head["flag"] & 1}
    assert codes <= set(RequestCode)


def pulled_records() -> list[bytes]:
    """The first record of each pull answer, if the recording holds all of it."""
    bodies = [
        body_of(line)
        for name in NAMES
        for line in lines(name)
        if line.get("name") == "RE:PULL_MESSAGE" and line["body_len"]
    ]
    sizes = [int.from_bytes(body[:4], "big") for body in bodies]
    return [body[:size] for body, size in zip(bodies, sizes, strict=True) if size <= len(body)]


def test_recorded_messages_are_read_and_written_byte_for_byte() -> None:
    records = pulled_records()
    assert len(records) == 27
    for record in records:
        assert bytes(encode_record(decode_record(record, check_crc=True))) == record


def test_cut_messages_are_refused() -> None:
    for record in pulled_records():
        with pytest.raises(RecordError):
            decode_record(record[:-1])
