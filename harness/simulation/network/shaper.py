"""Limits what a host can send: one queue in front of its wire, deep enough that nothing is dropped.

What one connection has sent delays the others, as behind a modem that buffers too much. The senders are held back by
the windows of their connections.
"""

from __future__ import annotations

HEADER_BYTES = 66  # Ethernet, IP and TCP with timestamps
NS_PER_S = 1_000_000_000


class Shaper:
    """Of everything that one host sends to others; `limited` counts the segments that found the wire in use."""

    __slots__ = ("_bits_per_s", "_free_at_ns", "limited")

    def __init__(self) -> None:
        self.limited = 0
        self._bits_per_s = 0
        self._free_at_ns = 0

    def limit(self, bits_per_s: int) -> None:
        """Let out no more than this; 0: as much as there is."""
        self._bits_per_s = bits_per_s
        self._free_at_ns = 0

    def wait_ns(self, now_ns: int, size: int) -> int:
        """How long a segment with so many bytes takes to get out, its time in the queue included."""
        if not self._bits_per_s:
            return 0
        begin_ns = max(now_ns, self._free_at_ns)
        if begin_ns > now_ns:
            self.limited += 1
        self._free_at_ns = begin_ns + (size + HEADER_BYTES) * 8 * NS_PER_S // self._bits_per_s
        return self._free_at_ns - now_ns
