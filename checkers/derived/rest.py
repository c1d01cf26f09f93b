"""Intervals in which servers and some clients are at rest: no fault affects them, nor the aftermath of one.

Faults of other clients do not count, nor faults with only the effects in `HARMLESS`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.facts import FaultFacts, Timings
from staticfire.checkers.guarantees.fault_effects import (
    ADMIN,
    CLOCK,
    CUTS,
    LISTENER,
    NETWORK,
    OFFSETS,
    STALLS,
    SWALLOWS,
)
from staticfire.checkers.guarantees.fault_times import began_ns, healed_ns
from staticfire.checkers.guarantees.promises import FOREVER_NS, NS_PER_S
from staticfire.checkers.model.columns import Ints
from staticfire.checkers.model.intervals import Span, joined, without

# Effects that do not change how servers serve and agree.
HARMLESS = frozenset({ADMIN, LISTENER, OFFSETS})
# Effects after which nodes may keep dead connections, or wrong ages, until a silent peer expires.
REMEMBERED = frozenset({CLOCK, CUTS, NETWORK, STALLS, SWALLOWS})
SECONDS_MIN, WITHIN_S = 10, 60  # least number of seconds with an event within this many seconds


class Often(NamedTuple):
    """An event that happened in many seconds of a minute."""

    first: int  # index of the event that begins the minute
    seconds: int  # number of seconds of the minute (WITHIN_S) with such an event


def spans_at_rest(context: Context, clients: Iterable[str | None]) -> list[Span]:
    """Return the times without a fault of a server or of one of these clients, and without the aftermath of one.

    The aftermath is the time in which brokers register again and clients learn of that. After a fault with effects in
    `REMEMBERED` it lasts at least until a silent peer expires. A node that ended by itself counts like a fault that was
    over at once. If one of the clients is None, faults of all clients count.
    """
    wanted = frozenset(clients)
    key = "at rest", wanted
    if key not in context.cache:
        context.cache[key] = _spans_at_rest(context, wanted)
    found = context.cache[key]
    assert isinstance(found, list)
    return found


def often_at_rest(context: Context, client: str, begun_ns: Ints, ended_ns: Ints) -> Often | None:
    """Find the first event that begins a minute in which at least SECONDS_MIN seconds have an event, all at rest.

    Args:
        context: of the run.
        client: the node of all events.
        begun_ns: begin of each event, shape (events,), sorted.
        ended_ns: end of each event, shape (events,).
    """
    if len(begun_ns) < SECONDS_MIN:
        return None
    for rest in spans_at_rest(context, (client,)):
        inside = np.flatnonzero((begun_ns >= rest.start_ns) & (ended_ns <= rest.end_ns))
        at_s, first = np.unique(begun_ns[inside] // NS_PER_S, return_index=True)
        together = np.flatnonzero(at_s[SECONDS_MIN - 1 :] - at_s[: 1 - SECONDS_MIN] < WITHIN_S)
        if len(together):
            since = int(together[0])
            count = int(np.searchsorted(at_s, at_s[since] + WITHIN_S)) - since
            return Often(int(inside[first[since]]), count)
    return None


def _spans_at_rest(context: Context, clients: frozenset[str | None]) -> list[Span]:
    facts, timings = context.facts, context.facts.timings
    others = frozenset({*facts.producers, *facts.consumers, *facts.forwarders} - clients)
    others = frozenset() if None in clients else others
    near = [
        Span(began_ns(fault), min(healed_ns(fault) + _aftermath_ns(fault, timings), FOREVER_NS))
        for fault in facts.faults
        if fault.fired_ns is not None or fault.bitten_ns is not None
        if not set(fault.effects) <= HARMLESS
        if not fault.targets or not others.issuperset(fault.targets)
    ]
    near += [
        Span(one.time_ns, one.time_ns + _registered_ns(timings))
        for one in facts.exits
        if one.node not in others
    ]
    return without([Span(0, FOREVER_NS)], joined(near))


def _aftermath_ns(fault: FaultFacts, timings: Timings) -> int:
    if REMEMBERED.isdisjoint(fault.effects):
        return _registered_ns(timings)
    return max(_registered_ns(timings), int(timings.channel_expiry_s * NS_PER_S))


def _registered_ns(timings: Timings) -> int:
    return int((timings.register_s + timings.route_refresh_s) * NS_PER_S)
