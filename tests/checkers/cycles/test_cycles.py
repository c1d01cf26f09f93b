"""Cycles: each phenomenon planted, near misses, wording of findings, and random histories against the reference."""

from __future__ import annotations

import os
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.checkers.cycles import cycles
from staticfire.checkers.cycles.cycle_graph import data_edges, segments
from staticfire.checkers.cycles.cycles import CYCLES, NAMES
from staticfire.checkers.cycles.txn_log import TxnLog
from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.verdict import Verdict
from staticfire.checkers.model.building.column_builder import build_columns
from staticfire.checkers.model.history import Op
from tests.support import reference_cycles as reference
from tests.support.one_checker import read_ops
from tests.support.txn_language import txns

STEADY = settings(max_examples=int(os.environ.get("HISTORIES", "300")))


def context_of(ops: list[Op]) -> Context:
    return read_ops(ops)[1]


def check(ops: list[Op]) -> Verdict:
    context = context_of(ops)
    return CYCLES.check(build_columns([])[0], context)


def found(verdict: Verdict) -> set[str]:
    return {finding.anomaly for finding in verdict.findings}


BOTH = ("begin 0", "begin 1")  # concurrent


VIOLATED = (*BOTH, "0 ok x+1@0 y?2@0", "1 ok y+2@0 x?1@0")
TANGLED = ("begin 2", "begin 3", "2 ok a+1@0 b+4@1 c+9@0", "3 ok a+2@1 b+3@0 c?9@0")


