"""Refuses an option of a campaign: one sentence with its name, its value and what is allowed."""

from __future__ import annotations

from staticfire.harness.campaign.campaign import CampaignError
from staticfire.harness.truncated_repr import truncated_repr


def require(condition: bool, option: str, value: object, allowed: str) -> None:
    """Raises CampaignError with option, value and allowed values, unless the condition holds."""
    if not condition:
        raise CampaignError(f"{option} is {truncated_repr(value)}; allowed: {allowed}")
