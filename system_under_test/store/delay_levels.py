"""Computes when delayed messages are due (RocketMQ, ScheduleMessageService.parseDelayLevel, computeDeliverTimestamp).

A message of level n waits in queue n - 1 of SCHEDULE_TOPIC_XXXX. Its queue entry holds its due time instead of the tags
code. Appending, replication and recovery all compute it with `due_time_ms`, so that they agree.
"""

from __future__ import annotations

import re

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LEVEL = re.compile(r"([0-9]{1,9})([smhd])")


class DelayLevels(tuple[int, ...]):
    """The delay of each level, in milliseconds; `text` is the option's original text."""

    text: str


def parse_delay_levels(text: str) -> DelayLevels:
    """Parse levels such as `1s 5s 10s 1m 2h`. Raises ValueError, with a text that says what is allowed."""
    levels = []
    for part in text.split():
        match = _LEVEL.fullmatch(part)
        if match is None or not int(match[1]):
            raise ValueError(
                f"{part!r} is no delay; a number above 0 and one of s, m, h, d is allowed"
            )
        levels.append(int(match[1]) * _UNITS_MS[match[2]])
    if not levels:
        raise ValueError("at least one delay is needed, as in 1s 5s 10s")
    parsed = DelayLevels(levels)
    parsed.text = text
    return parsed


# RocketMQ, MessageStoreConfig.messageDelayLevel
DELAY_LEVELS_MS = parse_delay_levels("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")


def due_time_ms(
    level: str | bytes, store_timestamp_ms: int, levels_ms: tuple[int, ...]
) -> int | None:
    """When a message with this DELAY property is due, in ms since 1970; None if it is not delayed."""
    if not (level.isascii() and level.isdigit() and int(level)):
        return None
    return store_timestamp_ms + levels_ms[min(int(level), len(levels_ms)) - 1]
