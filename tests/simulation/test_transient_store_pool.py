"""A master with a transient store pool that is killed: its tail is lost, as promised, and nothing else is."""

from __future__ import annotations

from dataclasses import replace

from staticfire.checkers.verdicts.compose import check_run
from staticfire.harness.campaign.file import load_options
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.runs.simulated_runner import run_simulated

SEEDS = range(3)


def test_kills_take_the_tail_and_under_the_usual_promise_this_is_a_loss() -> None:
    given = {**load_options("transient-store-pool"), "faults": ("kill",), "time_s": 30.0}
    allowed = 0
    judged_as_usual = []
    for seed in SEEDS:
        result = run_simulated(draw_campaign(seed, given))
        assert result.verdict.valid is True
        allowed += sum(part.counts.get("lost_allowed", 0) for part in result.verdict.verdicts)
        usual = replace(result.facts, transient_pool=False)
        judged_as_usual.append(check_run(result.ops, result.observations, usual).valid)
    assert allowed > 0
    assert False in judged_as_usual
