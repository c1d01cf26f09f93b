"""Rounds of checks: when a broker asks about an open transaction, and what may keep it from that.

In each round a broker walks over its halves, asks a producer about each that is old enough, and puts it back at the end
of the queue. The walk ends at the first half that is too young. Those before a half that was put back are older than
its copy. So it is checked again in the first round in which the copy is as old as a half must be.

A check does not come, or does not arrive, while the broker cannot write, has lost its producers, or asks one that
cannot be reached.

Cannot see: which producer a broker asks. So a fault of any of them may have swallowed a check.

Source: TransactionalMessageServiceImpl.check of Apache RocketMQ 4.9.
"""

from __future__ import annotations

from itertools import chain
from math import ceil
from typing import NamedTuple

from staticfire.checkers.derived.wall_clocks import stepped_ns
from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.promises import NS_PER_S
from staticfire.checkers.model.intervals import Span, joined, shared, without

# In the table of excuses.
ASKED_AGAIN = "asked_again"
ON_ITS_WAY = "answer_on_its_way"
LATE = "check_on_its_way"
NO_PRODUCERS = "producers_unknown"


def asked_again_within_ns(context: Context) -> int:
    """From one check of a half until a producer has the next one, with nothing in the way; 0: not known."""
    facts = context.facts
    if not facts.check_every_s:
        return 0
    rounds = max(ceil(facts.check_after_s / facts.check_every_s), 1)
    return round((rounds * facts.check_every_s + facts.timings.request_s) * NS_PER_S)


def lost_spans(context: Context, broker: str) -> list[Span]:
    """When a check of the broker may get lost on its way, or be late."""
    excuses, producers = context.excuses, context.facts.producers
    ways = excuses.spans(ASKED_AGAIN, broker), excuses.spans(ON_ITS_WAY, broker, producers)
    return joined(chain.from_iterable(ways))


def silent_spans(context: Context, broker: str) -> list[Span]:
    """When the broker may not ask, or a check may get lost."""
    known = context.cache.setdefault("silent brokers", {})
    assert isinstance(known, dict)
    if broker not in known:
        unknown = context.excuses.spans(NO_PRODUCERS, broker, context.facts.producers)
        known[broker] = joined([*lost_spans(context, broker), *unknown])
    found: list[Span] = known[broker]
    return found


def free_spans(context: Context, broker: str, since_ns: int, until_ns: int) -> list[Span]:
    """The time in which nothing keeps the broker from its checks; none after a clock by which it takes ages was wrong.

    That is its own; in faithful mode it is also that of the producer.
    """
    facts, wrong = context.facts, stepped_ns(context)
    clocks = *facts.replica_sets.get(broker, ()), *(facts.producers * (facts.mode == "faithful"))
    right_ns = min((wrong[node] for node in clocks if node in wrong), default=until_ns)
    return without([Span(since_ns, min(right_ns, until_ns))], silent_spans(context, broker))


def has_stopped_asking(context: Context, broker: str, since_ns: int, until_ns: int) -> bool:
    """Whether a half that the broker had put back, and that was not checked in this time, was no longer open."""
    within_ns = asked_again_within_ns(context)
    spans = free_spans(context, broker, since_ns, until_ns) if within_ns else ()
    return any(span.length_ns > within_ns for span in spans)


class Open(NamedTuple):
    """A half that is open, and that no broker checked in `span`."""

    stored_ns: int
    span: Span
    wait_ns: int  # until it is checked, with nothing in the way
    checks: int  # before that time


def must_be_asked(context: Context, broker: str, half: Open) -> bool:
    """Whether nothing kept a hardened broker from its check of a half for long enough, and it had one left.

    It counts the checks that it has sent, so those that were lost count. It sends none while it knows no producer.
    """
    facts = context.facts
    for free in free_spans(context, broker, *half.span):
        lost = shared([Span(half.stored_ns, free.start_ns)], lost_spans(context, broker))
        lost_ns = sum(span.length_ns + facts.check_every_s * NS_PER_S for span in lost)
        checks = half.checks + ceil(lost_ns / (facts.check_every_s * NS_PER_S))
        if checks < facts.check_max and free.length_ns > half.wait_ns:
            return True
    return False
