"""Missing evidence that a run was meant to record: the verdict is unknown, not "does not apply"."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staticfire.checkers.engine.evidence import CONTENTS, NEEDS
from staticfire.checkers.model.building.column_values import EVENT_WIDTH
from staticfire.checkers.model.history import Op
from staticfire.checkers.verdicts.compose import check_run
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.results.run_result import RunResult
from staticfire.harness.runs.simulated_runner import run_simulated

# The checkers that read observations, by kind of what they read.
OBSERVED = {
    "ack_durability": {"durable_before_ack"},
    "replica": {"replica_prefix"},
    "queue_entries": {"queue_entries"},
    "route": {"routes", "name_server_switch"},
}


@pytest.fixture(scope="module", params=["queue", "transactional", "request-reply"])
def run(request: pytest.FixtureRequest) -> RunResult:
    options = {"workload": request.param, "time_s": 20.0, "acks_min": 1, "faults": ("kill",)}
    options |= {"followers": (1,), "replication": "sync"}
    result = run_simulated(draw_campaign(5, options))
    assert result.verdict.valid is True
    return result


def without(ops: list[Op], f: str) -> list[Op]:
    if f == CONTENTS:
        return [_without_contents(op) if op.f == "consume" else op for op in ops]
    kept = [op for op in ops if op.f != f or (f == "open" and "expression" not in op.value)]
    return [replace(op, index=index) for index, op in enumerate(kept)]


def _without_contents(op: Op) -> Op:
    rows = [row[:EVENT_WIDTH] for row in op.value["messages"]]
    return replace(op, value={**op.value, "messages": rows})


@pytest.mark.slow
@pytest.mark.parametrize("checker", NEEDS)
def test_a_checker_without_its_evidence_is_unknown(checker: str, run: RunResult) -> None:
    needed = NEEDS[checker]
    if needed not in run.facts.due:
        assert not any(op.f == needed for op in run.ops)
        return
    verdict = check_run(without(run.ops, needed), run.observations, run.facts)
    [answer] = [of for of in verdict.verdicts if of.checker == checker]
    assert (
        answer.valid is not True
    )  # the checker itself may say more than that nothing was observed
    assert answer.valid is False or answer.reason
    assert verdict.valid is not True


@pytest.mark.slow
@pytest.mark.parametrize("kind", OBSERVED)
def test_a_checker_without_its_observations_is_unknown(kind: str, run: RunResult) -> None:
    seen = [of for of in run.observations if of["kind"] != kind]
    assert len(seen) < len(run.observations)
    verdict = check_run(run.ops, seen, run.facts)
    unknown = {of.checker for of in verdict.verdicts if of.valid == "unknown"}
    assert unknown >= OBSERVED[kind]
    assert verdict.valid == "unknown"


@pytest.mark.slow
def test_what_a_client_need_not_report_is_no_question(run: RunResult) -> None:
    facts = replace(run.facts, due=())
    ops = without(without(run.ops, "assign"), "look_up")
    asked = {of.checker for of in check_run(ops, run.observations, facts).verdicts}
    assert not asked & {"groups", "look_ups"}
