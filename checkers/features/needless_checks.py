"""Needless checks of a transaction: a broker checked it after it was over, or twice in one round.

**checked_too_often**, for transactions that were sent in one attempt: a broker checked a transaction again more than
the time of a request after it was over, or twice within half of the time between its rounds. A transaction is over when
its producer has sent a commit that ends it, a producer has answered a check with commit or rollback, or a consumer has
received it.

The broker may check again

* while a fault of the broker, or of the producer that it asks, delays requests;
* if a fault of the broker, or of the producer, was near the end, so that the broker may not have learned it;
* if the broker died before it had recorded its progress or the end. In each round it may then check once for each copy
  of the half that it had made since it last recorded its progress.

In the last two cases the half is open, so the broker asks again in each round (`check_rounds.py`). A round without a
check, and without a fault that prevents it, shows that the half was closed, and ends these excuses. A broker that has
two copies of a half checks it twice in each round. If most of at least two rounds since its death have one check, it
had only one.

Outside the simulation the broker may always check again: a busy broker may refuse the end of a transaction, and the
producer does not learn of the refusal.

Cannot see: one check too many in the round after a fault; two halves that a broker checks alternately, because a half
must be older than the time between two rounds.

Source: TransactionalMessageServiceImpl of Apache RocketMQ 4.9.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil, prod
from typing import NamedTuple

from staticfire.checkers.derived.moved_copies import is_alone
from staticfire.checkers.derived.wall_clocks import stepped_ns
from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.features.check_rounds import (
    ASKED_AGAIN,
    LATE,
    ON_ITS_WAY,
    asked_again_within_ns,
    has_stopped_asking,
    lost_spans,
)
from staticfire.checkers.guarantees.excuses.excuse import ON_ITS_WAY_S
from staticfire.checkers.guarantees.excuses.excuses import Window
from staticfire.checkers.guarantees.fault_effects import EMPTIES, FORGETS, ROLLS_BACK, STOPS
from staticfire.checkers.guarantees.promises import NS_PER_S
from staticfire.checkers.model.columns import Mask, MessageEvents, Outcome, Transaction
from staticfire.checkers.model.intervals import Span, shared, without
from staticfire.checkers.model.timeline import CheckBack

DOUBLED = "half_doubled"  # row of the table of excuses
# A single round may lack one of two checks: the producer was leaving, or the half was behind one that was too young.
ROUNDS_AT_LEAST = 2


def checked_again(
    context: Context,
    halves: MessageEvents,
    row: int,
    brokers: Iterable[str],
    checks: list[CheckBack],
    given_ns: Mapping[int, int],
) -> tuple[str, str | None] | None:
    """Return what is wrong with the checks of the only half of a transaction, and what excuses that (None: nothing).

    None if nothing is wrong, or if the transaction may have more halves.

    Args:
        context: of the run.
        halves: sends of half messages.
        row: of the half, in `halves`.
        brokers: those that may have checked it.
        checks: sorted by time, at least one.
        given_ns: the time at which a consumer first received each message, by message id.
    """
    if halves.tries[row] != 1:
        return None
    # The broker cannot ask about the half, and append a copy of it, before this time.
    first_ns = int(halves.invoke_ns[row]) + round(context.facts.check_after_s * NS_PER_S)
    due = _Due(first_ns, max(first_ns, int(halves.check_ns[row])))
    found = [
        (of.what, _end_not_known(context, brokers, checks, due, of))
        for of in (
            *_asked_over(context, halves, row, checks, given_ns),
            *_asked_twice(context, checks),
        )
    ]
    return next((of for of in found if of[1] is None), found[0] if found else None)


class _Due(NamedTuple):
    """The times from which on a broker may append a copy of a half, and ask about it."""

    first_ns: int
    asked_ns: int


class _Moment(NamedTuple):
    """The time of a check, of a producer's answer, or of an effect that shows what a broker knew."""

    time_ns: int
    node: str | None  # of the producer; None: its client does not report it
    is_seen: bool = False  # a consumer received the message, so no producer is involved


class _Again(NamedTuple):
    """Needless checks of one half."""

    what: str
    times: int  # number of needless checks
    known: _Moment  # when the broker should have known the end, or that it had checked
    asked: _Moment  # the last needless check


