"""Chooses the runner of a campaign: the simulation or real machines."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.machines.options import MachineOptions
from staticfire.harness.results.run_result import RunResult


def runner_of(campaign: Campaign, provider: MachineOptions) -> Callable[..., RunResult]:
    """Return `run_simulated` or `run_for_real`. Both take campaign, history, observations and progress."""
    if campaign.environment == "simulation":
        from staticfire.harness.runs import simulated_runner

        return simulated_runner.run_simulated
    from staticfire.harness.runs import real_runner

    return partial(real_runner.run_for_real, machine_options=provider)
