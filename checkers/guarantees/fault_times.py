"""The times of a fault, overall and by target, and the links that it cut."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from staticfire.checkers.guarantees.facts import FaultFacts

NS_PER_S = 1_000_000_000
FOREVER_NS = 1 << 62


def by_target(fault: FaultFacts) -> Iterator[FaultFacts]:
    """Yield a fault for each target if the fault affected its targets at different times, else the fault itself."""
    if not fault.struck:
        yield fault
    for one in fault.struck:
        yield replace(
            fault,
            targets=(one.node,),
            fired_ns=one.start_ns,
            bitten_ns=None if fault.bitten_ns is None else one.start_ns,
            healed_ns=fault.healed_ns if one.end_ns is None else one.end_ns,
            affects=fault.affects if one.affects is None else one.affects,
        )


def began_ns(fault: FaultFacts) -> int:
    """Return when a fault began; it must have been fired or have bitten."""
    at_ns = start_ns(fault)
    assert at_ns is not None
    return at_ns


def start_ns(fault: FaultFacts) -> int | None:
    """Return when a fault was fired, or when it bit if the firing was not recorded; None if neither was."""
    return fault.bitten_ns if fault.fired_ns is None else fault.fired_ns


def healed_ns(fault: FaultFacts) -> int:
    """Return when a fault ended; FOREVER_NS if it never did."""
    return FOREVER_NS if fault.healed_ns is None else fault.healed_ns


def cuts_between(fault: FaultFacts, near: frozenset[str], far: frozenset[str]) -> bool:
    """Whether a partition cut a link between a node in `near` and one in `far`; True if it has no recorded links."""
    return not fault.links or any(_joins(link, near, far) for link in fault.links)


def _joins(link: tuple[str, str], near: frozenset[str], far: frozenset[str]) -> bool:
    one, other = link
    return (one in near and other in far) or (one in far and other in near)
