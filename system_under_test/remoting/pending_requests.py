"""Requests that wait for their answer, all of them behind one timer (RocketMQ: ResponseFuture, scanResponseTable).

A timer per request would be the larger part of the work of a short call. One timer that stands at the earliest
deadline moves about once a timeout, however many requests come and go in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting.errors import RemotingError

SWEEP_INTERVAL_S = 0.05  # deadlines closer together than this share one sweep

TimedOut = Callable[["PendingRequest"], RemotingError]


class PendingRequest:
    """A request that waits for its answer. `closes`: end the connection if none comes in time."""

    __slots__ = ("closes", "code", "deadline_s", "future", "timeout_s")

    def __init__(
        self,
        *,
        code: int,
        timeout_s: float,
        deadline_s: float,
        future: asyncio.Future[RemotingCommand],
        closes: bool,
    ) -> None:
        self.code = code
        self.timeout_s = timeout_s
        self.deadline_s = deadline_s
        self.future = future
        self.closes = closes

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)
            # A caller that asked two nodes and took the first answer does not look at the other future any more.
            self.future.exception()


class PendingRequests:
    """Requests by opaque.

    `timed_out` makes the error of a late request. It may close the connection, so it is called when this object's state
    is consistent.
    """

    __slots__ = ("_loop", "_requests", "_sweep_at_s", "_timed_out", "_timer", "answered")

    def __init__(self, loop: asyncio.AbstractEventLoop, timed_out: TimedOut) -> None:
        self._loop = loop
        self._timed_out: TimedOut | None = timed_out
        self._requests: dict[int, PendingRequest] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._sweep_at_s = 0.0
        self.answered = 0  # the highest opaque of a request that got its answer

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, opaque: int, request: PendingRequest) -> None:
        """Wait for the answer to `opaque` until the request's deadline (seconds of the loop's clock)."""
        self._requests[opaque] = request
        if self._timer is None or request.deadline_s < self._sweep_at_s:
            self._sweep_at(request.deadline_s)

    def answer(self, response: RemotingCommand) -> None:
        """Complete the request that this response answers; a response to no pending request is dropped."""
        request = self._requests.pop(response.opaque, None)
        if request is None:
            return
        if response.opaque > self.answered:
            self.answered = response.opaque
        if not request.future.done():
            request.future.set_result(response)

    def discard(self, opaque: int) -> None:
        """Forget a request that was not sent after all."""
        self._requests.pop(opaque, None)

    def take_all(self) -> list[PendingRequest]:
        """End: remove and return the requests that still wait, oldest first. No request may be added any more."""
        # it refers to the owner of this object: a cycle would keep both alive
        self._timed_out = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        requests = [request for request in self._requests.values() if not request.future.done()]
        self._requests.clear()
        return requests

    def fail_all(self, error_type: type[RemotingError], text: str) -> None:
        """End: every request that still waits fails."""
        for request in self.take_all():
            request.fail(error_type(text))

    def _sweep_at(self, when_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._sweep_at_s = when_s
        self._timer = self._loop.call_at(when_s, self._sweep)

    def _sweep(self) -> None:
        self._timer = None
        # A loop may fire a timer up to its clock's resolution early, so the time of the sweep itself counts as reached.
        now_s = max(self._loop.time(), self._sweep_at_s)
        late = [key for key, request in self._requests.items() if request.deadline_s <= now_s]
        requests = [self._requests.pop(opaque) for opaque in late]
        if self._requests:
            earliest_s = min(request.deadline_s for request in self._requests.values())
            self._sweep_at(max(earliest_s, now_s + SWEEP_INTERVAL_S))
        timed_out = self._timed_out  # it may close the connection, which ends these requests
        for request in requests:
            # A request that its caller gave up must not end the connection.
            if timed_out is not None and not request.future.done():
                request.fail(timed_out(request))
