"""One event of a story."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Event:
    """One event. `where` is the node; it is empty for the whole cluster."""

    time_ns: int
    where: str
    text: str
