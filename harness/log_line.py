"""One line of a node's structured log, as the harness keeps it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a node's log. `fields` are plain data; the time is by the run's clock."""

    time_ns: int
    level: str
    event: str
    fields: dict[str, object]
