"""The receiving side of the HA protocol (RocketMQ, HAClient): a following slave, or a master that catches up.

Both start some KiB before the end of their own log and compare received bytes with their own. See `replication`.
A record that a disk has damaged does not make the logs differ: the receiver keeps the sound one of the two copies.
"""

from __future__ import annotations

import struct

from staticfire.system_under_test.protocol.message import MAGIC_MESSAGE
from staticfire.system_under_test.store.record_scan import KEPT_SIZE, is_sound
from staticfire.system_under_test.store.replication.replication import (
    REPORT,
    ReplicatedLog,
    ReplicationError,
    TransferDecoder,
)

RECORD_START = struct.Struct(">ii")  # size and magic of a stored record
OVERLAP_SIZE = 16 << 10  # at least this many of the last bytes are compared
_NEVER = 1 << 63  # an offset that no log reaches


class Reconnect(Exception):
    """Close this connection and connect again at once, from another position."""


class Diverged(Exception):
    """The peer's log does not continue ours: nothing of it may be appended."""


class LogReceiver:
    """Compares received bytes with our log, and appends those beyond its end."""

    def __init__(self, log: ReplicatedLog) -> None:
        self._log = log
        self._decoder = TransferDecoder()
        self._start = 0  # the offset requested on this connection
        self._position = 0  # next byte expected
        # the last bytes before `_position`, if they belong to a differing record that has not arrived in full
        self._held = b""
        # once compared up to here, the first record has been compared as a whole
        self._proven_at = 0
        self._begins_anywhere = False  # we requested the sender's log from its start
        # request that next time: the sender has deleted the requested offset
        self._from_its_start = False

    @property
    def is_proven(self) -> bool:
        """Whether at least one whole message of our log was found equal, or there was nothing to compare."""
        return self._compared >= self._proven_at

    @property
    def _compared(self) -> int:
        """The offset up to which both logs are known to be equal, except for damage."""
        return self._position - len(self._held)

    def _begin(self, start: int, *, anywhere: bool = False) -> bytes:
        """Begin a connection at `start`, or where the sender's log begins; return the first report."""
        self._begins_anywhere = anywhere or self._log.end_offset == 0
        self._decoder = TransferDecoder()
        self._held = b""
        self._start = self._position = start
        self._proven_at = start + self._record_size(start) if start > self._log.min_offset else 0
        return REPORT.pack(start)

    def _record_size(self, offset: int) -> int:
        """Size of the record at `offset`; at least 1, so that an unreadable start proves nothing."""
        data = self._log.read_raw(offset, RECORD_START.size)
        return max(1, RECORD_START.unpack(data)[0]) if len(data) == RECORD_START.size else 1

    def _overlap_start(self, end: int, overlap_size: int) -> int:
        """The start of a message at least `overlap_size` bytes before `end`, else the first offset of our log.

        Never that of a blank: the blank that ends a log file looks the same in every log.
        """
        log = self._log
        offset = max(log.min_offset, end - overlap_size)
        while offset > log.min_offset:
            offset = log.record_start_before(offset)
            data = log.read_raw(offset, RECORD_START.size)
            if len(data) == RECORD_START.size and RECORD_START.unpack(data)[1] == MAGIC_MESSAGE:
                return offset
            offset -= 1
        return log.min_offset

    def _accept(self, offset: int, body: bytes) -> int | None:
        """Compare and append one body; return the offset of the first different byte, or None."""
        if offset != self._position:
            if self._position != 0 or not self._begins_anywhere:
                self._from_its_start = self._position == self._start == 0
                raise ReplicationError(f"transfer at {offset}, expected {self._position}")
            self._begin_where_sender_begins(offset)
        start, data = offset - len(self._held), self._held + body
        self._position, self._held = offset + len(body), b""
        compared = start
        while (
            difference := self._first_difference(compared, data[compared - start :])
        ) is not None:
            record_start, size = self._disputed(difference)
            if record_start < self._start:
                return difference
            own = self._log.read_raw(record_start, size)
            theirs = own[: max(0, start - record_start)] + data[max(0, record_start - start) :]
            if own[:KEPT_SIZE] != theirs[:KEPT_SIZE]:
                return difference
            if len(theirs) < size:
                self._held = theirs
                return None
            if not self._keep_sound_one(record_start, own, theirs[:size]):
                return difference
            compared = record_start + size
        known = min(len(data), max(0, self._log.end_offset - start))
        if known < len(data):
            self._log.append_raw(start + known, data[known:])
        return None

    def _disputed(self, difference: int) -> tuple[int, int]:
        """Offset and size of our record that holds `difference`."""
        start = self._log.record_start_before(difference)
        return start, self._record_size(start)

    def _keep_sound_one(self, offset: int, own: bytes, theirs: bytes) -> bool:
        """If one of two copies of a record is damaged, make the log hold the sound one and return True; else False."""
        own_is_sound = is_sound(own, offset)
        if own_is_sound == is_sound(theirs, offset):
            return False
        return own_is_sound or self._log.mend_record(offset, theirs)

    def _begin_where_sender_begins(self, offset: int) -> None:
        """The sender's log begins at `offset`; a replica whose log ends before it deletes its whole log."""
        self._position = offset
        end = self._log.end_offset
        if offset > end > 0:
            self._log.begin_again(offset)
        elif offset < end:
            self._proven_at = offset + self._record_size(offset)

    def _first_difference(self, offset: int, body: bytes) -> int | None:
        compared = 0
        while compared < len(body):
            own = self._log.read_raw(offset + compared, len(body) - compared)
            if not own:
                return None
            theirs = body[compared : compared + len(own)]
            if own != theirs:
                return offset + compared + _common_prefix_size(own, theirs)
            compared += len(own)
        return None


