"""The slave of RocketMQ 4.9.8: it appends whatever bytes follow its log, without comparing (HAClient)."""

from __future__ import annotations

from staticfire.system_under_test.store.replication.replication import (
    REPORT,
    ReplicatedLog,
    ReplicationError,
    TransferDecoder,
)


class FaithfulReceiver:
    """Requests bytes from the end of its own log; acknowledges what it has appended, flushed or not.

    It does not repair a log that differs from the master's (RocketMQ #3388): the master forever sends heartbeats for
    the requested position, or bytes that do not follow.
    """

    def __init__(self, log: ReplicatedLog) -> None:
        self._log = log
        self._decoder = TransferDecoder()
        # next byte expected; beyond the end of the log by the bytes of an incomplete record that the log holds back
        self._position = 0
        self._reported = 0

    def connected(self) -> bytes:
        """Begin a connection; return the first report."""
        self._decoder = TransferDecoder()
        self._position = self._reported = self._log.end_offset
        return REPORT.pack(self._position)

    def receive(self, data: bytes) -> None:
        """Take bytes from the master. Raises ReplicationError: close, and connect again later."""
        for offset, body in self._decoder.feed(data):
            if self._position not in (0, offset):
                raise ReplicationError(
                    f"transfer at {offset}, but the own log ends at {self._position}"
                )
            if body:
                self._log.append_raw(offset, body)
                self._position = offset + len(body)

    def report(self) -> bytes:
        """The acknowledgement to write now, or b"" if there is nothing new to acknowledge."""
        return b"" if self._log.end_offset <= self._reported else self.repeat_report()

    def repeat_report(self) -> bytes:
        """The end of our log, repeated as a sign of life."""
        self._reported = self._log.end_offset
        return REPORT.pack(self._reported)
