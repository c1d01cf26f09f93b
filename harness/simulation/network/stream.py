"""One direction of a TCP connection: segments in order, lost ones retransmitted, and the window they must fit in.

Acknowledgements are not simulated one by one: a segment that arrives counts as acknowledged if the reverse link is open
at that moment. The sender retries unacknowledged segments after 200 ms, 400 ms, ... 120 s (Linux: TCP_RTO_MIN,
TCP_RTO_MAX). Meanwhile it sends nothing new, because the congestion window has collapsed to one segment.

There is no fast retransmit: every segment that a lossy link drops costs such a time-out, as the loss of the last
segments of a burst does on Linux. A lossy link drops no acknowledgements, because the next one stands for all before
it.
"""

from __future__ import annotations

import errno
from collections import deque
from heapq import heappush
from typing import TYPE_CHECKING
from zlib import crc32

from staticfire.harness.simulation.network.link import Link
from staticfire.harness.simulation.scheduling.scheduler import Event, Scheduler
from staticfire.harness.simulation.scheduling.trace import Trace

if TYPE_CHECKING:
    from staticfire.harness.simulation.network.tcp import TcpSocket

# Bytes accepted by the sender's kernel and not yet read by the receiver's process.
WINDOW = 256 * 1024
RTO_MIN_NS = 200_000_000
RTO_MAX_NS = 120_000_000_000
BYTE_NS = 8  # on the wire: 1 Gbit/s
RETRIES_MAX = 15  # Linux: tcp_retries2; the connection fails after about 15 minutes

# Data, b"" for the acknowledgement that ends the handshake, None for FIN.
Segment = bytes | None


