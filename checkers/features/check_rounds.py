"""Rounds of checks: the times at which a broker must ask about an open transaction, and what may prevent a check.

In each round a broker iterates over its open halves. It asks a producer about each half that is old enough, and appends
a copy of that half to the end of the queue. The round ends at the first half that is too young. All halves in front of
a copy are older than the copy. So the broker checks a half again in the first round in which the copy is old enough.

The broker sends no check, or its check does not arrive, while it cannot write, knows no producer, or asks a producer
that it cannot reach. A producer that ends closes its connection, so the broker asks the others.

Cannot see: which producer a broker asks. So a check may be lost by a fault of any producer.

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

# Names of rows in the table of excuses.
ASKED_AGAIN = "asked_again"
ON_ITS_WAY = "answer_on_its_way"
LATE = "check_on_its_way"
SWALLOWED = "check_swallowed"
NO_PRODUCERS = "producers_unknown"
DAMAGED = "half_damaged"


def asked_again_within_ns(context: Context) -> int:
    """Return the longest time in ns from one check of a half to the next without faults; 0 if it is not known."""
    facts = context.facts
    if not facts.check_every_s:
        return 0
    rounds = max(ceil(facts.check_after_s / facts.check_every_s), 1)
    return round((rounds * facts.check_every_s + facts.timings.request_s) * NS_PER_S)


def lost_spans(context: Context, broker: str) -> list[Span]:
    """Return the times in which a check of the broker may be lost or late on its way."""
    excuses, producers = context.excuses, context.facts.producers
    ways = excuses.spans(ASKED_AGAIN, broker), excuses.spans(ON_ITS_WAY, broker, producers)
    return joined(chain.from_iterable(ways))


def silent_spans(context: Context, broker: str) -> list[Span]:
    """Return the times in which the broker may send no check, or a check may be lost."""
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
    """Yield the times in which rounds may end at a damaged half, from the fault on.

    The broker reads a half within a round after it is due, and then repairs it, unless another fault prevents that.
    Records that the broker writes itself have no key, and no round ends at one of these.
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
    """Yield the times in which the broker may not know a producer.

    A fault of a coordinator counts only if the producer or the broker starts during it.
    """
    leader = frozenset(context.facts.replica_sets.get(broker, ())[:1])
    opened_ns = list(starts_ns(context, frozenset(() if producer is None else (producer,))))
    events_ns = [*opened_ns, *stops_ns(context, leader)]
    for window in context.excuses.windows(NO_PRODUCERS, broker, (producer,)):
        needs_start = window.excuse.since is Since.MEMBER_STARTS and bool(opened_ns)
        if not needs_start or any(window.start_ns <= at <= window.end_ns for at in events_ns):
            yield Span(window.start_ns, window.end_ns)


def free_spans(context: Context, broker: str, since_ns: int, until_ns: int) -> list[Span]:
    """Return the times in which nothing prevents the checks of the broker.

    No such time follows a wrong step of a clock from which the broker computes the ages of halves: its own clock, and
    in faithful mode also those of producers.
    """
    facts, wrong = context.facts, stepped_ns(context)
    clocks = *facts.replica_sets.get(broker, ()), *(facts.producers * (facts.mode == "faithful"))
    right_ns = min((wrong[node] for node in clocks if node in wrong), default=until_ns)
    return without([Span(since_ns, min(right_ns, until_ns))], silent_spans(context, broker))


def has_stopped_asking(context: Context, broker: str, since_ns: int, until_ns: int) -> bool:
    """Whether the transaction of a half that the broker copied, and did not check in this time, must have ended."""
    within_ns = asked_again_within_ns(context)
    spans = free_spans(context, broker, since_ns, until_ns) if within_ns else ()
    return any(span.length_ns > within_ns for span in spans)


class Open(NamedTuple):
    """An open half that no broker checked in `span`."""

    stored_ns: int
    span: Span
    wait_ns: int  # the most time until a broker without a fault checks it
    checks: int  # number of checks before `span`


def must_be_asked(context: Context, broker: str, half: Open) -> bool:
    """Whether a hardened broker had a check left for a half, and nothing prevented the check for longer than `wait_ns`.

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
