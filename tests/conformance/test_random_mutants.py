"""The search with random mutants itself: that it plants what it says."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from functools import partial
from random import Random

import pytest

from staticfire.harness.conformance.case import cases
from staticfire.system_under_test.protocol.codes import RequestCode
from tests.conformance import random_mutants
from tests.conformance.random_mutants import functions, state_mutant, try_mutant, used_codes


def test_mutant_is_planted_and_taken_back() -> None:
    before = [function.__code__ for function in functions()]

    with pytest.MonkeyPatch.context() as patch:
        state_mutant(Random(1), patch, [])
        changed = sum(
            function.__code__ is not code
            for function, code in zip(functions(), before, strict=True)
        )

    assert changed == 1
    assert [function.__code__ for function in functions()] == before


def test_a_mutant_that_breaks_everything_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = {"lost": random_mutants._ALTERATIONS["lost"]}
    monkeypatch.setattr(random_mutants, "_ALTERATIONS", lost)
    monkeypatch.setattr(random_mutants, "used_codes", lambda: [RequestCode.GET_BROKER_CLUSTER_INFO])

    trial = try_mutant(0)

    assert trial.detected_by == next(iter(cases()))
    assert trial.changed


def test_wire_mutants_are_of_requests_that_cases_send() -> None:
    assert len(used_codes()) > 40


def planted(
    source: Callable[[int, int], object], place: type[ast.AST]
) -> tuple[Callable[[int, int], object], list[bool]]:
    """The function with a mutant in the first place of this kind, and what it notes."""
    changes: list[bool] = []
    tree = ast.parse(textwrap.dedent(inspect.getsource(source)))
    planting = random_mutants._Planting(
        next(node for node in ast.walk(tree) if isinstance(node, place))
    )
    names = {random_mutants.HOOK: partial(random_mutants._compute, changes)}
    exec(compile(ast.fix_missing_locations(planting.visit(tree)), "mutant", "exec"), names)
    function = names[source.__name__]
    assert callable(function)
    return function, changes


def below(one: int, other: int) -> bool:
    return one < other


def total(one: int, other: int) -> int:
    return one + other


def either(one: int, other: int) -> object:
    return one or other


def test_a_mutant_counts_only_when_it_makes_a_difference() -> None:
    mutated, changes = planted(below, ast.Compare)
    assert (mutated(1, 2), mutated(3, 2), changes) == (True, False, [])
    assert (mutated(2, 2), changes) == (True, [True])

    mutated, changes = planted(total, ast.BinOp)
    assert (mutated(5, 0), changes) == (5, [])
    assert (mutated(5, 1), changes) == (4, [True])

    mutated, changes = planted(either, ast.BoolOp)
    assert (mutated(3, 4), changes) == (4, [True])


def test_mutants_are_of_the_system_alone() -> None:
    assert {tuple(function.__module__.split(".")[:2]) for function in functions()} == {
        ("staticfire", "system_under_test")
    }
