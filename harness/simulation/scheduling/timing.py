"""Durations in the simulated world, in nanoseconds, drawn by the seed within these bounds.

The figures are of the right order for Linux on a small server; none is calibrated. Tests need only that they vary with
the seed and that no two nodes run in lockstep.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Bounds of the seeded costs. In the harness's own process all costs are zero (`FREE`)."""

    iteration_min_ns: int = 4_000  # one turn of an event loop: select, timers, callbacks
    iteration_spread_ns: int = 36_000
    handle_ns: int = 2_000  # each callback of the turn
    wake_min_ns: int = 1_000  # from "something is ready" to the first callback
    wake_spread_ns: int = 30_000
    timer_late_ns: int = 1_000_000  # a timer is late by r**4 of this
    executor_min_ns: int = 5_000  # from run_in_executor to the thread's first instruction, and back
    executor_spread_ns: int = 60_000
    start_min_ns: int = 1_000_000  # from exec to the first line of main
    start_spread_ns: int = 20_000_000


FREE = Timing(
    iteration_min_ns=0,
    iteration_spread_ns=0,
    handle_ns=0,
    wake_min_ns=0,
    wake_spread_ns=0,
    timer_late_ns=0,
    executor_min_ns=0,
    executor_spread_ns=0,
    start_min_ns=0,
    start_spread_ns=0,
)
