"""Rounds of checks: when a broker asks about an open transaction, and what may keep it from asking.

In each round a broker walks over its open halves. It asks a producer about each half that is old enough, and appends a
copy of that half to the end of the queue. The walk ends at the first half that is too young. All halves in front of a
copy are older than the copy. So the broker checks a half again in the first round in which the copy is old enough.

The broker sends no check, or its check does not arrive, while it cannot write, has lost all its producers, or asks a
producer that it cannot reach. A producer that ends closes its connection, so the broker asks the others.

Cannot see: which producer a broker asks. So a fault of any producer may have swallowed a check.

Source: TransactionalMessageServiceImpl.check of Apache RocketMQ 4.9.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import chain
from math import ceil
from typing import NamedTuple

from staticfire.checkers.derived.rebalances import starts_ns, stops_ns
from staticfire.checkers.derived.wall_clocks import stepped_ns
from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.excuses.excuse import Since
from staticfire.checkers.guarantees.excuses.seconds import replicates_again
from staticfire.checkers.guarantees.promises import NS_PER_S
from staticfire.checkers.model.intervals import Span, joined, shared, without

# Rows of the table of excuses.
ASKED_AGAIN = "asked_again"
ON_ITS_WAY = "answer_on_its_way"
LATE = "check_on_its_way"
SWALLOWED = "check_swallowed"
NO_PRODUCERS = "producers_unknown"
DAMAGED = "half_damaged"


def asked_again_within_ns(context: Context) -> int:
    """Return the longest unhindered time from one check of a half to the next check; 0 if it is not known."""
    facts = context.facts
    if not facts.check_every_s:
        return 0
    rounds = max(ceil(facts.check_after_s / facts.check_every_s), 1)
    return round((rounds * facts.check_every_s + facts.timings.request_s) * NS_PER_S)


def lost_spans(context: Context, broker: str) -> list[Span]:
    """Return when a check of the broker may get lost on its way, or be late."""
    excuses, producers = context.excuses, context.facts.producers
    ways = excuses.spans(ASKED_AGAIN, broker), excuses.spans(ON_ITS_WAY, broker, producers)
    return joined(chain.from_iterable(ways))


def silent_spans(context: Context, broker: str) -> list[Span]:
    """Return when the broker may not ask, or a check may get lost."""
    known = context.cache.setdefault("silent brokers", {})
    assert isinstance(known, dict)
    if broker not in known:
        producers = context.facts.producers
        swallowed = context.excuses.spans(SWALLOWED, broker, producers)
        unknown = [list(_unknown_spans(context, broker, one)) for one in producers or (None,)]
        no_producer = reduce(shared, map(joined, unknown))
        damaged = _damaged_spans(context, broker)
        known[broker] = joined([*lost_spans(context, broker), *swallowed, *no_producer, *damaged])
    found: list[Span] = known[broker]
    return found


def _damaged_spans(context: Context, broker: str) -> Iterator[Span]:
    """Yield when rounds may end at a damaged half, from the fault on.

    A half is read within a round after it is due, and then repaired, unless a fault keeps the replicas from that.
    Records of the broker itself have no key: no round ends at one of these.
    """
    facts = context.facts
    repaired_ns = round(replicates_again(facts.timings) * NS_PER_S)
    read_ns = round((facts.check_after_s + facts.check_every_s) * NS_PER_S)
    for window in context.excuses.windows(DAMAGED, broker):
        records = window.fault.records
        if records and not any(record.key for record in records):
            continue
        end_ns = window.start_ns + read_ns + repaired_ns
        for hindered in context.excuses.spans(ASKED_AGAIN, broker):
            if window.start_ns <= hindered.end_ns and hindered.start_ns <= end_ns:
                end_ns = max(end_ns, hindered.end_ns + read_ns + repaired_ns)
        yield Span(window.start_ns, end_ns)


def _unknown_spans(context: Context, broker: str, producer: str | None) -> Iterator[Span]:
    """Yield when the broker may not know a producer.

    A fault of a coordinator matters only to a producer that starts, and to a broker that starts.
    """
    leader = frozenset(context.facts.replica_sets.get(broker, ())[:1])
    opened_ns = list(starts_ns(context, frozenset(() if producer is None else (producer,))))
    events_ns = [*opened_ns, *stops_ns(context, leader)]
    for window in context.excuses.windows(NO_PRODUCERS, broker, (producer,)):
        needs_start = window.excuse.since is Since.MEMBER_STARTS and bool(opened_ns)
        if not needs_start or any(window.start_ns <= at <= window.end_ns for at in events_ns):
            yield Span(window.start_ns, window.end_ns)


def free_spans(context: Context, broker: str, since_ns: int, until_ns: int) -> list[Span]:
    """Return the time in which nothing keeps the broker from its checks.

    No such time follows a wrong step of a clock by which the broker takes the ages of halves: its own clock, and in
    faithful mode also the producer's.
    """
    facts, wrong = context.facts, stepped_ns(context)
    clocks = *facts.replica_sets.get(broker, ()), *(facts.producers * (facts.mode == "faithful"))
    right_ns = min((wrong[node] for node in clocks if node in wrong), default=until_ns)
    return without([Span(since_ns, min(right_ns, until_ns))], silent_spans(context, broker))


def has_stopped_asking(context: Context, broker: str, since_ns: int, until_ns: int) -> bool:
    """Whether a half that the broker had put back, and did not check in this time, must have been closed."""
    within_ns = asked_again_within_ns(context)
    spans = free_spans(context, broker, since_ns, until_ns) if within_ns else ()
    return any(span.length_ns > within_ns for span in spans)


class Open(NamedTuple):
    """An open half that no broker checked in `span`."""

    stored_ns: int
    span: Span
    wait_ns: int  # until an unhindered broker checks it
    checks: int  # before `span`


def must_be_asked(context: Context, broker: str, half: Open) -> bool:
    """Whether a hardened broker had a check left for a half, and nothing kept it from that check for long enough.

    A broker counts the checks that it sent, so a lost check counts. It sends none while it knows no producer.
    """
    facts = context.facts
    for free in free_spans(context, broker, *half.span):
        lost = shared([Span(half.stored_ns, free.start_ns)], lost_spans(context, broker))
        lost_ns = sum(span.length_ns + facts.check_every_s * NS_PER_S for span in lost)
        checks = half.checks + ceil(lost_ns / (facts.check_every_s * NS_PER_S))
        if checks < facts.check_max and free.length_ns > half.wait_ns:
            return True
    return False
