"""Bodies that prove themselves: made from the key and the size alone, so any change is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from staticfire.system_under_test.protocol.message import Message

BLOCK_BYTES = 65_536


def make_body(key: str, size_bytes: int) -> bytes:
    """A body of `size_bytes` (or the key and a space, if that is longer)."""
    head = f"{key} ".encode()
    if size_bytes <= len(head):
        return head
    block = head * (min(size_bytes, BLOCK_BYTES) // len(head) + 1)
    if size_bytes <= len(block):
        return block[:size_bytes]
    whole, rest = divmod(size_bytes, len(block))
    return b"".join([*[block] * whole, block[:rest]])  # megabytes are copied once


def key_of(body: bytes) -> str:
    """The key that a body claims."""
    end = body.find(b" ")
    return (body if end < 0 else body[:end]).decode("utf-8", errors="replace")


def is_intact(body: bytes) -> bool:
    return body == make_body(key_of(body), len(body))


def delivered_message(message: Message) -> list[Any]:
    """A message in the history: key, queue offset, physical offset, whether it is intact, how often it was tried."""
    body = message.body
    key = key_of(body)
    return [
        key,
        message.queue_offset,
        message.physical_offset,
        body == make_body(key, len(body)),
        message.reconsume_times,
    ]
