"""Ownership of deliveries: the member runs, is known, and owns the queue."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.checkers.guarantees.facts import NodeExit
from staticfire.checkers.guarantees.verdict import Verdict
from staticfire.checkers.model.history import Op
from tests.support.history_language import facts, fault, history
from tests.support.one_checker import judged_by
from tests.support.ownership_histories import ownership_history
from tests.support.reference_ownership import wrong_readers

STEADY = settings(max_examples=int(os.environ.get("HISTORIES", "60")))
SENT = ("0 ok send a", "0 ok send b", "0 ok send c")
TWO = ("1 ok open node=c1", "2 ok open node=c2", "1 ok assign 0", "2 ok assign 1")


def judged(ops: list[Op], **changes: object) -> Verdict:
    return judged_by("ownership", ops, [], facts(**changes))


def check(*ops: str, **changes: object) -> Verdict:
    return judged(history(*SENT, *ops), **changes)


def found(verdict: Verdict) -> list[tuple[str, str | None]]:
    return [(finding.anomaly, finding.key) for finding in verdict.findings]


@pytest.mark.parametrize(
    ("ops", "anomalies"),
    [
        (["1 ok consume a b"], []),
        (["2 ok consume a b"], ["a", "b"]),
        (["1 ok assign 1 t=5", "1 ok consume a t=5.9"], []),
        (["1 ok assign 1 t=5", "1 ok consume a t=6.1"], ["a"]),
        (["1 ok assign 1 t=5", "1 ok assign 0 t=7", "1 ok consume a t=8"], []),
        # it is reported a moment later
        (["2 ok consume a t=5", "2 ok assign 0 1 t=5.9"], []),
        (["2 ok consume a t=5", "2 ok assign 0 1 t=6.1"], ["a"]),
        (["2 ok consume a t=5", "2 ok assign 1 t=5.5", "2 ok assign 0 1 t=9"], ["a"]),
        # the queues of another topic, and of another group
        (["2 ok assign 0 topic=u", "2 ok assign 0 group=h", "2 ok consume a"], ["a"]),
        # a member that never had any queue
        (["3 ok open node=c3", "3 ok consume c"], ["c"]),
        # no member of group h reports its queues
        (["2 ok consume a group=h"], []),
        # read by the harness, in the name of the group
        (["2 ok consume a@0:0 topic=%DLQ%g"], []),
    ],
)
def test_a_member_is_given_what_it_has(ops: list[str], anomalies: list[str]) -> None:
    verdict = check(*TWO, *ops, groups={"g": ("t",), "h": ("t",)})

    assert found(verdict) == [("unowned_delivery", key) for key in anomalies]
    assert verdict.valid is not bool(anomalies)


def test_all_deliveries_of_a_run_to_members_without_queues_are_counted() -> None:
    sent = [f"0 ok send m{number}" for number in range(30)]
    given_ = [f"2 ok consume m{number}" for number in range(30)]

    verdict = judged(history(*sent, *TWO, *given_))

    assert verdict.counts == {"unowned_delivery": 30}
    assert [finding.key for finding in verdict.findings] == [f"m{n}" for n in range(10)]


@pytest.mark.parametrize(
    ("ops", "anomaly"),
    [
        (["1 ok open node=c1 t=5", "1 ok consume a t=9"], None),
        (["3 ok open node=c1 t=5", "1 ok consume a t=4.9"], None),
        (["3 ok open node=c1 t=5", "1 ok consume a t=5.1"], "delivery_after_exit"),
        (["3 ok open node=c3 t=5", "1 ok consume a t=5.1"], None),
        (["7 ok consume a"], "unknown_consumer"),
        (["7 ok assign 0", "7 ok consume a"], "unknown_consumer"),
        (["1 ok assign 0 group=x", "1 ok consume a group=x"], "unknown_consumer"),
    ],
)
def test_a_consumer_is_known_and_lives(ops: list[str], anomaly: str | None) -> None:
    assert found(check(*TWO, *ops)) == ([(anomaly, "a")] if anomaly else [])


@pytest.mark.parametrize(
    ("kind", "bitten", "at_s", "dead"),
    [
        ("client_crash", True, 11.9, False),
        ("client_crash", True, 12.1, True),
        ("client_crash", False, 12.1, False),
        ("member_leaves", True, 19.9, False),
        ("member_leaves", True, 20.1, True),
        ("pause", True, 20.1, False),
    ],
)
def test_a_fault_ends_a_process(kind: str, bitten: bool, at_s: float, dead: bool) -> None:
    struck = fault(kind, "c1", at_s=10, healed_s=30, bitten=bitten)

    verdict = check(*TWO, f"1 ok consume a t={at_s}", faults=(struck,))

    assert found(verdict) == ([("delivery_after_exit", "a")] if dead else [])


@pytest.mark.parametrize(("at_s", "dead"), [(11.9, False), (12.1, True)])
def test_a_process_that_ended_by_itself_is_given_nothing(at_s: float, dead: bool) -> None:
    ended = NodeExit(node="c1", time_ns=10**10, error="status 1")

    verdict = check(*TWO, f"1 ok consume a t={at_s}", exits=(ended,))

    assert found(verdict) == ([("delivery_after_exit", "a")] if dead else [])


def opened(process: int, group: str) -> Op:
    """It subscribes: its group is known."""
    value = {"group": group, "topic": "t", "expression": "*", "model": "clustering"}
    node = f"c{process}"
    return Op(index=0, time_ns=0, process=process, type="ok", f="open", value=value, node=node)


def in_a_row(*ops: Op) -> list[Op]:
    return [replace(op, index=at) for at, op in enumerate(ops)]


def test_a_member_of_another_group_is_none_of_this_one() -> None:
    both = {"groups": {"g": ("t",), "h": ("t",)}}
    given_ = history(*SENT, "1 ok assign 0", "2 ok assign 0", "2 ok consume a")

    assert judged(in_a_row(opened(1, "g"), opened(2, "g"), *given_), **both).valid is True
    verdict = judged(in_a_row(opened(1, "g"), opened(2, "h"), *given_), **both)

    assert found(verdict) == [("unknown_consumer", "a")]


def test_members_that_subscribe_and_report_no_assignments_prove_nothing() -> None:
    ops = in_a_row(opened(1, "g"), *history(*SENT, "1 ok consume a b c"))

    verdict = judged(ops)

    assert (verdict.valid, verdict.counts) == ("unknown", {"unreported": 3})
    assert verdict.reason == "no assignments are reported by the members of g"


def test_clients_that_report_neither_are_not_asked() -> None:
    verdict = check("1 ok open node=c1", "1 ok consume a")

    assert (verdict.valid, verdict.counts) == (True, {"unreported": 1})


@pytest.mark.slow
@STEADY
@given(seed=st.integers(0, 2**32), steps=st.integers(5, 60))
def test_as_the_plain_reference_says(seed: int, steps: int) -> None:
    ops, faults, exits = ownership_history(Random(seed), steps)
    groups = {"g": ("t", "u"), "h": ("t",)}
    expected = wrong_readers(ops, groups, faults, exits)

    verdict = judged(ops, groups=groups, faults=faults, exits=exits)

    by_name: Counter[str] = Counter()
    for (anomaly, _), times in expected.items():
        by_name[anomaly] += times
    assert {n: c for n, c in verdict.counts.items() if n not in ("owned", "unreported")} == by_name
    assert {(one.anomaly, one.op_index) for one in verdict.findings} <= expected.keys()


def test_every_anomaly_occurs() -> None:
    """Or the histories would prove nothing."""
    seen: Counter[str] = Counter()
    for seed in range(40):
        ops, faults, exits = ownership_history(Random(seed), 40)
        seen.update(name for name, _ in wrong_readers(ops, {"g": ("t", "u")}, faults, exits))

    assert set(seen) == {"unknown_consumer", "delivery_after_exit", "unowned_delivery"}
