"""Marks in blocks of code, and the ranking of functions by the runs that reach them."""

from __future__ import annotations

import builtins
from dataclasses import replace
from itertools import islice

import pytest

from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.explain import code_marks
from staticfire.harness.explain.code_marks import Block, marked, reached
from staticfire.harness.explain.reached_code import (
    SEEDS,
    Ran,
    ReachedCode,
    RepetitionFailed,
    check_repeated,
    variants_of,
)
from staticfire.harness.explain.recorded_run import NotRepeated
from staticfire.harness.results.fingerprint import Fingerprint

SOURCE = '''
"""A title."""
from __future__ import annotations

class Log:
    def put(self, size):
        """Its first line is a text."""
        if size > 4:
            raise ValueError(size)
        else:
            size += 1
        return size

def many(sizes):
    found = []
    for size in sizes:
        try:
            found.append(Log().put(size))
        except ValueError:
            found.append(None)
        finally:
            size = 0
    return found

async def never():
    while True:
        pass
'''


def blocks_of(*sizes: int, monkeypatch: pytest.MonkeyPatch) -> tuple[object, set[tuple[str, int]]]:
    monkeypatch.setattr(builtins, code_marks.MARKS, code_marks._reached, raising=False)
    space: dict[str, object] = {}
    exec(compile(marked(SOURCE, "log.py"), "log.py", "exec"), space)
    reached()
    many = space["many"]
    assert callable(many)
    result = many(sizes)
    found = reached()
    assert {block.module for block in found} <= {"log.py"}
    return result, {(block.function, block.line) for block in found}


def test_marked_code_does_the_same_and_says_what_it_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert blocks_of(monkeypatch=monkeypatch) == ([], {("many", 15)})
    passed = {("many", 15), ("many", 17), ("many", 18), ("many", 22), ("Log.put", 7)}
    assert blocks_of(1, monkeypatch=monkeypatch) == ([2], {*passed, ("Log.put", 11)})
    raised = {*passed, ("Log.put", 9), ("many", 20)}
    assert blocks_of(9, monkeypatch=monkeypatch) == ([None], raised)


def test_a_process_that_has_imported_the_system_cannot_mark_it() -> None:
    with pytest.raises(RuntimeError, match="is imported before its marks"):
        code_marks.begin()


def a(function: str, line: int = 1) -> Block:
    return Block("store/log.py", function, line)


def test_functions_are_ranked_by_their_best_block() -> None:
    always, rare, wrong = a("Log.put"), a("Log.put", 9), a("Log.recover")
    part = ReachedCode(
        is_complete=True,
        failing=[frozenset({always, wrong}), frozenset({always, wrong, rare})],
        passing=[frozenset({always}), frozenset({always, rare})],
    )
    assert [(one.block, one.failing, one.others) for one in part.functions()] == [(wrong, 2, 0)]
    [line] = part.lines()
    assert line == (
        "code      store/log.py:1 Log.recover: 2 of 2 that fail like this, 0 of 2 that pass"
    )
    document = part.to_json()
    assert document["functions"][0] == {
        "module": "store/log.py",
        "function": "Log.recover",
        "line": 1,
        "score": 1.0,
        "failing": 2,
        "others": 0,
    }


def test_code_that_all_failing_runs_reach_and_some_passing_ones_comes_second() -> None:
    begun, wrong = a("begin"), a("recover")
    part = ReachedCode(
        is_complete=True,
        failing=[frozenset({begun, wrong})] * 3,
        passing=[frozenset({begun}), frozenset(), frozenset()],
    )
    assert [one.block.function for one in part.functions()] == ["recover", "begin"]


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (
            ReachedCode(is_complete=True, failing=[frozenset({a("put")})]),
            "1 fail like this, and 0 fail otherwise",
        ),
        (
            ReachedCode(
                is_complete=True, failing=[frozenset({a("put")})], passing=[frozenset({a("put")})]
            ),
            "1 fail like this, and 1 pass",
        ),
    ],
)
def test_where_nothing_tells_runs_apart_it_says_so(part: ReachedCode, text: str) -> None:
    assert part.lines() == [f"code      no code tells runs apart: {text}"]


def test_where_no_run_passes_those_that_fail_otherwise_are_the_others() -> None:
    part = ReachedCode(
        is_complete=True,
        failing=[frozenset({a("put"), a("cut")})],
        otherwise=[frozenset({a("put")})],
    )
    assert part.lines() == [
        "code      store/log.py:1 cut: 1 of 1 that fail like this, 0 of 1 that fail otherwise"
    ]
    part.passing.append(frozenset({a("cut")}))
    assert [one.block.function for one in part.functions()] == ["put"]


def test_the_time_is_over() -> None:
    part = ReachedCode()
    assert part.lines()[-1] == "          the time was over, --budget allows more"


def test_variants_are_the_run_without_faults_with_other_seeds_and_with_one_fault_less() -> None:
    campaign = draw_campaign(3, {"faults": ("kill", "pause"), "time_s": 20.0})
    assert len(campaign.plan) > 1
    first, bare, *others = variants_of(campaign)
    assert first == campaign
    assert bare == replace(campaign, plan=(), faults=())
    seeds = [one.seed for one in others if one.plan == campaign.plan]
    assert seeds == [campaign.seed + number for number in range(1, SEEDS + 1)]
    less = [one for one in others if one.plan != campaign.plan]
    assert {len(one.plan) for one in less} == {len(campaign.plan) - 1}
    assert len({str(one.plan) for one in less}) == len(campaign.plan)
    assert [one.seed - campaign.seed for one in islice(others, 4)] == [1, 0, 2, 0]


def test_a_run_without_faults_has_other_seeds_alone() -> None:
    campaign = replace(draw_campaign(3, {"time_s": 20.0}), plan=(), faults=())
    assert len({one.seed for one in variants_of(campaign)}) == SEEDS + 1


WANTED = Fingerprint("loss", "lost")


@pytest.mark.parametrize(
    ("one", "error", "text"),
    [
        (Ran(fingerprint=None, failed="its process was killed"), RepetitionFailed, "was killed"),
        (Ran(fingerprint=None, blocks=frozenset({a("put")})), NotRepeated, "ends otherwise"),
        (Ran(fingerprint=WANTED), RepetitionFailed, "reached no code of staticfire.system"),
    ],
)
def test_a_repetition_that_tells_nothing_is_an_error(
    one: Ran, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        check_repeated(one, WANTED)
