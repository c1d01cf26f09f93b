"""Draws with a planted defect: the same seed gives the same campaign as without it."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.faults.defects import DEFECTS
from staticfire.harness.cli.options import given_options
from staticfire.harness.draws.campaign import draw_campaign
from tests.support.sample import sample_of

SEEDS = range(8)
UNSET: dict[str, Any] = {"followers": None, "leaders": None, "faults": None}


def differing_lines(seed: int, given: dict[str, Any], defect: str) -> list[tuple[str, str]]:
    """Where the `campaign.toml` with the defect differs from the one without."""
    sound = draw_campaign(seed, {**given, "defect": ""}).to_toml().splitlines()
    planted = draw_campaign(seed, {**given, "defect": defect}).to_toml().splitlines()
    return [pair for pair in zip(sound, planted, strict=True) if pair[0] != pair[1]]


@pytest.mark.slow
@pytest.mark.parametrize("campaign", [None, "default"])
@pytest.mark.parametrize("defect", sample_of(list(DEFECTS), 34))
def test_only_the_name_of_the_defect_differs(defect: str, campaign: str | None) -> None:
    """In its own recipe and in the default campaign."""
    given = given_options(campaign=campaign, defect=defect, **UNSET)
    for seed in SEEDS:
        found = differing_lines(seed, given, defect)
        assert found == [('defect = ""', f'defect = "{defect}"')]


def test_one_way_sends_batches_and_options_are_drawn_with_a_defect() -> None:
    """They were turned off, so a defect was never met by what a swarm meets."""
    defect = next(iter(DEFECTS))
    drawn = [draw_campaign(seed, {"defect": defect}) for seed in range(20)]
    assert any(campaign.batch_share for campaign in drawn)
    assert any(campaign.one_way_share for campaign in drawn)
    assert any(campaign.broker_properties for campaign in drawn)
