"""Verdicts of Jepsen's histories: as its own checker's, or stricter where docs/jepsen.md says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from staticfire.checkers.formats.jepsen.judging import judge_jepsen
from staticfire.checkers.formats.jepsen.reading import ASSIGNED, GROUP
from staticfire.checkers.formats.jepsen.writing import JepsenWriter
from staticfire.harness.histories.sources import source_at
from tests.support.jepsen_cases import CASES, judge_lines, read_edn, violations

ROOT = Path(__file__).parents[3]
RUNS = ROOT / "data" / "apache-runs"
PAGE = (ROOT.parent / "docs/jepsen.md").read_text(encoding="utf-8")
ROWS = {
    cells[0]: cells[1:]
    for line in PAGE.splitlines()
    if line.startswith("| ")
    if (cells := [cell.strip() for cell in line.strip("|").split(" | ")])
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_case(name: str) -> None:
    case = CASES[name]
    verdict = judge_lines(case["ops"])
    assert (verdict.valid, set(violations(verdict))) == (case["valid"], set(case["ours"]))


@pytest.mark.parametrize("name", CASES)
def test_the_page_lists_the_case(name: str) -> None:
    case = CASES[name]
    theirs, ours, why = ROWS[name]
    names = [f"`{anomaly}`" for anomaly in case["ours"]]
    shown = ", ".join(names) or {True: "valid", "unknown": "unknown"}[case["valid"]]
    assert (theirs, ours, why) == (
        ", ".join(case["jepsen"]) or "nothing",
        shown,
        case.get("why", ""),
    )


def test_where_our_verdict_differs_the_case_says_why() -> None:
    for name, case in CASES.items():
        bad = [one for one in case["jepsen"] if "(" not in one]
        weaker = bad and case["valid"] is not False
        stronger = case["ours"] and not bad
        assert not (weaker or stronger) or "why" in case or case["valid"] == "unknown", name


PERFECT = """
0 invoke assign [0 1]
0 ok assign [0 1]
1 invoke send [[:send 0 1] [:send 1 1]]
1 ok send [[:send 0 [0 1]] [:send 1 [0 1]]]
2 invoke subscribe [0]
2 info subscribe [0]
2 invoke poll [[:poll]]
2 ok poll [[:poll {0 [[0 1]]}]]
0 invoke poll [[:poll]]
0 ok poll [[:poll {0 [[0 1]], 1 [[0 1]]}]]
"""


@pytest.mark.parametrize("flush", ["sync", "async"])
@pytest.mark.parametrize("replication", ["none", "async", "sync"])
def test_a_perfect_history_is_valid(flush: str, replication: str) -> None:
    verdict = judge_lines(PERFECT, flush=flush, replication=replication)
    assert verdict.valid is True, verdict


DRAINED = """
1 invoke send [[:send 0 1] [:send 0 2]]
1 ok send [[:send 0 [0 1]] [:send 0 [1 2]]]
0 invoke assign [0] true
0 ok assign [0] true
0 invoke poll [[:poll]]
0 ok poll [[:poll {0 [[0 1]]}]]
"""
EMPTY = "0 invoke poll [[:poll]]\n0 ok poll [[:poll {}]]\n"
SENT = "1 invoke send [[:send 0 3]]\n1 ok send [[:send 0 [2 3]]]\n"
ELSEWHERE = "0 invoke assign [1] true\n0 ok assign [1] true\n"


@pytest.mark.parametrize(
    ("ops", "lost"),
    [
        (DRAINED + EMPTY * 3, 1),
        (DRAINED + EMPTY * 2, 0),  # a poll may be empty because it did not wait long enough
        (DRAINED + EMPTY * 2 + SENT + EMPTY, 0),  # what was sent meanwhile was not there before
        (DRAINED + EMPTY * 2 + SENT + EMPTY * 3, 2),
        (DRAINED + ELSEWHERE + EMPTY * 3, 0),  # it no longer reads the queue
        (DRAINED.replace(" true", "") + EMPTY * 3, 1),  # its first message says where it is
        (
            DRAINED.replace("0 ok poll", "0 info poll") + EMPTY * 3,
            0,
        ),  # it never got that far for certain
    ],
)
def test_final_polls_are_a_drain(ops: str, lost: int) -> None:
    verdict = judge_lines(ops)
    assert violations(verdict) == ({"lost": lost} if lost else {})
    assert verdict.valid == (False if lost else "unknown")


LATE = """
9 invoke send [[:send 0 1] [:send 0 2]]
9 ok send [[:send 0 [0 1]] [:send 0 [1 2]]]
0 invoke assign [0]
0 ok assign [0]
0 invoke poll [[:poll]]
0 ok poll [[:poll {0 [[0 1] [1 2]]}]]
1 invoke subscribe [0]
1 ok subscribe [0]
1 invoke poll [[:poll]]
1 ok poll [[:poll {0 [[1 2]]}]]
"""


def test_a_group_must_see_everything_only_if_one_says_so() -> None:
    assert judge_lines(LATE).valid is True
    assert violations(judge_lines(LATE, groups=(GROUP,))) == {"unseen": 1}
    assert judge_lines(LATE, groups=(ASSIGNED,)).valid is True


LOST_WRITES = """
9 invoke send [[:send 0 1]]
9 ok send [[:send 0 [0 1]]]
:nemesis info lose-unfsynced-writes ["n1"]
9 invoke send [[:send 0 2]]
9 ok send [[:send 0 [1 2]]]
0 invoke poll [[:poll]]
0 ok poll [[:poll {0 [[1 2]]}]]
"""


@pytest.mark.parametrize(
    ("flush", "replication", "lost"),
    [("sync", "none", 1), ("async", "none", 0), ("async", "sync", 1)],
)
def test_flush_and_replication_say_what_a_nemesis_may_cost(
    flush: str, replication: str, lost: int
) -> None:
    verdict = judge_lines(LOST_WRITES, flush=flush, replication=replication)
    assert violations(verdict).get("lost", 0) == lost


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("kills-valid", {}),
        ("power-cuts-sync-valid", {}),
        ("full-disk", {"lost": 83}),
        ("new-slave", {"lost": 945}),
        ("forced-deletion", {"int_poll_skip": 4, "lost": 220, "poll_skip": 15}),
    ],
)
def test_a_recorded_run_has_the_same_verdict_after_a_round_trip(
    name: str, expected: dict[str, int]
) -> None:
    ops = list(source_at(RUNS / name).ops())
    writer = JepsenWriter()
    writer.look(ops)
    text = "".join(line for op in ops if (line := writer.line(op)) is not None)
    verdict = judge_jepsen(read_edn(text), flush="sync", replication="sync", groups=(GROUP,))

    assert violations(verdict) == expected
    assert verdict.valid is not bool(expected)
