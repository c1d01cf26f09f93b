"""Bodies as they were sent."""

from __future__ import annotations

import zlib

import pytest

from system_under_test.admin.messages import BODY_SIZE_MAX, COMPRESSED_FLAG, message_body
from system_under_test.protocol.message import Message

PACKED = zlib.compress(b"hello")


@pytest.mark.parametrize(
    ("body", "sys_flag", "expected"),
    [
        (b"hello", 0, b"hello"),
        (PACKED, COMPRESSED_FLAG, b"hello"),
        (PACKED, 0, PACKED),
        (b"hello", COMPRESSED_FLAG, b"hello"),  # the flag lies
        (PACKED[:-3], COMPRESSED_FLAG, PACKED[:-3]),
    ],
)
def test_message_body(body: bytes, sys_flag: int, expected: bytes) -> None:
    assert message_body(Message(topic="T", body=body, sys_flag=sys_flag)) == expected


def test_a_body_that_explodes_stays_packed() -> None:
    bomb = zlib.compress(bytes(BODY_SIZE_MAX + 1))
    assert message_body(Message(topic="T", body=bomb, sys_flag=COMPRESSED_FLAG)) == bomb
