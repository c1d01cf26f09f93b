"""Intervals in which a cluster is at rest: no fault is active, and effects of earlier ones are over."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.fault_times import began_ns, healed_ns
from staticfire.checkers.guarantees.promises import FOREVER_NS, NS_PER_S
from staticfire.checkers.model.columns import Ints
from staticfire.checkers.model.intervals import Span, joined, without

SECONDS_MIN, WITHIN_S = 10, 60  # seconds with such an event, and in how many


class Often(NamedTuple):
    """An event that happened in many seconds of a minute."""

    first: int  # its index
    seconds: int  # of the next WITHIN_S, with such an event


def spans_at_rest(context: Context) -> list[Span]:
    """Return the time without any fault that was fired, whatever its targets, and without the aftermath of one.

    The aftermath is the time in which brokers register again and clients learn of it, and in which a silent client or
    broker is still remembered. A node that ended by itself counts like a fault that was over at once.
    """
    if "at rest" not in context.cache:
        context.cache["at rest"] = _spans_at_rest(context)
    found = context.cache["at rest"]
    assert isinstance(found, list)
    return found


def often_at_rest(context: Context, begun_ns: Ints, ended_ns: Ints) -> Often | None:
    """Find the first of these events that begins a minute with SECONDS_MIN seconds with an event, all at rest.

    Events are sorted by their begin.
    """
    if len(begun_ns) < SECONDS_MIN:
        return None
    for rest in spans_at_rest(context):
        inside = np.flatnonzero((begun_ns >= rest.start_ns) & (ended_ns <= rest.end_ns))
        at_s, first = np.unique(begun_ns[inside] // NS_PER_S, return_index=True)
        together = np.flatnonzero(at_s[SECONDS_MIN - 1 :] - at_s[: 1 - SECONDS_MIN] < WITHIN_S)
        if len(together):
            since = int(together[0])
            count = int(np.searchsorted(at_s, at_s[since] + WITHIN_S)) - since
            return Often(int(inside[first[since]]), count)
    return None


def _spans_at_rest(context: Context) -> list[Span]:
    facts, timings = context.facts, context.facts.timings
    after_s = max(timings.register_s + timings.route_refresh_s, timings.channel_expiry_s)
    after_ns = int(after_s * NS_PER_S)
    near = [
        Span(began_ns(fault), min(healed_ns(fault) + after_ns, FOREVER_NS))
        for fault in facts.faults
        if fault.fired_ns is not None or fault.bitten_ns is not None
    ]
    near += [Span(one.time_ns, one.time_ns + after_ns) for one in facts.exits]
    return without([Span(0, FOREVER_NS)], joined(near))
