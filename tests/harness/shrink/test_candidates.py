"""Simpler campaigns of a campaign."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.shrink.candidates import PASSES, allowed


@pytest.fixture(scope="module")
def campaign() -> Campaign:
    options = {"workload": "queue", "time_s": 30.0, "slaves": (1, 1), "faults": ("kill", "pause")}
    return draw_campaign(3, options)


@pytest.mark.parametrize("name", PASSES)
def test_every_pass_makes_campaigns_that_a_run_accepts(name: str, campaign: Campaign) -> None:
    assert list(allowed(PASSES[name](campaign)))


def test_faults_keep_their_times_when_others_go(campaign: Campaign) -> None:
    for candidate in PASSES["faults"](campaign):
        assert set(map(repr, candidate.plan)) < set(map(repr, campaign.plan))


def test_a_run_that_ends_earlier_is_otherwise_the_same(campaign: Campaign) -> None:
    for candidate in PASSES["ending"](campaign):
        assert set(map(repr, candidate.plan)) < set(map(repr, campaign.plan))
        assert candidate.load_s <= campaign.load_s
        assert candidate.seed == campaign.seed
        assert candidate.think_ms == campaign.think_ms


def test_no_node_goes_that_a_fault_strikes(campaign: Campaign) -> None:
    for candidate in allowed(PASSES["nodes"](campaign)):
        topology = candidate.topology()
        targets = {target for planned in candidate.plan for target in planned.targets}
        assert targets <= {*topology.servers, *topology.clients}


def test_the_load_ends_behind_the_last_fault(campaign: Campaign) -> None:
    for candidate in PASSES["times"](campaign):
        assert candidate.load_s >= max(planned.until_s for planned in candidate.plan)
        assert min(planned.at_s for planned in candidate.plan) >= 0


def test_all_options_go_back_to_their_defaults_at_once(campaign: Campaign) -> None:
    changed = replace(campaign, batch_share=0.2, illegal_share=0.01, acl=True, seed=9)
    boldest = next(PASSES["options"](changed))
    assert (boldest.batch_share, boldest.illegal_share, boldest.acl) == (0.0, 0.0, False)
    assert boldest.seed == 9
    assert boldest.plan == campaign.plan
