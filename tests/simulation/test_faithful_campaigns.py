"""What 4.9.8 gets wrong shows in faithful mode, to the right checkers, and the hardened mode gets it right."""

from __future__ import annotations

import pytest

from staticfire.harness.campaign.file import campaign_names, load_options
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.runs.simulated_runner import run_simulated
from tests.support.sample import sample_of

CHECKERS = {
    "faithful-early-reads": "loss",
    "faithful-failed-fsync": "durable_before_ack",
    "faithful-forced-deletion": "loss",
    "faithful-full-disk": "loss",
    "faithful-lost-index": "look_ups",
    "faithful-lost-master": "liveness",
    "faithful-name-server-pause": "availability_gaps",
    "faithful-new-slave": "loss",
    "faithful-short-file": "node_exits",
    "faithful-slave-ahead": "durable_before_ack",
    "faithful-slave-returns": "availability_gaps",
    "faithful-stepping-clock": "availability_gaps",
    "faithful-torn-metadata": "node_exits",
}
SEEDS = range(8)  # docs/faithful.md tells how many of them are needed


def test_no_campaign_is_missing() -> None:
    assert list(CHECKERS) == [name for name in campaign_names() if name.startswith("faithful-")]


@pytest.mark.parametrize(("campaign", "checker"), sample_of(list(CHECKERS.items()), 3))
def test_the_campaign_tells_the_modes_apart(campaign: str, checker: str) -> None:
    options = load_options(campaign)
    for seed in SEEDS:
        faithful = run_simulated(draw_campaign(seed, options)).verdict
        if checker in {verdict.checker for verdict in faithful.verdicts if verdict.valid is False}:
            break
    else:
        pytest.fail(f"{checker} does not fire with any of {SEEDS}")
    hardened = run_simulated(draw_campaign(seed, {**options, "mode": "hardened"})).verdict
    assert hardened.valid is True, hardened.findings()