def _common_prefix_size(left: bytes, right: bytes) -> int:
    return next(index for index, (a, b) in enumerate(zip(left, right, strict=True)) if a != b)


class ReplicaReceiver(LogReceiver):
    """The slave's side. One object serves all connections, one after the other.

    Args:
        flushed_only: acknowledge only what this slave has flushed.
    """

    def __init__(self, log: ReplicatedLog, *, flushed_only: bool) -> None:
        super().__init__(log)
        self._flushed_only = flushed_only
        self._overlap_size = OVERLAP_SIZE
        # known only if the master's log turned out shorter than ours
        self._master_end: int | None = None
        self._reported = 0

    def connected(self) -> bytes:
        """Begin a connection; return the first report, to be written at once."""
        self._reported = 0
        end = self._log.end_offset
        if self._master_end is not None:
            end = min(end, self._master_end)
        if self._from_its_start:
            self._from_its_start = False
            return self._begin(0, anywhere=True)
        return self._begin(self._overlap_start(end, self._overlap_size))

    def receive(self, data: bytes) -> None:
        """Take bytes from the master.

        Raises:
            Reconnect: the position has to change: connect again at once.
            ReplicationError: close, and connect again later.
        """
        for offset, body in self._decoder.feed(data):
            if body:
                difference = self._accept(offset, body)
                if difference is not None:
                    self._cut_tail(difference)
            else:
                self._take_heartbeat(offset)

    def _cut_tail(self, difference: int) -> None:
        """Our log differs from the master's from `difference` on, which lies within our log."""
        is_proven = difference >= self._proven_at
        # The log does not hold what arrived behind the difference, so none of it may be acknowledged.
        self._proven_at = _NEVER
        if not is_proven:
            raise self._further_back(None)
        self._log.truncate(self._log.record_start_before(difference))
        self._settle_overlap()
        raise Reconnect(f"own log differed at {difference} and was cut there")

    def _take_heartbeat(self, master_position: int) -> None:
        if master_position > self._position:
            self._from_its_start = self._position == self._start > 0
            raise ReplicationError(
                f"master stands at {master_position} and sent nothing from {self._position}"
            )
        if master_position < self._position:
            raise self._further_back(master_position)
        # the master has nothing more, so the record that differs is not a damaged copy
        if self._held:
            self._cut_tail(self._compared)
        if not self.is_proven:
            raise self._further_back(None)

    def _further_back(self, master_end: int | None) -> Reconnect:
        """The error to raise when nothing is known to be equal yet: the next connection starts further back."""
        if master_end is None:
            self._overlap_size *= 2
        self._master_end = master_end if master_end is not None else self._master_end
        return Reconnect(f"nothing in common from {self._start} on")

    def _settle_overlap(self) -> None:
        self._overlap_size = OVERLAP_SIZE
        self._master_end = None

    def report(self) -> bytes:
        """The acknowledgement to write now, or b"" if there is nothing new to acknowledge."""
        offset = self._safe_offset()
        if offset <= self._reported:
            return b""
        return self.repeat_report()

    def repeat_report(self) -> bytes:
        """The acknowledgement again, as a sign of life; b"" as long as nothing is proven equal."""
        if not self.is_proven:
            return b""
        self._settle_overlap()
        self._reported = self._safe_offset()
        return REPORT.pack(self._reported)

    def _safe_offset(self) -> int:
        if not self.is_proven:
            return 0
        if self._flushed_only:
            return min(self._compared, self._log.flushed_offset)
        return self._compared


class CatchUpReceiver(LogReceiver):
    """The side of a restarted master, or of a slave without a master, that fetches what it lacks from a replica.

    It never cuts its own log.
    """

    def __init__(self, log: ReplicatedLog) -> None:
        super().__init__(log)
        self.complete = False  # the peer has answered, and has nothing that we lack

    def connected(self) -> bytes:
        """Begin a connection; return the first report, to be written at once."""
        self.complete = False
        return self._begin(self._overlap_start(self._log.end_offset, OVERLAP_SIZE))

    def receive(self, data: bytes) -> None:
        """Take bytes from the peer.

        Raises:
            Diverged: the peer's log differs from ours.
            ReplicationError: close, and connect again later.
        """
        for offset, body in self._decoder.feed(data):
            if body:
                difference = self._accept(offset, body)
                if difference is not None:
                    raise Diverged(f"the peer's log differs from ours at {difference}")
            elif offset > self._position:
                raise ReplicationError(
                    f"peer stands at {offset} and sent nothing from {self._position}"
                )
            elif self._held:
                raise Diverged(f"the peer's log differs from ours behind {self._compared}")
            else:
                self.complete = True


def cut_partial_record(log: ReplicatedLog) -> int:
    """Remove the partial record that a broken transfer may leave at the end of the log; return the bytes cut."""
    end = log.end_offset
    boundary = log.record_start_before(end)
    if boundary < end:
        log.truncate(boundary)
    return end - boundary
