"""Parses points in time in mqadmin's forms."""

from __future__ import annotations

import re
import time
from datetime import datetime

from staticfire.harness.cli.status import BadInput

LATEST_MS = (1 << 63) - 1
FORMATS = ("%Y-%m-%d#%H:%M:%S:%f", "%Y-%m-%d#%H:%M:%S", "%Y-%m-%d")


def parse_time_ms(text: str) -> int:
    """Return milliseconds since 1970, of a number, `now`, `currentTimeMillis`, or local time `2026-01-31#23:59:00:000`.

    Raises BadInput.
    """
    if text in ("now", "currentTimeMillis"):
        return time.time_ns() // 1_000_000
    if re.fullmatch(r"-1|[0-9]{1,18}", text):
        return int(text)
    for form in FORMATS:
        try:
            return int(datetime.strptime(text, form).astimezone().timestamp() * 1000)
        except (ValueError, OverflowError, OSError):
            continue
    raise BadInput(
        f"time is {text!r}; allowed: milliseconds since 1970, now, or yyyy-MM-dd#HH:mm:ss:SSS"
    )


def parse_span_ms(begin: str | None, end: str | None) -> tuple[int, int]:
    """Return begin and end in milliseconds; all time if they are not given. Raises BadInput."""
    begin_ms = 0 if begin is None else max(parse_time_ms(begin), 0)
    end_ms = LATEST_MS if end is None else parse_time_ms(end)
    if end_ms < begin_ms:
        raise BadInput(f"the end {end!r} is before the begin {begin!r}; allowed: a later end")
    return begin_ms, end_ms
