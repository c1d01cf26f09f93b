"""The search with random mutants itself: that it plants what it says."""

from __future__ import annotations

from random import Random

import pytest

from harness.conformance.case import cases
from system_under_test.protocol.codes import RequestCode
from tests.conformance import random_mutants
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


def test_a_mutant_that_breaks_everything_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = {"lost": random_mutants._ALTERATIONS["lost"]}
    monkeypatch.setattr(random_mutants, "_ALTERATIONS", lost)
    monkeypatch.setattr(random_mutants, "used_codes", lambda: [RequestCode.GET_BROKER_CLUSTER_INFO])

    trial = try_mutant(0)

    assert trial.detected_by == next(iter(cases()))
    assert trial.changed


def test_wire_mutants_are_of_requests_that_cases_send() -> None:
    assert len(used_codes()) > 40
