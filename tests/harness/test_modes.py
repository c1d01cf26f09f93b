"""Modes of judging: any target may be judged by the promises of either mode."""

from __future__ import annotations

import pytest

from staticfire.harness.console.console import campaign_lines
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.rocketmq.facts import run_facts

ADDRESS = {"environment": "address", "brokers": ("b:0",), "followers": (0,), "faults": ()}
TARGETS = [
    {"target": "own"},
    {"target": "apache", "environment": "docker"},
    {"target": "address", **ADDRESS, "broker_properties": (), "token": "x", "flush": "async"},
]


@pytest.mark.parametrize("mode", ["hardened", "faithful"])
@pytest.mark.parametrize("target", TARGETS)
def test_any_target_has_either_mode(target: dict[str, object], mode: str) -> None:
    campaign = draw_campaign(1, {**target, "replication": "none", "mode": mode})
    assert run_facts(campaign, [], []).mode == mode
    is_said = f"{mode.upper()} mode" in campaign_lines(campaign)[0]
    assert is_said == (mode == "faithful" or target["target"] != "own")