def test_above_its_bounds_the_answer_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was searched all the same may hold a violation."""
    tangled, both = check(txns(*TANGLED)), check(txns(*VIOLATED, *TANGLED))
    assert (tangled.valid, both.valid) == (True, False)

    monkeypatch.setattr(cycles, "SEGMENT_EDGES_MAX", 2)
    left_out, found_one = check(txns(*TANGLED)), check(txns(*VIOLATED, *TANGLED))
    assert (left_out.valid, left_out.findings) == ("unknown", ())
    assert left_out.reason == (
        "1 sets of transactions that ran at the same time were not searched: the largest has 3 edges, "
        "at most 2 are searched"
    )
    assert (found_one.valid, found(found_one)) == (False, {"G1c"})

    monkeypatch.setattr(cycles, "MESSAGES_MAX", 5)
    too_many = check(txns(*TANGLED))
    assert too_many.valid == "unknown"
    assert too_many.reason == "6 messages in transactions; at most 5 are searched"


@pytest.mark.parametrize(
    ("lines", "anomalies"),
    [
        ((*BOTH, "0 ok x+1@0 y+4@1", "1 ok x+2@1 y+3@0"), {"G0"}),
        ((*BOTH, "0 ok x+1@0 y+3@0", "1 ok x+2@1 y+4@1"), set()),
        # each polled what the other sent
        ((*BOTH, "0 ok x+1@0 y?2@0", "1 ok y+2@0 x?1@0"), {"G1c"}),
        ((*BOTH, "0 ok x+1@0 y?2@0", "1 ok y+2@0 x?"), set()),
        # 1 polled a message of 0, and missed the other, which lay behind what it polled
        (("2 ok y+0@0", *BOTH, "0 ok x+1@0 y+2@1", "1 ok x?1@0 y?0@0"), {"G-single"}),
        (("2 ok y+0@0", *BOTH, "0 ok x+1@0 y+2@1", "1 ok x?1@0 y?0@0,2@1"), set()),
        # each missed what the other sent
        (("9 ok x+1@0 y+1@0", *BOTH, "0 ok x?1@0 y+2@1", "1 ok y?1@0 x+2@1"), {"G2"}),
        # a transaction that had ended comes after one that began later
        (("0 ok x+1@1", "1 ok x+2@0"), {"G0-realtime"}),
        (("0 ok x+1@1", "0 ok x+2@0"), {"G0-process"}),
        (("begin 1", "0 ok x+1@1", "1 ok x+2@0"), set()),
        (("0 ok x?1@0", "1 ok x+1@0"), {"G1c-realtime"}),
        (("0 ok x?1@0", "0 ok x+1@0"), {"G1c-process"}),
        (("9 ok x+1@0", "0 ok x+2@1", "1 ok x?1@0"), {"G-single-realtime"}),
        (("9 ok x+1@0", "0 ok x+2@1", "0 ok x?1@0"), {"G-single-process"}),
        (
            ("9 ok x+0@0 y+0@0", "begin 1", "0 ok x+1@1", "0 ok y?0@0", "1 ok y+1@1 x?0@0"),
            {"G2-process"},
        ),
        (
            ("9 ok x+0@0 y+0@0", "begin 1", "0 ok x+1@1", "2 ok y?0@0", "1 ok y+1@1 x?0@0"),
            {"G2-realtime"},
        ),
    ],
)
def test_phenomena(lines: tuple[str, ...], anomalies: set[str]) -> None:
    assert found(check(txns(*lines))) == anomalies
    assert reference.phenomena(txns(*lines)) == anomalies


@pytest.mark.parametrize(
    ("lines", "valid", "count"),
    [
        ((*BOTH, "0 ok x+1@0 y?2@0", "1 ok y+2@0 x?1@0"), False, "G1c"),
        ((*BOTH, "0 ok x+1@0 y?3@0", "1 ok x+2@1", "2 ok x?2@1 y+3@0"), False, "G1c-realtime"),
        ((*BOTH, "0 ok x+1@0 y?3@0 z+8@1", "1 ok x+2@1 y+3@0"), True, "G1c_allowed"),
        ((*BOTH, "0 ok x+1@0 y+4@1", "1 ok x+2@1 y+3@0"), True, "G0_allowed"),
        (
            ("2 ok y+0@0", *BOTH, "0 ok x+1@0 y+2@1", "1 ok x?1@0 y?0@0"),
            True,
            "G-single_informational",
        ),
    ],
)
def test_only_a_circle_of_information_is_a_violation(
    lines: tuple[str, ...], valid: bool, count: str
) -> None:
    verdict = check(txns(*lines))

    assert verdict.valid is valid
    assert verdict.counts[count] == 1


def test_an_unclear_transaction_counts_once_a_member_polled_it() -> None:
    cycle = ("begin 0", "begin 1", "0 info x+1@0 y+4@1", "1 ok x+2@1 y+3@0")

    assert found(check(txns(*cycle))) == set()
    assert found(check(txns(*cycle, "2 ok x?1@0,2@1"))) == {"G0"}


def test_a_cycle_is_described_step_by_step() -> None:
    [finding] = check(txns(*BOTH, "0 ok x+1@0 y?2@0", "1 ok y+2@0 x?1@0")).findings

    assert finding.detail == (
        "let T1 is op 2 of process 0; T2 is op 3 of process 1. T1 < T2, because T2 polled 1 from x, which T1 "
        "had sent. But T2 < T1, because T1 polled 2 from y, which T2 had sent: a contradiction."
    )


def test_every_reason_has_its_words() -> None:
    reported = [
        check(txns(*lines)).findings[0].detail
        for lines in (
            ("0 ok x+1@1", "1 ok x+2@0"),
            ("0 ok x?1@0", "0 ok x+1@0"),
            ("9 ok x+1@0", "0 ok x+2@1", "1 ok x?1@0"),
        )
    ]
    assert "T1 had ended (op 1) before T2 began (op 2)" in reported[0]
    assert "T2 sent 2 to x at offset 0, and the next message there is 1 of T1 at 1" in reported[0]
    assert "process 0 did T1 before T2" in reported[1]
    assert (
        "T2 polled x up to 1 at offset 0, and not 2, which T1 sent to the place behind it"
        in reported[2]
    )


def test_only_what_ran_at_the_same_time_is_searched() -> None:
    calm = [f"{number % 3} ok x+{number}@{number}" for number in range(50)]
    ops = txns(*calm, "begin 8", "begin 9", "8 ok y?1@0 z+1@0", "9 ok y+1@0 z?1@0", "0 ok x+50@50")

    log = TxnLog(context_of(ops).timeline.txns)
    assert [segment[:2] for segment in segments(data_edges(log))] == [(50, 51)]


def test_names_are_those_that_can_be_found() -> None:
    from staticfire.checkers.cycles.cycle_search import LEVELS, PHENOMENA

    made = {phenomenon.name + suffix for phenomenon in PHENOMENA for suffix, _ in LEVELS}
    assert made == set(NAMES)


@st.composite
def histories(draw: st.DrawFn) -> list[Op]:
    """Up to seven transactions of a few processes on two keys; who polls sees whatever was ever sent."""
    calm = draw(st.booleans())  # each sends and polls a little, and succeeds
    number = draw(st.integers(4 if calm else 2, 7))
    sends: list[tuple[str, int, int]] = []
    plans: list[list[str]] = [[] for _ in range(number)]
    ends = {"x": 0, "y": 0}
    most = 1 if calm else 2
    keys = st.lists(st.sampled_from(["x", "y"]), max_size=most)
    planned = [(at, key) for at in range(calm, number) for key in draw(keys)]
    first = [(0, "x"), (0, "y")] if calm else []
    for at, key in first + draw(st.permutations(planned)):  # sends of several lie mixed
        sends.append((key, len(sends), ends[key]))
        known = draw(st.sampled_from(["@", "@", "@", ""]))
        plans[at].append(f"{key}+{len(sends) - 1}" + (f"@{ends[key]}" if known else ""))
        ends[key] += 1
    for at in range(number):
        if sends:
            for key, value, offset in draw(st.lists(st.sampled_from(sends), max_size=most)):
                plans[at].append(f"{key}?{value}@{offset}")
    lines: list[str] = []
    waiting: dict[int, str] = {}
    for words in plans:
        process = draw(st.integers(0, 6 if calm else 2))
        if process in waiting:
            lines.append(waiting.pop(process))
        kind = "ok" if calm else draw(st.sampled_from(["ok", "ok", "ok", "info", "fail"]))
        lines.append(f"begin {process}")
        waiting[process] = f"{process} {kind} {' '.join(words)}"
        if draw(st.booleans()):
            lines.append(waiting.pop(process))
    return txns(*lines, *draw(st.permutations(sorted(waiting.values()))))


@pytest.mark.slow
@STEADY
@given(histories())
def test_against_the_reference(ops: list[Op]) -> None:
    mine = found(check(ops))

    expected = reference.phenomena(ops)
    assert {weakest(mine, name) for name in reference.PATHS} - {None} == expected


@pytest.mark.slow
def test_every_phenomenon_occurs_in_random_histories() -> None:
    seen: Counter[str] = Counter()

    @settings(max_examples=500)
    @given(histories())
    def look(ops: list[Op]) -> None:
        seen.update(reference.phenomena(ops))
        seen.update({anomaly for anomaly, *_ in reference.reads(ops)})

    look()
    phenomena = {f"{name}{level}" for name in reference.PATHS for level in reference.LEVELS}
    rare = {"G2-realtime"}  # planted above
    assert set(seen) | rare == phenomena | {"G1a", "G1b", "precommitted_read"}, seen


def weakest(names: set[str], phenomenon: str) -> str | None:
    return next(
        (phenomenon + level for level in reference.LEVELS if phenomenon + level in names), None
    )