def _asked_over(
    context: Context,
    halves: MessageEvents,
    row: int,
    checks: list[CheckBack],
    given_ns: Mapping[int, int],
) -> Iterator[_Again]:
    """Yield each check that came after the broker should have known the end of the transaction."""
    ends = [_Moment(of.time_ns, of.node) for of in checks if of.state in ("commit", "rollback")]
    seen_ns = given_ns.get(int(halves.message[row]))
    if seen_ns is not None:
        ends.append(_Moment(seen_ns, None, is_seen=True))
    if is_committed(halves)[row] and checks[0].key not in context.timeline.unreported:
        sender = context.timeline.nodes.get(int(halves.process[row]))
        ends.append(_Moment(int(halves.time_ns[row]), sender))
    for check in reversed(checks):
        for end in sorted(ends, key=lambda of: of.time_ns):
            late_ns = check.time_ns - end.time_ns
            if late_ns > context.facts.timings.request_s * NS_PER_S:
                what = f"asked {late_ns / NS_PER_S:.3f} s after the transaction was over"
                yield _Again(what, 1, end, _Moment(check.time_ns, check.node))


def _asked_twice(context: Context, checks: list[CheckBack]) -> Iterator[_Again]:
    """Yield the surplus checks within half of the time between rounds, counted from each check."""
    every_s = context.facts.check_every_s
    times_ns = [check.time_ns for check in checks]
    for at, one in enumerate(checks):
        last = bisect_left(times_ns, one.time_ns + every_s * NS_PER_S / 2) - 1
        if last > at:
            apart_s = (times_ns[last] - one.time_ns) / NS_PER_S
            often = "twice" if last == at + 1 else f"{last - at + 1} times"
            what = f"asked {often} within {apart_s:.3f} s; rounds are {every_s:g} s apart"
            moments = (_Moment(of.time_ns, of.node) for of in (one, checks[last]))
            yield _Again(what, last - at, *moments)


def _end_not_known(
    context: Context,
    brokers: Iterable[str],
    checks: Sequence[CheckBack],
    due: _Due,
    again: _Again,
) -> str | None:
    """Return why a broker may not know how a transaction ended, or that it has checked it; None if it must know.

    Faults of brokers and producers at that time affect the broker's requests. A broker may also forget that it appended
    copies since the half was due. In each round it then checks once more for each copy since it last recorded its
    progress. A broker does not forget what it has recorded.
    """
    facts = context.facts
    if not facts.disks_observed:
        return "a busy broker may have refused the end of the transaction"
    known, asked = again.known, again.asked
    before_ns = [of.time_ns for of in checks if of.time_ns < asked.time_ns]
    open_ns = max([due.asked_ns, known.time_ns, *before_ns])
    for broker in brokers:
        windows = _that_matter(context, broker, due.first_ns, again)
        found = [
            *_near(context, windows, asked),
            *_on_its_way(context, broker, asked),
            *_repeated_by_tcp(context, broker, due.first_ns, again),
        ]
        if not known.is_seen and not has_stopped_asking(context, broker, open_ns, asked.time_ns):
            since_ns = max(known.time_ns, due.first_ns)
            found += (of for of in _near(context, windows, known) if of.end_ns >= since_ns)
            found += _on_its_way(context, broker, known)
        found += _may_have_doubled(context, broker, checks, due.first_ns, open_ns, again)
        if words := next((window.words for window in found), None):
            return words
    return None


def _near(context: Context, windows: Iterable[Window], of: _Moment) -> Iterator[Window]:
    """Yield the windows that are within the time of a request from a moment."""
    request_ns = int(context.facts.timings.request_s * NS_PER_S)
    for window in windows:
        if window.start_ns <= of.time_ns + request_ns and of.time_ns - request_ns <= window.end_ns:
            yield window


def _on_its_way(context: Context, broker: str, of: _Moment) -> Iterator[Window]:
    """Yield the windows of faults that may have delayed or dropped a request between the broker and the producer."""
    nodes = context.facts.producers if of.node is None else (of.node,)
    yield from _near(context, context.excuses.windows(ON_ITS_WAY, broker, nodes), of)


def _repeated_by_tcp(
    context: Context, broker: str, first_ns: int, again: _Again
) -> Iterator[Window]:
    """Yield the window of a fault that may have delayed a check that the broker sent before it knew the end.

    TCP doubles the time between two attempts. So after the end of consecutive faults that delayed the first packet, the
    check takes at most as long to arrive as they had delayed it before.
    """
    asked = again.asked
    nodes = context.facts.producers if asked.node is None else (asked.node,)
    made_ns = again.known.time_ns + int(context.facts.timings.request_s * NS_PER_S)
    since_ns = until_ns = -1
    for window in context.excuses.windows(LATE, broker, nodes):
        if window.start_ns > until_ns:
            since_ns = window.start_ns
        until_ns = max(until_ns, window.end_ns)
        if (
            since_ns <= made_ns
            and first_ns <= until_ns
            and since_ns <= asked.time_ns <= 2 * until_ns - since_ns
        ):
            yield window
            return


def _that_matter(
    context: Context, broker: str, first_ns: int, again: _Again, anomaly: str = ASKED_AGAIN
) -> list[Window]:
    """Return the windows of faults that may have made the broker check again.

    An end that is in the log survives the end of the process.
    """
    in_log = _is_in_log(context, broker, first_ns, again.known)
    return [
        window
        for window in context.excuses.windows(anomaly, broker)
        if not (in_log and {STOPS, FORGETS}.issuperset(window.fault.effects))
    ]


