"""Bodies that arrive compressed."""

from __future__ import annotations

import zlib

import pytest

from staticfire.system_under_test.protocol import compression
from staticfire.system_under_test.protocol.compression import inflate_body
from staticfire.system_under_test.protocol.message import Message

TEXT = b"many equal words, " * 300


@pytest.mark.parametrize("sys_flag", [0x1, 0x301, 0x1 | 0x2])
def test_zlib_is_undone_and_the_flag_stays(sys_flag: int) -> None:
    message = inflate_body(Message(topic="T", body=zlib.compress(TEXT, 5), sys_flag=sys_flag))
    assert message.body == TEXT
    assert message.sys_flag == sys_flag


@pytest.mark.parametrize(
    ("body", "sys_flag"),
    [
        (zlib.compress(TEXT), 0x0),
        (zlib.compress(TEXT), 0x101),
        (zlib.compress(TEXT), 0x201),
        (b"not compressed", 0x1),
        (zlib.compress(TEXT)[:-5], 0x1),
        (b"", 0x1),
    ],
    ids=["no flag", "lz4", "zstd", "no stream", "cut off", "empty"],
)
def test_everything_else_stays_as_it_is(body: bytes, sys_flag: int) -> None:
    assert inflate_body(Message(topic="T", body=body, sys_flag=sys_flag)).body == body


def test_a_body_that_would_fill_the_memory_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "INFLATED_SIZE_MAX", len(TEXT) - 1)
    body = zlib.compress(TEXT)
    assert inflate_body(Message(topic="T", body=body, sys_flag=0x1)).body == body
