"""The commands for next steps with a recorded run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from staticfire.checkers.guarantees.verdict import Validity
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.run_folder.run_folder import CAMPAIGN_FILE
from staticfire.harness.run_folder.shrunk import SHRUNK_CAMPAIGN, SHRUNK_FOLDER


def commands_of(run: Path, campaign: Campaign | None, valid: Validity) -> list[tuple[str, str]]:
    """Return (purpose, command) pairs, the most useful one first."""
    return list(_commands(run, campaign, valid))


def _commands(run: Path, campaign: Campaign | None, valid: Validity) -> Iterator[tuple[str, str]]:
    if campaign is None:
        yield "judge it again, and measure it", _line("analyze", str(run))
        return
    more = ["--system", campaign.system] if ":" in campaign.system else []
    is_simulated = campaign.environment == "simulation"
    if valid is False:
        yield "say why it failed", _line("explain", str(run), *more)
        if is_simulated:
            yield "make it small", _line("shrink", str(run), *more)
            small = run / SHRUNK_FOLDER / SHRUNK_CAMPAIGN
            if small.exists():
                yield "run what was shrunk", _line("run", "--campaign", str(small), *more)
    if is_simulated:
        yield "repeat it exactly", _line("replay", str(run), *more)
    else:
        target = ["--target", campaign.target] if campaign.target != "own" else []
        yield (
            "carry out its plan again",
            _line("run", "--campaign", str(run / CAMPAIGN_FILE), *target, *more),
        )
    yield "judge its files again", _line("check", str(run), *more)


def _line(*words: str) -> str:
    return shlex.join(["staticfire", *words])
