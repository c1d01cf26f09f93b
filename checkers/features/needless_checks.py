"""Checks of a transaction that its broker should not have made: after the transaction was over, or twice in a round.

**checked_too_often**, for transactions that were sent in one attempt: a broker checked a transaction again more than a
request after it was over (its producer had ended it with a commit that was sent, or had answered with commit or
rollback, or a consumer had received it), or twice within half of the time between its rounds.

If a fault may have made the broker forget its progress or the end, it may check as many times as it may have put halves
back since it last recorded its progress. It may check any number of times while a fault of the broker, or of the
producer that ended the transaction or was asked, delays requests, and always outside the simulation: there a busy
broker refuses the end of a transaction, and the producer does not learn that.

Source: TransactionalMessageServiceImpl of Apache RocketMQ 4.9.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from math import ceil
from typing import NamedTuple

from staticfire.checkers.derived.wall_clocks import stepped_ns
from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.excuse import ON_ITS_WAY_S
from staticfire.checkers.guarantees.excuses import Window
from staticfire.checkers.guarantees.fault_effects import EMPTIES, FORGETS, ROLLS_BACK, STOPS
from staticfire.checkers.guarantees.promises import NS_PER_S
from staticfire.checkers.model.columns import Mask, MessageEvents, Outcome, Transaction
from staticfire.checkers.model.timeline import CheckBack

# In the table of excuses.
ASKED_AGAIN = "asked_again"
ON_ITS_WAY = "answer_on_its_way"


def checked_again(
    context: Context,
    halves: MessageEvents,
    row: int,
    brokers: Iterable[str],
    checks: list[CheckBack],
    given_ns: Mapping[int, int],
) -> tuple[str, str | None] | None:
    """Say what is wrong with checks of the only half of a transaction, and what excuses it.

    None if nothing is wrong, or if the transaction may have more halves.

    Args:
        row: of the half, in `halves`.
        brokers: those that may have checked it.
        checks: by time, at least one.
        given_ns: when a consumer first received each message, by number of the message.
    """
    if halves.tries[row] != 1:
        return None
    # No sooner does a broker put a half back to ask for it again.
    first_ns = int(halves.invoke_ns[row]) + round(context.facts.check_after_s * NS_PER_S)
    found = [
        (of.what, _end_not_known(context, brokers, first_ns, of))
        for of in (
            *_asked_over(context, halves, row, checks, given_ns),
            *_asked_twice(context, checks),
        )
    ]
    return next((of for of in found if of[1] is None), found[0] if found else None)


class _Moment(NamedTuple):
    """The time of a check or an answer of a producer, or of an effect of what a broker knew."""

    time_ns: int
    node: str | None  # of the producer; None: its client does not say
    is_seen: bool = False  # by a consumer: no producer has a part in it


class _Again(NamedTuple):
    """Checks that should not have been made, as far as one half shows."""

    what: str
    times: int
    known: _Moment  # when the broker should have known better
    asked: _Moment  # the last one


def _asked_over(
    context: Context,
    halves: MessageEvents,
    row: int,
    checks: list[CheckBack],
    given_ns: Mapping[int, int],
) -> Iterator[_Again]:
    """Yield each check after an end of its transaction that its broker should have known."""
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
    """Yield checks of one round, from each check on."""
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
    context: Context, brokers: Iterable[str], first_ns: int, again: _Again
) -> str | None:
    """Say why a broker may not know how a transaction has ended, or that it has checked it.

    Faults of brokers and producers at that time affect the broker's requests. If a broker has forgotten, since
    `first_ns`, that it had put a half back, in each round since it recorded that, it checks once more for each of
    these. It does not forget what it knew and has kept.
    """
    facts = context.facts
    if not facts.disks_observed:
        return "a busy broker may have refused the end of the transaction"
    request_ns, moments = int(facts.timings.request_s * NS_PER_S), (again.known, again.asked)
    for broker in brokers:
        asked_ns, windows = again.asked.time_ns, _that_matter(context, broker, first_ns, again)
        found: list[Window | None] = [
            window
            for window in windows
            if window.start_ns <= asked_ns + request_ns and asked_ns - request_ns <= window.end_ns
        ]
        for of in moments:
            if not of.is_seen:
                near = of.time_ns - request_ns, of.time_ns + request_ns
                nodes = facts.producers if of.node is None else (of.node,)
                found.append(context.excuses.find(ON_ITS_WAY, *near, broker, nodes))
        doubled = _may_have_doubled(context, windows, first_ns, again)
        copies = 2 + ceil(facts.timings.offset_persist_s / (facts.check_every_s or 1.0))
        if again.times < copies ** len(doubled):
            found += doubled
        if words := next((window.words for window in found if window is not None), None):
            return words
    return None


def _that_matter(context: Context, broker: str, first_ns: int, again: _Again) -> list[Window]:
    """Select faults that may have made the broker check again. The end of its process removes no end from its log."""
    in_log = _is_in_log(context, broker, first_ns, again.known)
    return [
        window
        for window in context.excuses.windows(ASKED_AGAIN, broker)
        if not (in_log and {STOPS, FORGETS}.issuperset(window.fault.effects))
    ]


def _is_in_log(context: Context, broker: str, first_ns: int, known: _Moment) -> bool:
    """Whether the broker knew the end before it may put the half back, no fault near, with a clock always right."""
    request_ns = int(context.facts.timings.request_s * NS_PER_S)
    near = known.time_ns - request_ns, known.time_ns + request_ns
    wrong = stepped_ns(context)
    return (
        known.time_ns + int(ON_ITS_WAY_S * NS_PER_S) < first_ns
        and not any(node in wrong for node in context.facts.replica_sets.get(broker, ()))
        and context.excuses.find(ASKED_AGAIN, *near, broker) is None
    )


def _may_have_doubled(
    context: Context, windows: Iterable[Window], first_ns: int, again: _Again
) -> list[Window]:
    """Return when a broker may have forgotten an end, or made a second half: until it had surely recorded its progress.

    If its disk loses data, it may forget later ones.
    """
    facts, timings = context.facts, context.facts.timings
    written_s = 2 * timings.request_s + facts.check_every_s + timings.offset_persist_s
    known_ns = again.known.time_ns + int(written_s * NS_PER_S)
    loses = {EMPTIES} if facts.leaders_keeping == "sync" else {EMPTIES, ROLLS_BACK}
    return [
        window
        for window in windows
        if first_ns <= window.end_ns and window.start_ns <= again.asked.time_ns
        if window.start_ns <= known_ns or not loses.isdisjoint(window.fault.effects)
    ]


def is_committed(halves: MessageEvents) -> Mask:
    """Whether each half was stored for certain, and its producer ended it with a commit that was sent."""
    committed: Mask = (halves.outcome == Outcome.OK) & (halves.transaction == Transaction.COMMIT)
    return committed
