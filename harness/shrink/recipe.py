"""The recipe of a failed run on real machines: commands that try it again, since such a run does not repeat."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from staticfire.checkers.verdicts.compose import RunVerdict
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.recording.nemesis import FaultRecord
from staticfire.harness.results.fingerprint import (
    Fingerprint,
    fault_of,
    full_fingerprint,
    witness_of,
)
from staticfire.harness.shrink.timing import ending_at
from staticfire.harness.shrink.witness import with_plan

RECIPE_FILE = "recipe.toml"
SEEDS = "0-19"
BEFORE_S = 5.0  # of load before the only fault
TAIL_S = 10.0  # of load after it


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A smaller campaign for a failure.

    Attributes:
        fingerprint: the fingerprint of the failure.
        campaign: has a plan of only the fault that preceded the failure, which strikes early.
        is_smaller: whether its plan differs from that of the run.
    """

    fingerprint: Fingerprint
    campaign: Campaign
    is_smaller: bool

    def lines(self, run: Path, out: Path) -> list[str]:
        """Return the commands, each with a description."""
        folder, recipe = shlex.quote(str(run)), shlex.quote(str(out / RECIPE_FILE))
        commands = [
            (
                f"staticfire resimulate {folder}",
                "looks for the failure in the simulation, to shrink it there",
            ),
            (f"staticfire run --campaign {folder}/campaign.toml", "does the whole plan again"),
        ]
        if self.is_smaller:
            hunted = f"--seeds {SEEDS} --until-found --anomaly {self.fingerprint.leading}"
            what = f"does {self._kept()}, with several seeds"
            commands.append((f"staticfire hunt --campaign {recipe} {hunted}", what))
        return [
            f"failure   {self.fingerprint}",
            f"recipe    a run in {self.campaign.environment} repeats no other bit by bit; these commands try it again, "
            "with the options of machines that the run had",
            *(f"go on     {command}  # {what}" for command, what in commands),
        ]

    def _kept(self) -> str:
        if not self.campaign.plan:
            return "the load alone, without a fault"
        one = self.campaign.plan[0]
        return f"{one.kind} of {', '.join(one.targets)} alone"


def recipe_of(
    campaign: Campaign, verdict: RunVerdict, faults: Sequence[FaultRecord]
) -> Recipe | None:
    """Return the recipe of a recorded run; None if its verdict has no violation."""
    topology = campaign.topology()
    fingerprint = full_fingerprint(verdict, faults, topology)
    witness = witness_of(verdict, fingerprint)
    if fingerprint is None:
        return None
    last = None if witness is None else fault_of(witness, faults, topology)
    kept = [] if last is None else [replace(last.planned, at_s=BEFORE_S)]
    smaller = with_plan(replace(campaign, acks_min=0), kept)
    if kept:
        smaller = ending_at(smaller, kept[0].until_s + TAIL_S)
    is_smaller = smaller.plan != campaign.plan
    return Recipe(fingerprint=fingerprint, campaign=smaller, is_smaller=is_smaller)
