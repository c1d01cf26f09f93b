"""Bodies as they were sent."""

from __future__ import annotations

import asyncio
import zlib

import pytest

from staticfire.system_under_test.admin import AdminClient
from staticfire.system_under_test.admin.messages import (
    BODY_SIZE_MAX,
    COMPRESSED_FLAG,
    by_key,
    by_unique_key,
    message_body,
)
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import Message, encode_record
from staticfire.system_under_test.runtime.real_env import make_env

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


@pytest.mark.slow
def test_a_body_that_explodes_stays_packed() -> None:
    bomb = zlib.compress(bytes(BODY_SIZE_MAX + 1))
    assert message_body(Message(topic="T", body=bomb, sys_flag=COMPRESSED_FLAG)) == bomb


class OneBroker(AdminClient):
    """Answers every query with the same records."""

    def __init__(self, *records: Message) -> None:
        super().__init__(make_env("test"), ["127.0.0.1:1"])
        self._body = b"".join(bytes(encode_record(record)) for record in records)

    async def topic_brokers(self, topic: str) -> dict[str, str]:
        return {"broker-a": "127.0.0.1:1"}

    async def ask(self, address: str, code: int, *_: object, **__: object) -> RemotingCommand:
        return RemotingCommand(0, body=self._body)


def test_what_only_shares_the_hash_of_a_key_is_left_out() -> None:
    keys = ("k1 k2", "k10", "k2")
    records = [Message(topic="T", body=b"x", properties={"KEYS": key}) for key in keys]
    found = asyncio.run(by_key(OneBroker(*records), "T", "k2"))
    assert [each.properties["KEYS"] for each in found] == ["k1 k2", "k2"]


def test_what_only_shares_the_hash_of_a_unique_key_is_left_out() -> None:
    records = [Message(topic="T", body=b"x", properties={"UNIQ_KEY": key}) for key in ("a", "b")]
    found = asyncio.run(by_unique_key(OneBroker(*records), "T", "b"))
    assert [each.properties["UNIQ_KEY"] for each in found] == ["b"]
