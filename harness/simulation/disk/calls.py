"""Tracks the syncs that executor jobs wait for, so that a fault can still change them while they are in flight.

An executor job runs at one instant and is charged for its disk calls, so its syncs end in the virtual future. Until
then a fault can fail or delay the syncs of a job that does nothing but sync, as a flush does. A job that also writes,
and the loop's own thread, are out of reach: their writes would have to be undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

CALLS_MAX = 32  # remembered jobs of a disk, before those that are over are forgotten


class Call(Protocol):
    """An executor job whose disk calls may still be in flight."""

    def put_off(self, by_ns: int) -> None:
        """Delay the next step of the job by this much; a negative value brings it forward."""

    def run_again(self, when_ns: int) -> None:
        """Discard the outcome of the job, and run it once more at `when_ns`."""


class SyncTarget(Protocol):
    """A file or a folder that can be synced."""

    def fail_sync(self, begin_ns: int, end_ns: int) -> None:
        """Make the sync with these times fail at its end."""

    def cancel_sync(self, begin_ns: int, end_ns: int) -> None:
        """Remove the sync with these times, as if it had not begun."""

    def move_sync(self, begin_ns: int, end_ns: int, new_begin_ns: int, new_end_ns: int) -> None:
        """Give the sync with these times new ones."""


@dataclass(slots=True)
class AwaitedSync:
    target: SyncTarget
    begin_ns: int
    end_ns: int


@dataclass(slots=True)
class _Awaited:
    """The syncs of one job, and whether the job has changed anything."""

    syncs: list[AwaitedSync] = field(default_factory=list)
    has_changed: bool = False

    def is_over(self, now_ns: int) -> bool:
        return not self.syncs or self.syncs[-1].end_ns <= now_ns


class CallsInFlight:
    """The jobs whose syncs may not have ended. `caller()` returns the job that runs now, or None."""

    def __init__(self, caller: Callable[[], Call | None]) -> None:
        self._caller = caller
        self._calls: dict[Call, _Awaited] = {}
        self._replays: dict[Call, list[bool]] = {}  # whether each of its next syncs fails
        self._loop_until_ns = 0  # when the last sync of the loop's own thread ends

    @property
    def has_replays(self) -> bool:
        return bool(self._replays)

    def forget(self) -> None:
        """Drop all jobs: their process has ended."""
        self._calls.clear()
        self._replays.clear()
        self._loop_until_ns = 0

    def can_be_held(self) -> bool:
        """Whether the running code is a job that has done nothing but sync so far."""
        call = self._caller()
        if call is None:
            return False
        awaited = self._calls.get(call)
        return awaited is None or not awaited.has_changed

    def changed(self) -> None:
        """Note that the running job, if there is one, has changed content, size or name of a file."""
        call = self._caller()
        if call is not None:
            self._awaited(call, 0).has_changed = True

    def synced(self, target: SyncTarget, begin_ns: int, end_ns: int, now_ns: int) -> None:
        """Note that the running job, or else the loop's own thread, syncs `target`."""
        call = self._caller()
        if call is None:
            self._loop_until_ns = max(self._loop_until_ns, end_ns)
        else:
            self._awaited(call, now_ns).syncs.append(AwaitedSync(target, begin_ns, end_ns))

    def _awaited(self, call: Call, now_ns: int) -> _Awaited:
        awaited = self._calls.get(call)
        if awaited is None:
            if len(self._calls) >= CALLS_MAX:
                self._forget_what_is_over(now_ns)
            awaited = self._calls[call] = _Awaited()
        return awaited

    def _forget_what_is_over(self, now_ns: int) -> None:
        self._calls = {
            call: kept
            for call, kept in self._calls.items()
            if call in self._replays or not kept.is_over(now_ns)
        }

    def fail(self, count: int, now_ns: int) -> int:
        """Fail the sync in flight of up to `count` jobs, earliest end first; return the number of jobs."""
        waiting = [
            (sync.end_ns, call, number)
            for call, awaited in self._reachable()
            if call not in self._replays
            for number, sync in enumerate(awaited.syncs)
            if sync.begin_ns <= now_ns < sync.end_ns
        ]
        waiting.sort(key=lambda entry: entry[0])
        for end_ns, call, number in waiting[:count]:
            syncs = self._calls[call].syncs
            failing = syncs[number]
            failing.target.fail_sync(failing.begin_ns, failing.end_ns)
            for sync in syncs[number + 1 :]:
                sync.target.cancel_sync(sync.begin_ns, sync.end_ns)
            del syncs[number + 1 :]
            self._replays[call] = [*[False] * number, True]
            call.run_again(end_ns)
        return min(count, len(waiting))

    def replay(self) -> bool | None:
        """Whether `fail` has decided that the sync of the running job fails; None without a decision."""
        call = self._caller()
        decided = self._replays.get(call) if call is not None else None
        if call is None or decided is None:
            return None
        fails = decided.pop(0)
        if not decided:
            del self._replays[call]
        return fails

    def stretch(self, ratio: float, now_ns: int) -> int:
        """Multiply the remaining time of each sync by `ratio`; return the longest time that this adds to a job."""
        longest_ns = 0
        for call, awaited in self._reachable():
            if awaited.is_over(now_ns):
                continue
            before_ns = awaited.syncs[-1].end_ns
            for sync in awaited.syncs:
                begin_ns = stretched(sync.begin_ns, ratio, now_ns)
                end_ns = stretched(sync.end_ns, ratio, now_ns)
                sync.target.move_sync(sync.begin_ns, sync.end_ns, begin_ns, end_ns)
                sync.begin_ns, sync.end_ns = begin_ns, end_ns
            added_ns = awaited.syncs[-1].end_ns - before_ns
            call.put_off(added_ns)
            longest_ns = max(longest_ns, added_ns)
        return longest_ns

    def out_of_reach_until_ns(self) -> int:
        """Return when the last sync ends that no fault can change any more, in ns; 0 or a time that is over: none."""
        jobs = (awaited for awaited in self._calls.values() if awaited.has_changed)
        ends_ns = (awaited.syncs[-1].end_ns for awaited in jobs if awaited.syncs)
        return max(self._loop_until_ns, *ends_ns, 0)

    def _reachable(self) -> Iterator[tuple[Call, _Awaited]]:
        for call, awaited in self._calls.items():
            if not awaited.has_changed:
                yield call, awaited


def stretched(time_ns: int, ratio: float, now_ns: int) -> int:
    """Return the due time of a call that was due at `time_ns`, with its remaining time multiplied by `ratio`."""
    return time_ns if time_ns <= now_ns else now_ns + int((time_ns - now_ns) * ratio)
