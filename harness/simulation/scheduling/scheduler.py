"""The virtual clock and its events, ordered by time and then by creation.

There are two heaps. Timers are many, due far ahead, and most are cancelled. The next events are a few turns and
segments, which cost little in a heap of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

from staticfire.harness.simulation.disk.calls import Call
from staticfire.harness.simulation.disk.device import PowerCut

Event = tuple[int, int, Callable[[Any], object], Any]

# With fewer cancelled timers than this their heap is not rebuilt (asyncio: _MIN_SCHEDULED_TIMER_HANDLES).
CANCELLED_MIN = 256


class SimulationError(Exception):
    """The simulated world cannot continue; the system under test is not at fault."""


class Scheduler:
    """Virtual time in integer nanoseconds, starting at 0, and the events that are due at each time.

    `debt_ns` is time that the callback or executor job that runs right now has already spent in blocking calls:
    for its own process the time is `now_ns + debt_ns`, while the rest of the world stands at `now_ns`. `job` is the
    executor job that runs right now.
    """

    __slots__ = (
        "cancelled",
        "debt_ns",
        "heap",
        "is_closed",
        "job",
        "next_sequence",
        "now_ns",
        "stopped",
        "timers",
    )

    def __init__(self) -> None:
        self.now_ns = 0
        self.debt_ns = 0
        self.job: Call | None = None
        self.stopped = False
        self.is_closed = False
        self.cancelled = 0
        self.heap: list[Event] = []
        self.timers: list[Event] = []
        self.next_sequence = count().__next__

    def at(self, when_ns: int, action: Callable[[Any], object], argument: object = None) -> None:
        """Call `action(argument)` at `when_ns`, which is not in the past."""
        heappush(self.heap, (when_ns, self.next_sequence(), action, argument))

    def later(self, when_ns: int, action: Callable[[Any], object], argument: object = None) -> None:
        """Do the same as `at` for events that wait long or are mostly cancelled: timers and retries."""
        heappush(self.timers, (when_ns, self.next_sequence(), action, argument))

    def hasten(self, is_meant: Callable[[Event], bool], when_ns: int) -> None:
        """Move the matching events that are due later to `when_ns`, in the order of their creation."""
        self.heap[:] = [
            (when_ns, *event[1:]) if event[0] > when_ns and is_meant(event) else event
            for event in self.heap
        ]
        heapify(self.heap)

    def local_ns(self) -> int:
        """Return the time as the running callback sees it."""
        return self.now_ns + self.debt_ns

    def charge(self, cost_ns: int) -> None:
        """Charge the running callback or job for `cost_ns` spent in a blocking call."""
        if self.is_closed:
            raise PowerCut  # a `finally` block runs after the end of the world
        self.debt_ns += cost_ns

    def close(self) -> None:
        """End the world: drop all events; from now on disk calls raise PowerCut."""
        self.is_closed = True
        self.heap.clear()
        self.timers.clear()

    def run(self, event_limit: int) -> None:
        """Run events in order until `stopped`. Raises SimulationError when none is left, or after `event_limit`."""
        heap, timers, pop = self.heap, self.timers, heappop
        self.stopped = False
        for _ in range(event_limit):
            if self.stopped:
                return
            if heap and not (timers and timers[0] < heap[0]):
                self.now_ns, _, action, argument = pop(heap)
            elif timers:
                self.now_ns, _, action, argument = pop(timers)
            else:
                raise SimulationError(
                    f"no event left at {self.now_ns} ns: every process waits for ever"
                )
            action(argument)
        if not self.stopped:
            raise SimulationError(
                f"event_limit of {event_limit} events reached at {self.now_ns} ns"
            )

    def fail(self, error: BaseException) -> None:
        """Make `run` raise `error` before any other event."""
        heappush(self.heap, (self.now_ns, -1 - self.next_sequence(), _raise, error))

    def forget_cancelled(self, is_cancelled: Callable[[Event], bool]) -> None:
        """Count one more cancelled timer; drop all of them once they are more than half of their heap."""
        self.cancelled += 1
        if self.cancelled > CANCELLED_MIN and self.cancelled * 2 > len(self.timers):
            self.timers[:] = [event for event in self.timers if not is_cancelled(event)]
            heapify(self.timers)
            self.cancelled = 0


def _raise(error: BaseException) -> None:
    raise error
