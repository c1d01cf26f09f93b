"""The search with random mutants itself: that it plants what it says."""

from __future__ import annotations

from random import Random

import pytest

from tests.conformance.random_mutants import functions, state_mutant, try_mutant, used_codes


def test_mutant_is_planted_and_taken_back() -> None:
    before = [function.__code__ for function in functions()]

    with pytest.MonkeyPatch.context() as patch:
        state_mutant(Random(1), patch)
        changed = sum(
            function.__code__ is not code
            for function, code in zip(functions(), before, strict=True)
        )

    assert changed == 1
    assert [function.__code__ for function in functions()] == before


def test_a_mutant_that_breaks_everything_is_detected() -> None:
    trial = try_mutant(1)

    assert trial.detected_by == "RMQ-ADM-01"
    assert trial.changed


def test_wire_mutants_are_of_requests_that_cases_send() -> None:
    assert len(used_codes()) > 40
