"""Bodies that prove themselves: made from the key and the size alone, so any change is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from staticfire.system_under_test.protocol.message import Message


def make_body(key: str, size_bytes: int) -> bytes:
    """A body of `size_bytes` (or the key and a space, if that is longer)."""
    head = f"{key} ".encode()
    padding = max(size_bytes - len(head), 0)
    return head + (head * (padding // len(head) + 1))[:padding]


def key_of(body: bytes) -> str:
    """The key that a body claims."""
    return body.partition(b" ")[0].decode("utf-8", errors="replace")


def is_intact(body: bytes) -> bool:
    return body == make_body(key_of(body), len(body))


def delivered_message(message: Message) -> list[Any]:
    """A message in the history: key, queue offset, physical offset, whether it is intact, how often it was tried."""
    return [
        key_of(message.body),
        message.queue_offset,
        message.physical_offset,
        is_intact(message.body),
        message.reconsume_times,
    ]
