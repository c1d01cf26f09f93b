"""Detects that this process stood still, so that its own pause is not taken for the silence of all brokers.

A name server that was stopped (SIGSTOP, a paused machine, a starved CPU) wakes up with old timestamps and a queue of
connections that broke meanwhile. RocketMQ expires the brokers first and reads their registrations afterwards, and
answers TOPIC_NOT_EXIST in between. Here, a broker known before the pause gets one registration period to come back.
"""

from __future__ import annotations

PAUSE_NS = 1_000_000_000  # a gap between two looks that means a pause; the name server looks twice a second
# One registration period (30 s) and the 6 s that a round may hang on this very name server, with some margin.
GRACE_NS = 40_000_000_000


class PauseGuard:
    """Watches the gaps between calls. Times are from the monotonic clock."""

    __slots__ = ("_grace_until_ns", "_seen_ns")

    def __init__(self, now_ns: int) -> None:
        self._seen_ns = now_ns
        self._grace_until_ns = now_ns

    def note_time(self, now_ns: int) -> bool:
        """Note that the process runs, and return whether a pause is too recent to judge others."""
        if now_ns - self._seen_ns > PAUSE_NS:
            self._grace_until_ns = now_ns + GRACE_NS
        self._seen_ns = now_ns
        return now_ns < self._grace_until_ns


class NoGuard:
    """Judges others right after its own pause, as RocketMQ does."""

    __slots__ = ()

    def __init__(self, _now_ns: int) -> None:
        pass

    def note_time(self, _now_ns: int) -> bool:
        """A pause is never noticed."""
        return False
