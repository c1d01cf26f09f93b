"""When a run was at rest: which faults were active, as far as consumers could feel them."""

from __future__ import annotations

from collections.abc import Sequence

from checkers.facts import FaultFacts
from checkers.promises import FOREVER_NS, NS_PER_S

OFFSETS_RESET = "offsets_reset"
# How long after a fault an owner may still stumble: a rejected offset is corrected after 10 s.
SETTLED_AFTER_NS = 30 * NS_PER_S


def fault_active(faults: Sequence[FaultFacts], first_ns: int, last_ns: int) -> FaultFacts | None:
    """Return a fault that bit and was active at some time between the two."""
    active = (
        fault
        for fault in faults
        if fault.bitten_ns is not None and _start_ns(fault, fault.bitten_ns) <= last_ns
        if (FOREVER_NS if fault.healed_ns is None else fault.healed_ns) >= first_ns
    )
    return next(active, None)


def fault_near(faults: Sequence[FaultFacts], first_ns: int, last_ns: int) -> FaultFacts | None:
    """Like fault_active, and count a fault that healed shortly before."""
    return fault_active(faults, first_ns - SETTLED_AFTER_NS, last_ns)


def is_sent_back(faults: Sequence[FaultFacts], first_ns: int, last_ns: int) -> bool:
    """Whether an operator let groups begin again between the two: he may have, if nobody knows what came of it."""
    return any(
        fault.kind == OFFSETS_RESET
        and fault.fired_ns is not None
        and first_ns <= (FOREVER_NS if fault.healed_ns is None else fault.healed_ns)
        and fault.fired_ns <= last_ns
        for fault in faults
    )


def _start_ns(fault: FaultFacts, bitten_ns: int) -> int:
    return bitten_ns if fault.fired_ns is None else fault.fired_ns