class Stream:
    """One direction of a connection, from `source` to `target` over `link`; acknowledgements come over `back`."""

    __slots__ = (
        "_attempts",
        "_back",
        "_is_retrying",
        "_is_stalled",
        "_is_unacknowledged",
        "_is_updating",
        "_last_ns",
        "_link",
        "_lost",
        "_queued",
        "_scheduler",
        "_source",
        "_target",
        "_trace",
        "outstanding",
    )

    def __init__(
        self,
        scheduler: Scheduler,
        trace: Trace,
        source: TcpSocket,
        target: TcpSocket,
        link: Link,
        back: Link,
    ) -> None:
        self.outstanding = 0  # bytes of the window in use
        self._scheduler = scheduler
        self._trace = trace
        self._source = source
        self._target = target
        self._link = link
        self._back = back
        self._last_ns = 0  # arrival of the last segment on the wire
        self._lost: deque[Segment] = deque()  # to retransmit, in order
        # written while the stream is stalled, so not sent yet
        self._queued: deque[Segment] = deque()
        self._attempts = 0
        self._is_retrying = False
        self._is_stalled = False
        # everything was delivered, but its acknowledgement was lost
        self._is_unacknowledged = False
        self._is_updating = False

    def send(self, segment: Segment) -> None:
        """Send a segment; the caller makes sure that it fits into the window."""
        if segment:
            self.outstanding += len(segment)
        scheduler = self._scheduler
        now_ns = scheduler.now_ns + scheduler.debt_ns
        if self._is_stalled:
            self._queued.append(segment)
            return
        when_ns = now_ns + self._link.latency_ns()
        if self._link.shaper is not None:
            when_ns += self._link.shaper.wait_ns(now_ns, len(segment or b""), self._release)
        if when_ns < self._last_ns:
            when_ns = self._last_ns
        self._last_ns = when_ns
        left = (segment, now_ns)
        heappush(scheduler.heap, (when_ns, scheduler.next_sequence(), self._arrive, left))

    def _release(self) -> None:
        """Send the segments queued in front of the wire now, in their order."""
        when_ns = self._scheduler.now_ns + self._link.base_ns + self._link.extra_ns
        if when_ns < self._last_ns:
            self._last_ns = when_ns
            self._scheduler.hasten(self._is_behind_wire, when_ns)

    def _is_behind_wire(self, event: Event) -> bool:
        _, _, action, argument = event
        if action is Stream._reset_arrives:
            link, socket = argument
            return link is self._link and socket is self._target
        return action in (self._arrive, self._retry)

    def reset_target(self) -> None:
        """Send a RST after the segments on the wire. It is never retransmitted."""
        when_ns = max(self._scheduler.local_ns() + self._link.latency_ns(), self._last_ns)
        self._scheduler.at(when_ns, self._reset_arrives, (self._link, self._target))

    def reset_source(self) -> None:
        """Answer a segment with RST."""
        when_ns = self._scheduler.now_ns + self._back.latency_ns()
        self._scheduler.at(when_ns, self._reset_arrives, (self._back, self._source))

    def acknowledge_end(self) -> None:
        """Report to the source that FIN was delivered."""
        self._source.fin_delivered()

    def count_read(self, size: int) -> None:
        """Count `size` bytes as read by the target's process, and wake a source that waits for room."""
        self.outstanding -= size
        if self._source.is_waiting and not self._is_updating and self.outstanding <= WINDOW // 2:
            self._is_updating = True
            when_ns = self._scheduler.local_ns() + self._back.latency_ns()
            self._scheduler.at(when_ns, self._update_arrives)

    def _update_arrives(self, _: object) -> None:
        self._is_updating = False
        if self._back.lets_through():
            self._source.window_opened()
        else:  # the sender probes a closed window as it probes a lost segment
            self._retry_later()

    @staticmethod
    def _reset_arrives(argument: tuple[Link, TcpSocket]) -> None:
        link, socket = argument
        if link.lets_through():
            socket.reset()

    def _arrive(self, left: tuple[Segment, int]) -> None:
        segment, left_ns = left
        lost_ns = self._source.power_lost_ns
        if lost_ns is not None:
            if left_ns > lost_ns:
                return
            if segment:
                segment = segment[: (lost_ns - left_ns) // BYTE_NS + 1]
        if self._trace.labelled:
            self._record(segment)
        if self._link.lets_through() and not self._lost:
            if self._target.receive(segment, self) and not self._back.open:
                self._back.count_loss()
                self._is_unacknowledged = True
                self._retry_later()
            return
        self._lost.append(segment)
        self._retry_later()

    def _record(self, segment: Segment) -> None:
        link = self._link
        content = "FIN" if segment is None else f"{len(segment)} bytes, CRC {crc32(segment):08x}"
        verb = "arrives" if link.open else "is lost"
        pair = f"{link.source}>{link.target}"
        self._trace.record("segment", self._scheduler.now_ns, pair, content, verb)

    # --- retransmission -----------------------------------------------------------------------------

    def _retry_later(self) -> None:
        if not self._is_retrying:
            self._is_retrying = True
            self._attempts = 0
            self._scheduler.later(self._scheduler.now_ns + RTO_MIN_NS, self._retry)

    def _retry(self, _: object) -> None:
        if self._source.is_gone:
            return
        self._is_stalled = True
        if self._scheduler.now_ns <= self._last_ns:
            # Later segments are on the wire: wait for them, so that the order is kept.
            self._scheduler.at(self._last_ns + 1, self._retry)
            return
        self._lost.extend(self._queued)
        self._queued.clear()
        if not self._link.lets_through():
            self._back_off()
        elif self._target.is_gone:
            self.reset_source()
            self._back_off()
        elif not self._back.open:
            self._retransmit_first()
            self._back.count_loss()
            self._back_off()
        else:
            self._recover()

    def _retransmit_first(self) -> None:
        if self._lost and not self._is_unacknowledged:
            self._is_unacknowledged = True
            self._target.receive(self._lost.popleft(), self)

    def _recover(self) -> None:
        """Deliver the lost segments in one burst: both directions are open again."""
        self._is_retrying = self._is_stalled = self._is_unacknowledged = False
        while self._lost and self._target.receive(self._lost.popleft(), self):
            pass
        self._source.window_opened()

    def _back_off(self) -> None:
        self._attempts += 1
        if self._attempts > RETRIES_MAX:
            self._source.fail(TimeoutError(errno.ETIMEDOUT, "Connection timed out"))
            return
        delay_ns = min(RTO_MIN_NS << self._attempts, RTO_MAX_NS)
        self._scheduler.later(self._scheduler.now_ns + delay_ns, self._retry)
