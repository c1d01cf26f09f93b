"""Shares of queues: even, except in a rebalance, near faults, and where the strategy allows otherwise."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from staticfire.checkers.groups.shares import SHARES
from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.checkers.guarantees.verdict import Verdict
from staticfire.checkers.model.history import Op
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.rocketmq.facts import run_facts
from tests.support.history_language import fault, history
from tests.support.one_checker import read_ops
from tests.support.reference_shares import uneven_shares

EVENLY = {"groups": {"g": ("t",)}, "evenly": ("g",)}
OPENED = ("1 ok open node=c1 t=1", "2 ok open node=c2 t=1")
ALL = ("2 ok assign 3 t=1.5", "1 ok assign 0 1 2 3 t=2", "2 ok assign t=2")


def even(at_s: int) -> tuple[str, ...]:
    """From then on both have two queues."""
    return f"1 ok assign 0 1 t={at_s}", f"2 ok assign 2 3 t={at_s}", f"9 ok drain t={at_s + 1}"


def check(*lines: str, faults: tuple[FaultFacts, ...] = (), **changes: object) -> Verdict:
    return check_ops(reported(history(*lines)), faults, **changes)


def reported(ops: list[Op]) -> list[Op]:
    """Members say what they subscribe to."""
    for op in ops:
        if op.f == "open" and op.process < 9:
            op.value.update(group="g", topic="t", expression="*")
    return ops


def check_ops(ops: list[Op], faults: tuple[FaultFacts, ...], **changes: object) -> Verdict:
    columns, context = read_ops(ops, faults=faults, **{**EVENLY, **changes})
    return SHARES.check(columns, context)


def test_one_member_has_all_queues_and_the_other_one_none() -> None:
    verdict = check(*OPENED, *ALL, *even(42))

    assert verdict.valid is False
    [finding] = verdict.findings
    assert (finding.anomaly, finding.group, finding.topic) == ("uneven_shares", "g", "t")
    assert finding.detail == (
        "for 40.000s one living member had at least 2 queues more than another one"
    )


@pytest.mark.parametrize(
    ("lines", "valid"),
    [
        (even(25), True),  # a rebalance
        (even(26), False),
        # a member that comes and never gets a queue: what lasted until then has lasted long enough
        (("3 ok open node=c3 t=25", *even(28)), True),
        (("3 ok open node=c3 t=26", *even(28)), False),
        (("9 ok drain t=90",), True),  # it may have left
        (("1 ok assign 0 1 2 t=20", "2 ok assign 3 t=20", "9 ok drain t=90"), False),
        (("1 ok assign 0 1 t=20", "2 ok assign 2 3 t=20", "9 ok drain t=90"), True),
        (("1 ok assign 0 t=20", "2 ok assign 1 t=20", "9 ok drain t=90"), True),
        # its node was started again: the one before it owns nothing, and lives no more
        (("3 ok open node=c2 t=20", "3 ok assign 2 3 t=25", "9 ok drain t=90"), False),
        (
            (
                "3 ok open node=c2 t=20",
                "1 ok assign 0 1 t=24",
                "3 ok assign 2 3 t=25",
                "9 ok drain t=90",
            ),
            True,
        ),
    ],
)
def test_a_change_has_its_time(lines: tuple[str, ...], valid: bool) -> None:
    assert check(*OPENED, *ALL, *lines).valid is valid


@pytest.mark.parametrize(
    ("struck", "valid"),
    [
        (fault("pause", "elsewhere", at_s=3, healed_s=4), True),
        (fault("pause", "p1", at_s=3, healed_s=4), False),  # no member
        (fault("pause", "c1", at_s=3, healed_s=4), True),
        (fault("slow_consumer", "c1", at_s=3, healed_s=4), False),
        (fault("kill", "n0", at_s=3, healed_s=4), False),  # 26 s of rest after it
        (fault("kill", "n0", at_s=8, healed_s=9), True),
        (fault("kill", "n0", at_s=3, healed_s=None), True),
        (fault("kill", "n0", at_s=60, healed_s=61), False),  # too late
        (fault("kill", "n0", at_s=25, healed_s=26), True),
        # 24 s of rest, and what ends them has not made them any longer
        (fault("kill", "n0", at_s=26, healed_s=27), False),
    ],
)
def test_near_a_fault_it_is_not_asked(struck: FaultFacts, valid: bool) -> None:
    known = {"producers": ("p1",), "consumers": ("c1", "c2")}
    assert check(*OPENED, *ALL, *even(90), faults=(struck,), **known).valid is valid


def test_a_member_that_is_not_known_may_have_what_is_missing() -> None:
    assert check(*OPENED, *ALL, "5 ok assign t=5", *even(90)).valid is False
    assert check(*OPENED, *ALL, "5 ok assign 7 t=5", *even(90)).valid is True
    assert check(*OPENED[:1], *ALL, *even(90)).valid is True


def test_a_lock_may_keep_a_queue_from_its_new_owner() -> None:
    assert check(*OPENED, *ALL, *even(85), orderly=("g",)).valid is True
    assert check(*OPENED, *ALL, *even(86), orderly=("g",)).valid is False


@pytest.mark.parametrize(
    ("options", "evenly"),
    [
        ({}, True),
        ({"strategy": "AVG_BY_CIRCLE"}, True),
        ({"strategy": "CONSISTENT_HASH"}, False),
        ({"workload": "broadcast"}, False),
        ({"auto_topic": True}, False),
        ({"consumer_kind": "pull"}, False),
    ],
)
def test_facts_name_the_groups_that_share_evenly(options: dict[str, object], evenly: bool) -> None:
    campaign = draw_campaign(1, {"workload": "queue", "strategy": "AVG", **options})
    assert bool(run_facts(campaign, (), []).evenly) is evenly


def shared_history(seed: int) -> tuple[list[Op], tuple[FaultFacts, ...]]:
    """Members come, and say that they have these or those queues; all times are whole seconds."""
    random = Random(seed)
    lines: list[str] = []
    now_s, opened, faults = 0, dict[str, int](), []
    for number in range(random.randrange(4, 12)):
        now_s += random.choice([1, 2, 11, 24, 30])
        node = random.choice(["c1", "c2", "c3"])
        what = random.choice(["open", "assign", "assign", "assign", "fault"])
        if what == "open" or node not in opened:
            opened[node] = 10 + number
            lines.append(f"{opened[node]} ok open node={node} t={now_s}")
        elif what == "assign":
            queues = " ".join(str(q) for q in range(4) if random.random() < 0.5)
            lines.append(f"{opened[node]} ok assign {queues} t={now_s}".replace("  ", " "))
        elif random.random() < 0.3:
            faults.append(fault("kill", "n0", at_s=now_s, healed_s=now_s + 1))
            now_s += random.choice([30, 130])
    lines.append(f"9 ok drain t={now_s + random.choice([5, 30, 90])}")
    ops = history(*lines)
    for op in ops:
        if op.f == "open":
            op.value.update(group="g", topic="t", expression="*")
    return ops, tuple(faults)


@pytest.mark.slow
@given(st.integers(0, 10**9), st.booleans())
@example(263, False)  # a member that never gets a queue comes while others are uneven
@example(11198, False)  # a fault begins where they have been uneven for long enough
def test_they_are_uneven_where_the_reference_says_so(seed: int, is_orderly: bool) -> None:
    ops, faults = shared_history(seed)
    known = {**EVENLY, "orderly": ("g",) if is_orderly else ()}
    verdict = check_ops(ops, faults, **known)
    assert {(of.group, of.topic) for of in verdict.findings} == uneven_shares(ops, known, faults)


def test_both_answers_occur() -> None:
    answers = {check_ops(*shared_history(seed)).valid for seed in range(30)}
    assert answers == {True, False}
