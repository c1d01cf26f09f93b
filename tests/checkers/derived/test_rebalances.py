"""Rebalances of groups: their causes, and the faults that delay agreement of the members."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staticfire.checkers.derived.rebalances import bound_ns, excused_spans
from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.facts import FaultFacts, Timings
from staticfire.checkers.model.intervals import Span
from tests.support.history_language import fault, history
from tests.support.one_checker import read_ops

S = 10**9
BROKERS = {"b": ("n0", "n1"), "other": ("n2",)}
LINES = (
    "1 ok open node=c1 t=0",
    "2 ok open node=c2 t=0",
    "1 ok assign 0 t=1",
    "2 ok assign 1 t=1",
)
LATE = "3 ok open node=c2 t=60"
NEW_QUEUES = fault("topic_change", at_s=45, healed_s=45)


def context(*lines: str, faults: tuple[FaultFacts, ...], **changes: object) -> Context:
    return read_ops(
        history(*LINES, *lines),
        replica_sets=BROKERS,
        coordinators=("ns",),
        faults=faults,
        **changes,
    )[1]


def excused(
    *faults: FaultFacts, lines: tuple[str, ...] = (), of: str = "queue_unowned", **changes: object
) -> list[tuple[int, int]]:
    """In seconds, for queues of b and the two members."""
    known = context(*lines, faults=faults, **changes)
    spans = excused_spans(known, of, "g", "b", ("c1", "c2"))
    return [(span.start_ns // S, span.end_ns // S) for span in spans]


def cut(*links: tuple[str, str]) -> FaultFacts:
    return replace(fault("partition", "n0", at_s=50, healed_s=70), links=links)


ONE_OF_THEM = cut(("c1", "n0"))
BOTH = cut(("c1", "n0"), ("c2", "n0"))


@pytest.mark.parametrize("of", ["queue_unowned", "double_ownership"])
@pytest.mark.parametrize(
    ("partition", "more", "lines", "spans"),
    [
        (ONE_OF_THEM, (), (), []),
        (ONE_OF_THEM, (), (LATE,), [(60, 76)]),
        (ONE_OF_THEM, (NEW_QUEUES,), (), [(50, 76)]),  # members may not know of it yet
        (ONE_OF_THEM, (replace(NEW_QUEUES, bitten_ns=None),), (), [(50, 76)]),  # no leader answered
        # the broker that one of them asks forgets the other, which cannot reach it
        (ONE_OF_THEM, (fault("kill", "n2", at_s=55, healed_s=56),), (), [(55, 76)]),
        # those that cannot reach a broker both ask another one
        (BOTH, (fault("kill", "n2", at_s=55, healed_s=56),), (), []),
        (BOTH, (), (LATE,), [(60, 76)]),
        # silent for so long that brokers forget it
        (replace(BOTH, healed_ns=200 * S), (), (), [(170, 206)]),
    ],
)
def test_a_cut_counts_once_queues_are_shared_out_anew(
    of: str,
    partition: FaultFacts,
    more: tuple[FaultFacts, ...],
    lines: tuple[str, ...],
    spans: list[tuple[int, int]],
) -> None:
    assert excused(partition, *more, lines=lines, of=of) == spans


def test_members_that_do_not_say_when_they_start_may_have_come_at_any_time() -> None:
    assert excused(ONE_OF_THEM, lines=("7 ok assign 2 t=2",)) == [(50, 76)]


@pytest.mark.parametrize("of", ["queue_unowned", "double_ownership"])
def test_that_no_name_server_answers_counts_for_members_that_start(of: str) -> None:
    away = fault("pause", "ns", at_s=50, healed_s=55)
    assert excused(away, of=of) == []
    assert excused(away, of=of, lines=(LATE,)) == [(60, 85)]


def test_a_name_server_that_starts_learns_queues_from_a_master_only() -> None:
    away = fault("pause", "n0", at_s=50, healed_s=70)
    assert excused(away) == []
    assert excused(away, fault("name_server_amnesia", "ns", at_s=54, healed_s=58)) == [(58, 76)]
    frozen = fault("name_server_freeze_in_rolling_restart", "ns", "n2", at_s=54, healed_s=58)
    assert excused(away, frozen) == []


def test_locks_come_from_the_master_only() -> None:
    assert excused(fault("pause", "n0", at_s=50, healed_s=70), orderly=("g",)) == [(50, 76)]
    assert excused(fault("pause", "n1", at_s=50, healed_s=70), orderly=("g",)) == []


@pytest.mark.parametrize(
    ("lines", "faults", "seconds"),
    [
        ((), (), 23),
        (("3 ok open node=c2 t=49", "4 ok open node=c1 t=51"), (), 23),
        (("3 ok open node=c2 t=60",), (), 30),
        (("7 ok assign 2 t=2",), (), 30),  # does not say when it started
        ((), (fault("pause", "n2", at_s=10, healed_s=31),), 30),
        ((), (fault("pause", "n2", at_s=10, healed_s=29),), 23),
        ((), (fault("pause", "n2", at_s=71, healed_s=80),), 23),
        ((), (fault("pause", "p", at_s=50, healed_s=60),), 23),  # a producer
        ((), (fault("slow_consumer", "c1", at_s=50, healed_s=60),), 23),
    ],
)
def test_at_rest_every_member_has_looked_after_a_rebalance_and_a_request(
    lines: tuple[str, ...], faults: tuple[FaultFacts, ...], seconds: int
) -> None:
    assert bound_ns(context(*lines, faults=faults), "g", Span(50 * S, 70 * S)) == seconds * S


@pytest.mark.parametrize(
    ("lines", "faults", "seconds"),
    [
        ((), (), 23),
        (("3 ok open node=c2 t=54",), (), 30),
        (("3 ok open node=c2 t=60",), (), 33),  # within 23 s all look again
        (("3 ok open node=c2 t=60", "4 ok open node=c1 t=69"), (), 42),
        ((), (fault("kill", "n2", at_s=55, healed_s=64),), 37),
        ((), (fault("kill", "n2", at_s=55, healed_s=81),), 30),  # they agreed by then
        ((), (fault("kill", "p", at_s=55, healed_s=64),), 23),  # no broker, no member
    ],
)
def test_without_notifications_a_change_may_be_heard_of_a_rebalance_later(
    lines: tuple[str, ...], faults: tuple[FaultFacts, ...], seconds: int
) -> None:
    unnotified = Timings(members_notified=False)
    known = context(*lines, faults=faults, timings=unnotified)
    assert bound_ns(known, "g", Span(50 * S, 70 * S)) == seconds * S
