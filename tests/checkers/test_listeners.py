"""Two listeners on one queue of an orderly group, planted; and what is allowed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.column_builder import build_columns
from checkers.kernel import Context
from checkers.listeners import LISTENERS
from checkers.promises import LossPromises
from checkers.verdict import Verdict
from tests.support.history_language import facts, fault, history


def check(*lines: str, **changes: object) -> Verdict:
    columns, timeline = build_columns(history(*lines))
    known = facts(**changes)
    context = Context(facts=known, timeline=timeline, promises=LossPromises(known))
    return LISTENERS.check(columns, context)


OVERLAP = (
    "0 ok send a",
    "0 ok send b",
    "1 invoke consume a",
    "2 invoke consume b",
    "1 ok consume a",
    "2 ok consume b",
)


def test_two_listeners_on_one_queue_of_an_orderly_group() -> None:
    verdict = check(*OVERLAP, orderly=("g",))

    assert verdict.counts["two_listeners"] == 1
    [finding] = verdict.findings
    assert (finding.key, finding.queue_offset) == ("b", 1)


def test_a_fault_may_have_taken_the_lock_away() -> None:
    paused = fault("pause", "c1", at_s=0, healed_s=1)
    verdict = check(*OVERLAP, orderly=("g",), faults=(paused,))

    assert verdict.valid is True
    assert verdict.counts["two_listeners_informational"] == 1


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
