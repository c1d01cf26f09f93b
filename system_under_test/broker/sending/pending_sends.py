"""Holds stored sends until they are safe enough to be acknowledged.

Group commit on both sides: one fdatasync and one slave report answer all sends below their offset. Entries are in log
order and have the same time-outs, so only the head has to be checked (RocketMQ, GroupCommitService and
GroupTransferService).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from staticfire.system_under_test.broker.statistics.put_times import PutTimes
from staticfire.system_under_test.protocol.codes import ResponseCode

Answer = Callable[[ResponseCode], None]

SUCCESS = ResponseCode.SUCCESS


class WaitingSend:
    """One stored message whose sender waits for an answer."""

    __slots__ = ("answer", "end_offset", "since_ns", "slave_usable")

    def __init__(self, end_offset: int, answer: Answer, slave_usable: bool, since_ns: int) -> None:
        self.end_offset = end_offset  # the log must be safe up to here
        self.answer = answer
        self.slave_usable = slave_usable
        self.since_ns = since_ns


class PendingSends:
    """Stored messages in log order; answers them when flushed and replicated, or when their time is up.

    Args:
        sync_flush: an answer waits for the local flush.
        sync_replication: an answer waits for one slave, if one is usable.
        times: records how long each of them waited.
    """

    def __init__(
        self,
        *,
        sync_flush: bool,
        sync_replication: bool,
        flush_timeout_ns: int,
        slave_timeout_ns: int,
        times: PutTimes,
    ) -> None:
        self._times = times
        self._sync_flush = sync_flush
        self._sync_replication = sync_replication
        self.flush_timeout_ns = flush_timeout_ns
        self.slave_timeout_ns = slave_timeout_ns
        self._queue: deque[WaitingSend] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def needed(self) -> bool:
        """False when every send may be answered as soon as it is stored."""
        return self._sync_flush or self._sync_replication

    @property
    def needs_slave(self) -> bool:
        """Whether answers depend on whether a slave is usable."""
        return self._sync_replication

    def add(self, end_offset: int, answer: Answer, *, now_ns: int, slave_usable: bool) -> None:
        """Let `answer` wait until the log is safe up to `end_offset`."""
        self._queue.append(WaitingSend(end_offset, answer, slave_usable, now_ns))

    def settle(self, *, now_ns: int, flushed_offset: int, replicated_offset: int) -> None:
        """Answer sends from the head on that are safe or whose time is up."""
        queue, took = self._queue, self._times.took
        safe_offset = self._safe_offset(flushed_offset, replicated_offset)
        while queue:
            send = queue[0]
            code = SUCCESS
            if send.end_offset > safe_offset:  # usually all sends of a turn become safe at once
                verdict = self._verdict(send, now_ns, flushed_offset, replicated_offset)
                if verdict is None:
                    return
                code = verdict
            queue.popleft()
            took(now_ns - send.since_ns)
            send.answer(code)

    def _verdict(
        self, send: WaitingSend, now_ns: int, flushed_offset: int, replicated_offset: int
    ) -> ResponseCode | None:
        """The code of the answer, or None to keep waiting. A weaker promise is never SUCCESS."""
        if self._sync_flush and flushed_offset < send.end_offset:
            late = now_ns - send.since_ns >= self.flush_timeout_ns
            return ResponseCode.FLUSH_DISK_TIMEOUT if late else None
        if not self._sync_replication:
            return ResponseCode.SUCCESS
        if replicated_offset >= send.end_offset:
            return ResponseCode.SUCCESS
        if not send.slave_usable:
            return ResponseCode.SLAVE_NOT_AVAILABLE
        late = now_ns - send.since_ns >= self.slave_timeout_ns
        return ResponseCode.FLUSH_SLAVE_TIMEOUT if late else None

    def _safe_offset(self, flushed_offset: int, replicated_offset: int) -> int:
        """The physical offset up to which every waiting send is as safe as required."""
        if not self._sync_replication:
            return flushed_offset
        return min(flushed_offset, replicated_offset) if self._sync_flush else replicated_offset

    def slaves_lost(self) -> None:
        """No slave is left: answer sends that wait for one with 11, without waiting for the time-out."""
        for send in self._queue:
            send.slave_usable = False

    def fail_all(self) -> None:
        """The disk has failed: answer all with 10, as it is unknown whether these messages are durable."""
        while self._queue:
            self._queue.popleft().answer(ResponseCode.FLUSH_DISK_TIMEOUT)

    def next_deadline_ns(self, now_ns: int) -> int | None:
        """When the head has to be checked again (monotonic ns); None if no send waits."""
        if not self._queue:
            return None
        timeouts_ns = (self.flush_timeout_ns, self.slave_timeout_ns)
        ends_ns = [self._queue[0].since_ns + timeout_ns for timeout_ns in timeouts_ns]
        ahead = [at_ns for at_ns in ends_ns if at_ns > now_ns]
        return min(ahead, default=now_ns)
