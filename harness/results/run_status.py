"""The status of a run in progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """The state of a run at one moment."""

    phase: str
    at_s: float  # of the run's clock
    acknowledged: int  # sends
    consumed: int  # deliveries that listeners took
    faults: tuple[str, ...]  # kinds of fault that are on
    nodes: Mapping[str, str]  # node -> its state, as one word


Progress = Callable[[RunStatus], None]


def no_progress(_status: RunStatus) -> None:
    """A progress callback that does nothing."""