def _is_in_log(context: Context, broker: str, first_ns: int, known: _Moment) -> bool:
    """Whether the broker learned the end before it could append a copy, without a fault near and with right clocks."""
    request_ns = int(context.facts.timings.request_s * NS_PER_S)
    near = known.time_ns - request_ns, known.time_ns + request_ns
    wrong = stepped_ns(context)
    return (
        known.time_ns + int(ON_ITS_WAY_S * NS_PER_S) < first_ns
        and not any(node in wrong for node in context.facts.replica_sets.get(broker, ()))
        and context.excuses.find(ASKED_AGAIN, *near, broker) is None
    )


def _may_have_doubled(
    context: Context,
    broker: str,
    checks: Sequence[CheckBack],
    first_ns: int,
    open_ns: int,
    again: _Again,
) -> list[Window]:
    """Return deaths after which a broker may have forgotten an end or have two copies, if they explain all checks.

    A death explains nothing if the broker had surely recorded its progress before, unless its disk lost data.
    """
    asked_ns = again.asked.time_ns
    found = [
        death
        for death in _that_matter(context, broker, first_ns, again, DOUBLED)
        if first_ns <= death.end_ns and death.start_ns <= asked_ns
        if loses_disk(context, death) or not _is_recorded(context, broker, again.known, death)
        if not has_stopped_asking(context, broker, max(open_ns, death.end_ns), asked_ns)
        if not _was_one(context, broker, checks, death, asked_ns)
    ]
    copies = prod(put_back_since(context, broker, first_ns, death) for death in found)
    return found if again.times < copies else []


def loses_disk(context: Context, death: Window) -> bool:
    """Whether a broker may have lost recorded data by this death."""
    loses = {EMPTIES} if context.facts.leaders_keeping == "sync" else {EMPTIES, ROLLS_BACK}
    return not loses.isdisjoint(death.fault.effects)


def _is_recorded(context: Context, broker: str, known: _Moment, death: Window) -> bool:
    """Whether the broker had surely recorded the end, or the check, before it died."""
    facts, timings = context.facts, context.facts.timings
    written_s = 2 * timings.request_s + facts.check_every_s + timings.offset_persist_s
    held_ns = _held_ns(context, broker, known.time_ns, death.start_ns)
    return death.start_ns - held_ns > known.time_ns + int(written_s * NS_PER_S)


def put_back_since(context: Context, broker: str, first_ns: int, death: Window) -> int:
    """Return how many copies of a half a broker may have appended between its last recorded progress and its death."""
    facts = context.facts
    held_s = _held_ns(context, broker, first_ns, death.start_ns) / NS_PER_S
    return 2 + ceil((facts.timings.offset_persist_s + held_s) / (facts.check_every_s or 1.0))


def _held_ns(context: Context, broker: str, since_ns: int, until_ns: int) -> int:
    """Return how long a broker could not record its progress between two times, in ns."""
    alone = " unreplicated" if is_alone(context) else ""
    held = context.excuses.spans(f"progress_held{alone}", broker)
    return sum(span.length_ns for span in shared([Span(since_ns, until_ns)], held))


def _was_one(
    context: Context, broker: str, checks: Sequence[CheckBack], death: Window, asked_ns: int
) -> bool:
    """Whether most rounds since a death have one check, although no fault prevented a second one.

    False in faithful mode, because faithful brokers may ask a producer on a connection that no longer exists.
    """
    facts, request_ns = context.facts, int(context.facts.timings.request_s * NS_PER_S)
    within_ns = asked_again_within_ns(context)
    if facts.mode != "hardened" or not within_ns:
        return False
    alone_ns = within_ns - request_ns - round(facts.check_every_s * NS_PER_S / 2)
    times_ns = [of.time_ns for of in checks]
    free = without([Span(death.end_ns + within_ns, asked_ns)], lost_spans(context, broker))
    counted = [
        at_ns
        for at_ns in times_ns
        if at_ns <= asked_ns - alone_ns
        if any(of.start_ns <= at_ns - request_ns and at_ns < of.end_ns for of in free)
    ]
    near = [sum(abs(other_ns - at_ns) < alone_ns for other_ns in times_ns) for at_ns in counted]
    return len(near) >= ROUNDS_AT_LEAST and near.count(1) > len(near) / 2


def is_committed(halves: MessageEvents) -> Mask:
    """Whether each half was acknowledged with SEND_OK, and its producer decided to commit it, shape (halves,)."""
    committed: Mask = (halves.outcome == Outcome.OK) & (halves.transaction == Transaction.COMMIT)
    return committed
