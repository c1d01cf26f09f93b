"""One event in an explanation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Event:
    """An event. `where` is the node, or empty for the whole cluster."""

    time_ns: int
    where: str
    text: str
