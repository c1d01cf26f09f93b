"""What 4.9.8 gets wrong shows in faithful mode, to the right checkers, and the hardened mode gets it right."""

from __future__ import annotations

import pytest

from harness.campaign_draw import draw_campaign
from harness.campaign_file import load_options
from harness.runner import run_simulated


@pytest.mark.parametrize(
    ("campaign", "checker"),
    [
        ("faithful-failed-fsync", "durable_before_ack"),
        ("faithful-slave-returns", "availability_gaps"),
    ],
)
def test_the_campaign_tells_the_modes_apart(campaign: str, checker: str) -> None:
    options = load_options(campaign)
    faithful = run_simulated(draw_campaign(0, options)).verdict
    hardened = run_simulated(draw_campaign(0, {**options, "mode": "hardened"})).verdict
    fired = {verdict.checker for verdict in faithful.verdicts if verdict.valid is False}
    assert checker in fired
    assert hardened.valid is True, hardened.findings()
