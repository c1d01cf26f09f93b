"""Limits the rate at which a host sends: one queue in front of its wire, which drops nothing.

Segments of one connection delay those of the others, as behind a modem that buffers too much. The windows of the
connections hold the senders back. When the limit ends, the queued segments leave at once.
"""

from __future__ import annotations

from collections.abc import Callable

HEADER_BYTES = 66  # Ethernet, IP and TCP with timestamps
NS_PER_S = 1_000_000_000


class Shaper:
    """Limits all traffic that one host sends; `limited` counts the segments that had to wait for the wire."""

    __slots__ = ("_bits_per_s", "_free_at_ns", "_releases", "limited")

    def __init__(self) -> None:
        self.limited = 0
        self._bits_per_s = 0
        self._free_at_ns = 0
        self._releases: dict[Callable[[], None], None] = {}  # a set in the order of first use

    def limit(self, bits_per_s: int) -> None:
        """Set the rate; 0 ends the limit."""
        self._bits_per_s = bits_per_s
        self._free_at_ns = 0
        if not bits_per_s:
            for release in self._releases:
                release()
            self._releases.clear()

    def wait_ns(self, now_ns: int, size: int, release: Callable[[], None]) -> int:
        """Return how long a segment of this size takes to leave, including its time in the queue.

        The end of the limit calls `release`, which sends the queued segments of its connection.
        """
        if not self._bits_per_s:
            return 0
        self._releases[release] = None
        begin_ns = max(now_ns, self._free_at_ns)
        if begin_ns > now_ns:
            self.limited += 1
        self._free_at_ns = begin_ns + (size + HEADER_BYTES) * 8 * NS_PER_S // self._bits_per_s
        return self._free_at_ns - now_ns
