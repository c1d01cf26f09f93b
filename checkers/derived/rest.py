"""Intervals in which servers and some clients are at rest: no fault of theirs is active, nor its aftermath.

A fault of other clients, or one that has only the effects `HARMLESS`, disturbs no rest.
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

# Servers serve and agree as before.
HARMLESS = frozenset({ADMIN, LISTENER, OFFSETS})
# After these, nodes may keep dead connections, or ages by a wrong clock, until a silent peer expires.
REMEMBERED = frozenset({CLOCK, CUTS, NETWORK, STALLS, SWALLOWS})
SECONDS_MIN, WITHIN_S = 10, 60  # seconds with such an event, and in how many


class Often(NamedTuple):
    """An event that happened in many seconds of a minute."""

    first: int  # its index
    seconds: int  # of the next WITHIN_S, with such an event


def spans_at_rest(context: Context, clients: Iterable[str | None]) -> list[Span]:
    """Return the time without a fault that was fired at a server or at one of these clients, or the aftermath of one.

    The aftermath is the time in which brokers register again and clients learn of it. After a fault that silences a
    client or broker it is the time in which that one is still remembered. A node that ended by itself counts like a
    fault that was over at once. If one of the clients is None, faults of all clients count.
    """
    wanted = frozenset(clients)
    key = "at rest", wanted
    if key not in context.cache:
        context.cache[key] = _spans_at_rest(context, wanted)
    found = context.cache[key]
    assert isinstance(found, list)
    return found


def often_at_rest(context: Context, client: str, begun_ns: Ints, ended_ns: Ints) -> Often | None:
    """Find the first of these events that begins a minute with SECONDS_MIN seconds with an event, all at rest.

    They are events of one client, sorted by their begin.
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
