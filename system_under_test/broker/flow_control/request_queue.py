"""The bounded FIFO queue of one class of requests. It uses neither loop nor clock."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from staticfire.system_under_test.broker.flow_control.request_classes import QueueLimits
from staticfire.system_under_test.protocol.command import RemotingCommand, size_of
from staticfire.system_under_test.remoting import Connection, Handler

HELD_BYTES_MAX = 64 << 20  # of requests in one queue; RocketMQ counts requests only
NS_PER_MS = 1_000_000


class WaitingRequest(NamedTuple):
    """A request that has arrived and is not handled yet."""

    arrived_ns: int
    connection: Connection
    request: RemotingCommand
    handler: Handler


class RequestQueue:
    """Requests that wait for the appender, or for a later turn of the loop.

    `room` is how many more may be handled at once; at 0 a request has to queue. Serving the queue refills it, so that
    normally a request costs one test and one decrement.
    """

    __slots__ = ("_held_bytes", "_waiting", "is_blocked", "is_scheduled", "limits", "room")

    def __init__(self, limits: QueueLimits) -> None:
        self.limits = limits
        self.room = limits.burst
        self.is_blocked = False  # the appender is stuck: nothing is served
        self.is_scheduled = False  # the loop will serve the queue
        self._waiting: deque[WaitingRequest] = deque()
        self._held_bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def block(self) -> None:
        self.is_blocked = True
        self.room = 0

    def put(self, waiting: WaitingRequest) -> bool:
        """Append a request; False if the queue is full."""
        size = size_of(waiting.request)
        if len(self._waiting) >= self.limits.capacity or self._held_bytes + size > HELD_BYTES_MAX:
            return False
        self._waiting.append(waiting)
        self._held_bytes += size
        return True

    def take(self) -> WaitingRequest:
        """Remove the head. Raises IndexError if there is none."""
        waiting = self._waiting.popleft()
        self._held_bytes -= size_of(waiting.request)
        return waiting

    def take_late(self, now_ns: int) -> list[WaitingRequest]:
        """Remove and return requests that have waited longer than `wait_max_ns`, oldest first."""
        limit_ns = self.limits.wait_max_ns
        late: list[WaitingRequest] = []
        if limit_ns is not None:
            while self._waiting and now_ns - self._waiting[0].arrived_ns >= limit_ns:
                late.append(self.take())
        return late

    def head_wait_ms(self, now_ns: int) -> int:
        """How long the head has waited; 0 if the queue is empty (RocketMQ, headSlowTimeMills)."""
        return (now_ns - self._waiting[0].arrived_ns) // NS_PER_MS if self._waiting else 0
