"""Runs a campaign where it says: in the simulation or on real machines."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from harness.campaign import Campaign
from harness.environments.fleet_options import FleetOptions
from harness.run_result import RunResult


def runner_of(campaign: Campaign, fleet: FleetOptions) -> Callable[..., RunResult]:
    """`run_simulated` or `run_for_real`, which take the same arguments: campaign, history, observations, progress."""
    if campaign.environment == "simulation":
        from harness import runner

        return runner.run_simulated
    from harness import real_runner

    return partial(real_runner.run_for_real, fleet_options=fleet)
