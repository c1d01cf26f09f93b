"""A message whose body holds the bytes of another record, with the physical offset at which they come to lie."""

from __future__ import annotations

from dataclasses import replace

from staticfire.system_under_test.protocol.message import Message, encode_record
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.record_scan import RECORD_HEADER_SIZE

__all__ = ["body_with_record"]


def body_with_record(store: MessageStore, inner: Message) -> tuple[bytes, int]:
    """What to send next with IPv4 hosts, into the same log file, and the physical offset of the record inside it."""
    offset = store.end_offset + RECORD_HEADER_SIZE
    return bytes(encode_record(replace(inner, physical_offset=offset))), offset
