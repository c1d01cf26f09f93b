"""Options of a campaign: each field is declared, and bounds are enforced."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from staticfire.harness.campaign.campaign import Campaign, CampaignError
from staticfire.harness.campaign.options import OPTIONS, check_bounds
from staticfire.harness.draws.campaign import draw_campaign

CAMPAIGN = draw_campaign(1, {"plan": ()})
BOUNDED = [name for name, option in OPTIONS.items() if option.bounds is not None]


def campaign_with(name: str, value: Any) -> Campaign:
    return replace(CAMPAIGN, **{name: value})


def test_every_field_is_declared() -> None:
    assert sorted(OPTIONS) == sorted(field.name for field in fields(Campaign))


@pytest.mark.parametrize("name", BOUNDED)
def test_a_number_outside_of_its_bounds_is_refused(name: str) -> None:
    option = OPTIONS[name]
    assert option.bounds is not None
    low, high = option.bounds
    check_bounds(campaign_with(name, low))
    check_bounds(campaign_with(name, high))
    for value in (low - 1, high + 1):
        with pytest.raises(CampaignError) as caught:
            check_bounds(campaign_with(name, value))
        assert str(caught.value) == f"{option.name or name} is {value!r}; allowed: {option.allowed}"
