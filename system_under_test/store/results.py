"""The results that the store returns (RocketMQ, PutMessageStatus and PutMessageResult, DispatchRequest)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class PutStatus(Enum):
    """Whether a message was appended. The caller waits for flush and replication, and decides their status."""

    PUT_OK = "PUT_OK"
    MESSAGE_ILLEGAL = "MESSAGE_ILLEGAL"
    SERVICE_NOT_AVAILABLE = "SERVICE_NOT_AVAILABLE"
    CREATE_MAPPED_FILE_FAILED = "CREATE_MAPEDFILE_FAILED"


@dataclass(slots=True)  # neither frozen nor kw_only, for speed: made for every send
class PutResult:
    """Where a message was appended; `end_offset` is where its record ends. If refused: why, and no offsets."""

    status: PutStatus
    physical_offset: int = -1
    size_bytes: int = 0
    end_offset: int = -1
    queue_offset: int = -1
    store_timestamp_ms: int = 0
    message_id: str = ""  # the offset message id
    reason: str = ""


@dataclass(slots=True)  # as PutResult
class Dispatched:
    """One message that is about to become visible in its queue, or has become visible."""

    topic: str
    queue_id: int
    queue_offset: int
    tags_code: int
    store_timestamp_ms: int
    physical_offset: int
    end_offset: int  # where its record ends
    hashes: tuple[int, ...]  # of its keys
