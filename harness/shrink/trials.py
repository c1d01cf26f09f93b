"""One trial of a candidate: whether its run fails in the same way, under its own seed or a few others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from staticfire.checkers.op_kinds.catalogue import SENDS
from staticfire.harness.campaign.campaign import SEED_MAX, Campaign
from staticfire.harness.results.fingerprint import Fingerprint, fingerprint_of_run
from staticfire.harness.results.run_result import RunResult

SEEDS = 4  # of a candidate: its own, and the following ones


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A campaign that was run, and what its run showed."""

    campaign: Campaign
    digest: str
    sends: int  # begun by producers, messages of batches each
    fingerprint: Fingerprint | None


def run_trial(campaign: Campaign) -> Trial:
    """Raises what runs raise."""
    from staticfire.harness.runs.simulated_runner import run_simulated

    result = run_simulated(campaign)
    return Trial(
        campaign=campaign,
        digest=result.digest,
        sends=_sends(result),
        fingerprint=fingerprint_of_run(result),
    )


def failing_trial(campaign: Campaign, wanted: Fingerprint) -> Trial | str | None:
    """The first seed of the candidate that shows the fingerprint; None if none does; why, if it cannot be run."""
    for candidate in _reseeded(campaign):
        try:
            trial = run_trial(candidate)
        except (
            Exception
        ) as error:  # a candidate that cannot be run is no smaller form of the failure
            return f"{type(error).__name__}: {error}"
        if wanted.is_shown_by(trial.fingerprint):
            return trial
    return None


def _reseeded(campaign: Campaign) -> Iterator[Campaign]:
    for number in range(SEEDS):
        yield replace(campaign, seed=(campaign.seed + number) % SEED_MAX)


def _sends(result: RunResult) -> int:
    return sum(op.f in SENDS and op.type == "invoke" for op in result.ops)
