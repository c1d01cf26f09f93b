"""Histories with the facts of another run, without checksums: refused in one sentence, never valid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from staticfire.checkers.agreement.contradictions import contradictions
from staticfire.checkers.guarantees.facts import FaultFacts, RunFacts
from staticfire.checkers.model.building.column_builder import build_columns
from staticfire.checkers.model.history import Op
from staticfire.checkers.verdicts.compose import check_run
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.results.run_result import RunResult
from staticfire.harness.runs.simulated_runner import run_simulated


@pytest.fixture(scope="module")
def run() -> RunResult:
    options = {"time_s": 6.0, "acks_min": 1, "faults": ("kill", "pause")}
    return run_simulated(draw_campaign(3, options))


def found(ops: list[Op], facts: RunFacts) -> list[str]:
    columns, timeline = build_columns(ops)
    return list(contradictions(facts, timeline, columns.names))


@pytest.mark.slow
def test_a_run_agrees_with_its_own_facts(run: RunResult) -> None:
    assert found(run.ops, run.facts) == []
    verdict = check_run(run.ops, run.observations, replace(run.facts, unchecked=True))
    assert verdict.valid is True
    assert verdict.caveats == (
        "no checksums: history, observations and facts may not belong together",
    )


def changed_fault(facts: RunFacts, **fields: Any) -> dict[str, Any]:
    first, *others = facts.faults
    return {"faults": (replace(first, **fields), *others)}


CHANGES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "another broker": lambda facts: {"replica_sets": {"broker-z": ("broker-z-0",)}, "living": None},
    "another topic": lambda facts: {
        "topics": ("other",),
        "groups": dict.fromkeys(facts.groups, ("other",)),
    },
    "another group": lambda facts: {"groups": {"other": facts.topics}},
    "a producer less": lambda facts: {"producers": facts.producers[1:]},
    "a producer more": lambda facts: {"producers": (*facts.producers, "producer-99")},
    "a consumer less": lambda facts: {"consumers": facts.consumers[1:]},
    "no faults": lambda facts: {"faults": ()},
    "a fault less": lambda facts: {"faults": facts.faults[1:]},
    "a fault more": lambda facts: {
        "faults": (
            *facts.faults,
            FaultFacts(fault_id="99", kind="power_cut", targets=("broker-a-0",), fired_ns=10**9),
        )
    },
    "another kind": lambda facts: changed_fault(facts, kind="power_cut"),
    "another target": lambda facts: changed_fault(facts, targets=("ns-9",)),
    "fired later": lambda facts: changed_fault(facts, fired_ns=facts.faults[0].fired_ns + 10**9),
    "healed earlier": lambda facts: changed_fault(facts, healed_ns=facts.faults[0].fired_ns),
    "never bit": lambda facts: changed_fault(facts, bitten_ns=None),
    "healed before it was fired": lambda facts: {
        "faults": (
            *facts.faults,
            FaultFacts(
                fault_id="98", kind="kill", targets=("broker-a-0",), fired_ns=9, healed_ns=8
            ),
        )
    },
    "bit before it was fired": lambda facts: changed_fault(facts, bitten_ns=1),
    "bit and was never fired": lambda facts: changed_fault(facts, fired_ns=None),
    "healed later": lambda facts: changed_fault(facts, healed_ns=facts.faults[0].healed_ns + 10**9),
}


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
def test_facts_that_contradict_are_one_sentence_and_never_valid(
    change: str, run: RunResult
) -> None:
    facts = replace(run.facts, unchecked=True, **CHANGES[change](run.facts))
    [*sentences] = found(run.ops, facts)
    assert sentences
    assert all("\n" not in sentence for sentence in sentences)
    verdict = check_run(run.ops, run.observations, facts)
    assert verdict.valid is not True
    assert set(sentences) <= set(verdict.below_floors)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [4, 5, 6])
def test_the_facts_of_another_seed_contradict(seed: int, run: RunResult) -> None:
    other = run_simulated(
        draw_campaign(seed, {"time_s": 6.0, "acks_min": 1, "faults": ("kill", "pause")})
    )
    assert found(run.ops, other.facts)
    assert found(other.ops, run.facts)
