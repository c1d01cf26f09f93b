"""Detects pauses of this process, so that it does not take its own pause for the silence of all brokers.

A name server that was stopped (SIGSTOP, a paused machine, a starved CPU) wakes up with old timestamps and a queue of
connections that broke meanwhile. RocketMQ expires the brokers first and reads their registrations afterwards, and
answers TOPIC_NOT_EXIST in between. Here, a broker known before the pause gets one registration period to come back.
"""

from __future__ import annotations

# a longer gap between two calls means a pause; the name server calls twice a second
PAUSE_NS = 1_000_000_000
# One registration period (30 s), the 6 s that a round may hang on this name server, and some margin.
GRACE_NS = 40_000_000_000


class PauseGuard:
    """Watches the gaps between calls of `note_time`. Times are from the monotonic clock."""

    __slots__ = ("_grace_until_ns", "_seen_ns")

    def __init__(self, now_ns: int) -> None:
        self._seen_ns = now_ns
        self._grace_until_ns = now_ns

    def note_time(self, now_ns: int) -> bool:
        """Record that the process runs; return whether a pause is too recent to take brokers for silent."""
        if now_ns - self._seen_ns > PAUSE_NS:
            self._grace_until_ns = now_ns + GRACE_NS
        self._seen_ns = now_ns
        return now_ns < self._grace_until_ns


class NoGuard:
    """Ignores pauses, as RocketMQ does."""

    __slots__ = ()

    def __init__(self, _now_ns: int) -> None:
        pass

    def note_time(self, _now_ns: int) -> bool:
        """Always False: no pause is detected."""
        return False
