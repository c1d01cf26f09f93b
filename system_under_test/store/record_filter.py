"""The interface of a filter that looks into records (RocketMQ, MessageFilter)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol


class ExtensionUnit(NamedTuple):
    """What the extension of a queue holds of one message (RocketMQ, ConsumeQueueExt.CqExtUnit)."""

    tags_code: int
    store_timestamp_ms: int
    bit_map: bytes  # of the groups that want it; b"" if no group filtered when it got its entry


class RecordFilter(Protocol):
    """Decides by the properties of a message, and perhaps already by its queue entry."""

    def may_match(self, unit: ExtensionUnit | None, physical_offset: int) -> bool:
        """Whether the record has to be looked at; without a unit it always has to."""

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Whether the message is wanted."""
