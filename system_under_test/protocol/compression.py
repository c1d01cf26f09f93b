"""Inflates compressed bodies (RocketMQ: MessageSysFlag, MessageDecoder.decode). Brokers store them as received.

Only ZLIB is supported: the standard library has neither LZ4 nor Zstandard, and producers use these only on request.
"""

from __future__ import annotations

import zlib
from dataclasses import replace

from staticfire.system_under_test.protocol.message import Message

COMPRESSED_FLAG = 0x1
TYPE_MASK = 0x700
ZLIB_TYPES = (0, 0x300)  # clients before 4.9.4 set no type
INFLATED_SIZE_MAX = 64 << 20


def inflate_body(message: Message) -> Message:
    """The message with its body inflated; the flag stays set, as in RocketMQ.

    A body of another type, one that is damaged, or one that would take more than INFLATED_SIZE_MAX stays compressed:
    a consumer must get past it.
    """
    if not message.sys_flag & COMPRESSED_FLAG or message.sys_flag & TYPE_MASK not in ZLIB_TYPES:
        return message
    inflater = zlib.decompressobj()
    try:
        body = inflater.decompress(message.body, INFLATED_SIZE_MAX)
    except zlib.error:
        return message
    return replace(message, body=body) if inflater.eof else message
