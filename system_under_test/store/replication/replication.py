"""The HA protocol without input and output: wire format and sending side (RocketMQ, HAService, HAConnection).

The receiving side is in `replica_receiver`.

A replica connects, reports an offset (8 bytes), and receives the sender's log from there: headers of physical offset
(8) and body size (4), each followed by raw commit-log bytes; size 0 is a heartbeat that carries the sender's position.
Later reports acknowledge.

Differences from RocketMQ 4.9, over the same wire format:

- A replica starts some KiB *before* its end and compares. Equal bytes are skipped; at the first difference it cuts its
  own tail and goes on from there. A diverged replica heals by itself instead of being stuck (RocketMQ #3388, #323).
  - If one side has a damaged copy of a record, that is no difference: the replica repairs its own copy, or keeps it.
- It acknowledges only bytes that it has compared or appended, and with sync flush only flushed ones.
- The first report requests a position and acknowledges nothing, and no report beyond the sender's end counts
  (RocketMQ #1155). A request for 0 gets the whole log from its start, not only its last file (RocketMQ #3661).
- A sender that has sent everything sends a heartbeat at once, so that no replica waits 5 s to learn it.
- With sync flush a sender sends only what it has flushed: its replica is never ahead of it after a power cut.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Protocol

REPORT = struct.Struct(">q")  # replica -> sender: physical offset
HEADER = struct.Struct(">qi")  # sender -> replica: physical offset, body size

TRANSFER_SIZE_MAX = 32 << 10  # RocketMQ: haTransferBatchSize
BODY_SIZE_MAX = 4 << 20  # RocketMQ: HAClient.READ_MAX_BUFFER_SIZE


class ReplicatedLog(Protocol):
    """The interface of a log that replication needs. `MessageStore` implements it."""

    @property
    def end_offset(self) -> int: ...
    @property
    def flushed_offset(self) -> int: ...
    @property
    def min_offset(self) -> int: ...
    def read_raw(self, offset: int, size_max: int) -> bytes: ...
    def append_raw(self, offset: int, data: bytes) -> None: ...
    def truncate(self, offset: int) -> None: ...
    def begin_again(self, offset: int) -> None: ...
    def record_start_before(self, offset: int) -> int: ...
    def mend_record(self, physical_offset: int, record: bytes) -> bool: ...


class ReplicationError(ValueError):
    """The other side broke the protocol, or its log does not fit ours: close the connection, try again later."""


class ReplicaSender:
    """The sending side of one connection.

    Args:
        flushed_only: send only what this side has flushed.
        start_of_new: where a replica that requests 0 starts; None: at the first byte of the log.
        believes_requests: take the first report for an acknowledgement, too (RocketMQ 4.9.8).
    """

    def __init__(
        self,
        log: ReplicatedLog,
        *,
        flushed_only: bool,
        start_of_new: Callable[[], int] | None = None,
        believes_requests: bool = False,
    ) -> None:
        self._log = log
        self._flushed_only = flushed_only
        self._start_of_new = start_of_new or (lambda: log.min_offset)
        self._believes_requests = believes_requests
        self._input = bytearray()
        # next offset to send; None: not requested yet, or not in this log
        self._position: int | None = None
        self._announced = False  # a heartbeat has announced to the replica that it has everything
        self.requested_offset: int | None = None
        self.acked_offset: int | None = None

    def receive(self, data: bytes) -> bool:
        """Take report bytes; return whether the acknowledged offset has advanced.

        Raises ReplicationError: a negative offset, or an acknowledgement of bytes that this log does not have.
        """
        self._input += data
        reports = self._take_reports()
        believed = False
        if reports and self.requested_offset is None:
            believed = self._start_at(reports.pop(0))
        if not reports:
            return believed
        return self._acknowledge(reports[-1])  # the last one supersedes the others

    def _take_reports(self) -> list[int]:
        whole = len(self._input) // REPORT.size * REPORT.size
        reports = [value for (value,) in REPORT.iter_unpack(bytes(self._input[:whole]))]
        del self._input[:whole]
        return reports

    def _start_at(self, requested: int) -> bool:
        """Handle the first report; return whether it acknowledges something."""
        if requested < 0:
            raise ReplicationError(f"replica asks for {requested}; allowed is 0 or more")
        self.requested_offset = requested
        log = self._log
        if requested == 0:
            self._position = self._start_of_new()
        elif self._believes_requests:
            self._position = self.acked_offset = requested
        elif log.min_offset <= requested <= log.end_offset:
            self._position = requested
        return self.acked_offset is not None

    def _acknowledge(self, offset: int) -> bool:
        if not 0 <= offset <= self._log.end_offset:
            raise ReplicationError(
                f"replica acknowledges {offset}, but the log ends at {self._log.end_offset}"
            )
        if self.acked_offset is not None and offset <= self.acked_offset:
            return False
        self.acked_offset = offset
        return True

    def next_transfer(self) -> bytes:
        """Return the next header and body to write, or b"" if there is nothing to send now."""
        if self.requested_offset is None:
            return b""
        body = self._next_body()
        if body:
            assert self._position is not None
            header = HEADER.pack(self._position, len(body))
            self._position += len(body)
            return header + body
        if self._announced:
            return b""
        self._announced = True
        return self.heartbeat()

    def heartbeat(self) -> bytes:
        """A header of size 0 with this side's position; b"" before the first report."""
        if self.requested_offset is None:
            return b""
        return HEADER.pack(self._log.end_offset if self._position is None else self._position, 0)

    def _next_body(self) -> bytes:
        if self._position is None:
            return b""
        log = self._log
        end = log.flushed_offset if self._flushed_only else log.end_offset
        size = min(end - self._position, TRANSFER_SIZE_MAX)
        return log.read_raw(self._position, size) if size > 0 else b""


class TransferDecoder:
    """Splits received bytes into transfers."""

    def __init__(self) -> None:
        self._input = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Return the complete transfers as (physical offset, body). Raises ReplicationError."""
        self._input += data
        transfers: list[tuple[int, bytes]] = []
        while (transfer := self._next()) is not None:
            transfers.append(transfer)
        return transfers

    def _next(self) -> tuple[int, bytes] | None:
        if len(self._input) < HEADER.size:
            return None
        offset, size = HEADER.unpack_from(self._input)
        if offset < 0 or not 0 <= size <= BODY_SIZE_MAX:
            raise ReplicationError(
                f"transfer of {size} bytes at {offset}; allowed are 0..{BODY_SIZE_MAX} bytes"
            )
        end = HEADER.size + size
        if len(self._input) < end:
            return None
        body = bytes(self._input[HEADER.size : end])
        del self._input[:end]
        return offset, body
