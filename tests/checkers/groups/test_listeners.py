"""Orderly groups: planted overlaps of two listeners or two owners of one queue, and legal overlaps."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticfire.checkers.groups.listeners import LISTENERS
from staticfire.checkers.guarantees.verdict import Verdict
from tests.support.history_language import fault, history
from tests.support.one_checker import read_ops
from tests.support.reference_semantics import overlapping_owners, two_listeners


def check(*lines: str, **changes: object) -> Verdict:
    columns, context = read_ops(history(*lines), **changes)
    return LISTENERS.check(columns, context)


OVERLAP = (
    "0 ok send a",
    "0 ok send b",
    "1 invoke consume a",
    "2 invoke consume b",
    "1 ok consume a",
    "2 ok consume b",
)
IN_TURN = (
    "0 ok send a",
    "0 ok send b",
    "0 ok send c",
    "1 ok assign 0",
    "1 ok consume a",
    "2 ok consume b",
    "1 ok consume c",
)
MEMBERS = ("1 ok open node=c1", "2 ok open node=c2")


def test_two_listeners_on_one_queue_of_an_orderly_group() -> None:
    verdict = check(*OVERLAP, orderly=("g",))

    assert verdict.counts["two_listeners"] == 1
    [finding] = verdict.findings
    assert (finding.key, finding.queue_offset) == ("b", 1)


FAULTS = {
    "the master was killed": (fault("kill", "n0", at_s=0, healed_s=1), True),
    "the master was killed, and did not die": (
        fault("kill", "n0", at_s=0, healed_s=1, bitten=False),
        False,
    ),
    "the master was paused": (fault("pause", "n0", at_s=0, healed_s=1), False),
    "the second member was paused": (fault("pause", "c2", at_s=0, healed_s=1), False),
    "the second member was paused for long": (fault("pause", "c2", at_s=-50, healed_s=1), True),
    "another broker was killed": (fault("kill", "n1", at_s=0, healed_s=1), False),
    "a network was cut in two": (fault("partition_halves", "n1", at_s=0, healed_s=1), False),
    "a member was cut off for long": (
        replace(fault("partition_halves", "n1", at_s=-50, healed_s=1), links=(("c1", "n0"),)),
        True,
    ),
    "another one was cut off for long": (
        replace(fault("partition_halves", "n1", at_s=-50, healed_s=1), links=(("c3", "n0"),)),
        False,
    ),
    "the first member is slow": (fault("slow_consumer", "c1", at_s=0, healed_s=1), False),
    "a member left": (fault("member_leaves", "c2", at_s=0, healed_s=1), False),
    "the clock of the master is wrong": (fault("clock_skew", "n0", at_s=0, healed_s=1), False),
    "long ago": (fault("kill", "n0", at_s=-60, healed_s=-31), False),
}


@pytest.mark.parametrize("calls", [OVERLAP, IN_TURN], ids=["at once", "in turn"])
@pytest.mark.parametrize("name", FAULTS)
def test_which_faults_may_have_taken_the_lock(calls: tuple[str, ...], name: str) -> None:
    one, excuses = FAULTS[name]
    verdict = check(*MEMBERS, *calls, orderly=("g",), faults=(one,))

    assert verdict.valid is excuses
    [finding] = verdict.findings
    assert ("; fault " in finding.detail) is excuses


def test_a_fault_before_the_first_of_the_two_calls_counts() -> None:
    """However long that call takes."""
    paused = fault("pause", "c1", at_s=0, healed_s=70)
    lines = ("1 invoke consume a t=99", "2 invoke consume b t=150", "1 ok consume a t=151")
    verdict = check(
        *MEMBERS, "0 ok send a", "0 ok send b", *lines, orderly=("g",), faults=(paused,)
    )

    assert verdict.counts["two_listeners_informational"] == 1


def test_faithful_members_may_lose_it_by_any_fault() -> None:
    skewed = fault("clock_skew", "n0", at_s=0, healed_s=1)
    verdict = check(*MEMBERS, *OVERLAP, orderly=("g",), faults=(skewed,), mode="faithful")

    assert verdict.valid is True
    assert check(*MEMBERS, *OVERLAP, orderly=("g",), mode="faithful").valid is False


def test_an_owner_between_two_calls_of_another_one() -> None:
    verdict = check(*IN_TURN, orderly=("g",))

    assert verdict.counts == {"overlapping_owners": 1}
    [finding] = verdict.findings
    assert (finding.key, finding.queue_offset) == ("b", 1)
    assert finding.detail == (
        "process 2 was given it while another process had the queue, and consumed of it before and after (process 1)"
    )


def test_overlapping_calls_are_reported_once() -> None:
    lines = ("1 ok assign 0", *OVERLAP, "0 ok send c", "1 ok consume c")
    assert check(*lines, orderly=("g",)).counts == {"two_listeners": 1}


@pytest.mark.parametrize(
    "lines",
    [
        ("1 ok consume a", "1 ok assign", "2 ok consume b", "1 ok assign 0", "1 ok consume c"),
        ("1 ok consume a", "2 ok consume b"),
        ("1 ok assign", "1 ok consume a", "2 ok consume b", "1 ok consume c"),
    ],
    ids=["given up meanwhile", "not again", "did not say that it had it"],
)
def test_owners_that_do_not_overlap(lines: tuple[str, ...]) -> None:
    sent = ("0 ok send a", "0 ok send b", "0 ok send c", "1 ok assign 0")
    assert check(*sent, *lines, orderly=("g",)).counts == {}


@pytest.mark.parametrize(
    "lines",
    [
        ("1 invoke consume a", "1 ok consume a", "2 invoke consume b", "2 ok consume b"),
        ("1 invoke consume a", "1 invoke consume b", "1 ok consume a", "1 ok consume b"),
        ("1 invoke consume a", "2 invoke consume c queue=1", "1 ok consume a", "2 ok consume c"),
    ],
    ids=["one after the other", "one process", "two queues"],
)
def test_near_misses(lines: tuple[str, ...]) -> None:
    sent = ("0 ok send a", "0 ok send b", "0 ok send c queue=1", "1 ok assign 0")
    assert check(*sent, *lines, orderly=("g",)).counts == {}


def test_only_orderly_groups_promise_it() -> None:
    assert check(*OVERLAP).counts == {}


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 5)), max_size=14))
def test_against_every_pair(steps: list[tuple[int, int]]) -> None:
    """Each step begins what its process has not begun, and ends what it has."""
    sent = [f"0 ok send k{number} queue={number % 2}" for number in range(6)]
    lines: list[str] = []
    calls: list[tuple[int, int, int, int]] = []  # queue, process, begin, end
    begun: dict[tuple[int, int], int] = {}
    for process, key in steps:
        at = len(sent) + len(lines)
        if (process, key) in begun:
            calls.append((key % 2, process, begun.pop((process, key)), at))
            lines.append(f"{process} ok consume k{key}")
        else:
            begun[process, key] = at
            lines.append(f"{process} invoke consume k{key}")
    calls += [(key % 2, process, at, at) for (process, key), at in begun.items()]

    expected = sum(
        any(q == queue and p != process and b < begin < e for q, p, b, e in calls)
        for queue, process, begin, _ in calls
    )
    found = check(*sent, *lines, orderly=("g",)).counts.get("two_listeners", 0)
    assert found == expected


STEPS = st.lists(
    st.tuples(
        st.sampled_from((1, 1, 2)),
        st.sampled_from(("assign", "assign 0", "begin", "begin", "end", "begin and end")),
    ),
    min_size=4,
    max_size=16,
)


def played(steps: list[tuple[int, str]]) -> list[str]:
    """Each step: a member says what it has, begins with the next message, or ends with the one that it has begun."""
    lines = [f"0 ok send k{number}" for number in range(len(steps))]
    lines.append("1 ok assign 0")
    begun: dict[int, str] = {}
    for number, (process, step) in enumerate(steps):
        if step.startswith("assign"):
            lines.append(f"{process} ok {step}")
        if step.startswith("begin"):
            begun[process] = f"k{number}"
            lines.append(f"{process} invoke consume k{number}")
        if step.endswith("end") and process in begun:
            lines.append(f"{process} ok consume {begun.pop(process)}")
    return lines


def referred(lines: list[str]) -> Counter[tuple[Any, ...]]:
    ops = history(*lines)
    return two_listeners(ops, ("g",)) + overlapping_owners(ops, ("g",))


@pytest.mark.slow
@given(STEPS)
def test_against_a_plain_reference(steps: list[tuple[int, str]]) -> None:
    lines = played(steps)
    findings = check(*lines, orderly=("g",)).findings
    assert {(one.anomaly, one.key, one.group) for one in findings} == set(referred(lines))


@pytest.mark.slow
def test_both_occur_in_random_histories() -> None:
    seen: Counter[str] = Counter()

    @given(STEPS)
    def look(steps: list[tuple[int, str]]) -> None:
        seen.update(anomaly for anomaly, *_ in referred(played(steps)))

    look()
    assert set(seen) == {"two_listeners", "overlapping_owners"}
