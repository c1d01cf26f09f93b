"""Self-checking bodies: key and size alone determine a body, so any change of it is detected."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from staticfire.system_under_test.protocol.message import Message

BLOCK_BYTES = 65_536


def make_body(key: str, size_bytes: int) -> bytes:
    """Make a body of `size_bytes` (or the key and a space, if that is longer)."""
    head = f"{key} ".encode()
    if size_bytes <= len(head):
        return head
    block = head * (min(size_bytes, BLOCK_BYTES) // len(head) + 1)
    if size_bytes <= len(block):
        return block[:size_bytes]
    whole, rest = divmod(size_bytes, len(block))
    return b"".join([*[block] * whole, block[:rest]])  # copies megabytes only once


def key_of(body: bytes) -> str:
    """Return the key in a body."""
    end = body.find(b" ")
    return (body if end < 0 else body[:end]).decode("utf-8", errors="replace")


def is_intact(body: bytes) -> bool:
    return body == make_body(key_of(body), len(body))


def delivered_message(message: Message) -> list[object]:
    """Return a message as in the history: key, queue offset, physical offset, whether it is intact, attempts."""
    body = message.body
    key = key_of(body)
    return [
        key,
        message.queue_offset,
        message.physical_offset,
        body == make_body(key, len(body)),
        message.reconsume_times,
    ]
