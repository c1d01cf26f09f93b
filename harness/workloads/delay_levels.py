"""Durations of the delay levels of a campaign's brokers."""

from __future__ import annotations

from staticfire.harness.campaign.campaign import Campaign
from staticfire.system_under_test.store.delay_levels import DELAY_LEVELS_MS, parse_delay_levels

PROPERTY = "messageDelayLevel"


def delay_levels_ms(campaign: Campaign) -> tuple[int, ...]:
    """Return the durations in milliseconds, level 1 first."""
    # Imported here, since a defect may have to be planted in the system first.
    text = dict(campaign.broker_properties).get(PROPERTY)
    return tuple(DELAY_LEVELS_MS if text is None else parse_delay_levels(text))
