"""Runs a campaign where it says: in the simulation or on real machines."""

from __future__ import annotations

from collections.abc import Callable

from harness.campaign import Campaign
from harness.run_result import RunResult


def runner_of(campaign: Campaign) -> Callable[..., RunResult]:
    """`run_simulated` or `run_for_real`, which take the same arguments."""
    if campaign.environment == "simulation":
        from harness import runner

        return runner.run_simulated
    from harness import real_runner

    return real_runner.run_for_real
