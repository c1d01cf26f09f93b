"""The ids that a producer gives its messages (RocketMQ: MessageClientIDSetter)."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

_PROCESS = struct.Struct(">HI")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_CLOCK_STEP_MAX_MS = 1_000_000
_INT32_MASK = 0xFFFFFFFF
_INT16_MASK = 0xFFFF


class UniqueIdGenerator:
    """Makes ids (property UNIQ_KEY) that no other process makes, without asking a server.

    An id is 32 or 56 hex characters: address, low 16 bits of the process id, 32 random bits of the process,
    milliseconds since the month began (UTC), a 16-bit counter.
    """

    __slots__ = ("_counter", "_month_end_ms", "_month_start_ms", "_prefix")

    def __init__(self, ip: str, pid: int, instance: int) -> None:
        process = _PROCESS.pack(pid & _INT16_MASK, instance & _INT32_MASK)
        self._prefix = (ip_address(ip).packed + process).hex().upper()
        self._counter = 0
        self._month_start_ms = 0
        self._month_end_ms = 0

    def next(self, now_ms: int) -> str:
        """The next id; `now_ms` is wall-clock time in ms since 1970."""
        if now_ms >= self._month_end_ms:
            self._month_start_ms, self._month_end_ms = month_of(now_ms)
        elapsed_ms = now_ms - self._month_start_ms
        if -_CLOCK_STEP_MAX_MS < elapsed_ms < 0:
            elapsed_ms = 0  # the clock was set back across the start of the month
        counter = self._counter
        self._counter = (counter + 1) & _INT16_MASK
        return f"{self._prefix}{elapsed_ms & _INT32_MASK:08X}{counter:04X}"


def month_of(now_ms: int) -> tuple[int, int]:
    """Start of the month that holds `now_ms`, and of the next one, in ms since 1970 (UTC)."""
    now = _EPOCH + timedelta(milliseconds=now_ms)
    start = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    end = (start + timedelta(days=31)).replace(day=1)
    return (start - _EPOCH) // _MILLISECOND, (end - _EPOCH) // _MILLISECOND
