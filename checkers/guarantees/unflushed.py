"""Computes which writes of a broker its disk may lack at a time under asynchronous flush.

A flush begins and ends at most `Timings.flush_s` after a write. While the node or its disk is slow, or its writes fail,
no flush is certain, and this time begins again afterwards.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator

from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.guarantees.fault_effects import DISK, STALLS, STOPS, WRITES_FAIL
from staticfire.checkers.guarantees.fault_times import FOREVER_NS, began_ns, by_target, healed_ns
from staticfire.checkers.model.intervals import Span

NS_PER_S = 1_000_000_000
IGNORED = "store.sync"  # policies.py: the broker ignores that an fsync failed
SAFE_COPIES = "services.copies.safe_end"  # policies.py: progress counts copies that are in memory
# A broker that starts again moves due messages once it has recovered its log.
STARTED_NS = 10 * NS_PER_S


def flushed_by_ns(facts: RunFacts, node: str, written_ns: int) -> int:
    """Return the time from which on `node` has on disk all data written by `written_ns`; FOREVER_NS: maybe never."""
    flush_ns = round(facts.timings.flush_s * NS_PER_S)
    by_ns = written_ns + flush_ns
    for span, effects in _troubles(facts, node, {STALLS, DISK, WRITES_FAIL}):
        if span.end_ns >= written_ns and span.start_ns <= by_ns:
            if WRITES_FAIL in effects and facts.behaves(IGNORED):
                return FOREVER_NS
            by_ns = max(by_ns, span.end_ns + flush_ns)
    return by_ns


def unflushed_since_ns(facts: RunFacts, node: str, at_ns: int) -> int:
    """Return the time of the earliest write that the disk of `node` may lack at `at_ns`."""
    times = range(max(at_ns, 0))
    return bisect_left(times, True, key=lambda at: flushed_by_ns(facts, node, at) >= at_ns)


def moved_by_ns(facts: RunFacts, node: str, kept_ns: int, delay_ns: int) -> int:
    """Return when `node` has made its last copy of a message that it stored at `kept_ns` and held back for `delay_ns`.

    A broker that records its progress only when the copies are on its disk makes lost copies again; then `kept_ns` is
    the time that counts.
    """
    if not facts.behaves(SAFE_COPIES):
        return kept_ns
    by_ns = kept_ns + delay_ns + NS_PER_S
    for span, _ in _troubles(facts, node, {STOPS, STALLS, DISK, WRITES_FAIL}):
        if span.end_ns >= kept_ns and span.start_ns <= by_ns:
            by_ns = max(by_ns, span.end_ns + STARTED_NS)
    return by_ns


def _troubles(
    facts: RunFacts, node: str, effects: Collection[str]
) -> Iterator[tuple[Span, Collection[str]]]:
    """Yield the times in which a fault that bit had one of `effects` on a node, sorted, with all its effects."""
    struck = [
        (Span(began_ns(one), healed_ns(one)), one.effects)
        for fault in facts.faults
        if fault.bitten_ns is not None
        for one in by_target(fault)
        if node in one.targets and not set(effects).isdisjoint(one.effects)
    ]
    yield from sorted(struck)
