"""The interface of a filter by message properties (RocketMQ, MessageFilter)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol


class ExtensionUnit(NamedTuple):
    """The data of one message in the extension of a queue (RocketMQ, ConsumeQueueExt.CqExtUnit)."""

    tags_code: int
    store_timestamp_ms: int
    # bits of the groups that want it; b"" if no group filtered when it was dispatched
    bit_map: bytes


class RecordFilter(Protocol):
    """Decides by the properties of a message, and possibly already by its queue entry."""

    def may_match(self, unit: ExtensionUnit | None, physical_offset: int) -> bool:
        """Whether `matches` must examine the record; True without a unit."""

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Whether the message is wanted."""
