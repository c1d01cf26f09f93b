"""`staticfire check`: judge a recorded history again. A pure function of the run folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from checkers.compose import ALL_CHECKERS, CLIENT_CHECKERS, RunVerdict
from checkers.facts import RunFacts
from checkers.history import HistoryError, Observations, Op, read_observations
from harness.campaign import Campaign
from harness.cli.status import BadInput, status_of_validity
from harness.facts import run_facts
from harness.nemesis import records_of
from harness.report.verdict_lines import verdict_lines
from harness.run_folder import RunFolder, RunFolderError
from harness.run_history import read_run_history


@click.command(short_help="Judge a recorded run again.")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--client-only", is_flag=True, help="Use only what clients saw, no observations of nodes."
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Processes that judge columns.",
)
def check(run: Path, client_only: bool, jobs: int) -> int:
    """Judge the history kept in folder RUN again; the verdict depends on its files alone.

    A history whose last line is torn is judged up to the tear. So is the history of a run that did not finish. The
    history may be there as JSON lines (history.jsonl) or as columns (history.parquet/); the verdict is the same.
    Columns may be larger than memory: they are judged queue by queue.

    \b
    Example:
      staticfire check runs/20261120-101500-queue-1

    Exit status: 0 valid, 1 invalid, 2 unknown, 254 bad arguments, 255 harness error.
    """
    folder = RunFolder(run)
    try:
        verdict = judge(folder, client_only=client_only, jobs=jobs)
    except (RunFolderError, HistoryError) as error:
        raise BadInput(str(error)) from error
    except OSError as error:
        raise BadInput(f"{error.filename} cannot be read: {error.strerror}") from error
    print("\n".join(verdict_lines(verdict)))
    return status_of_validity(verdict.valid)


def judge(folder: RunFolder, *, client_only: bool, jobs: int = 1) -> RunVerdict:
    """Raises RunFolderError, HistoryError, or OSError for a file that is not there."""
    campaign = folder.read_campaign()
    history = read_run_history(folder.history, folder.columns, jobs=jobs)
    observed = (
        Observations(records=[], torn=False)
        if client_only
        else read_observations(folder.observations)
    )
    finished = folder.is_finished
    facts = _facts(folder) if finished else facts_so_far(campaign, history.events)
    checkers = CLIENT_CHECKERS if client_only else ALL_CHECKERS
    facts = replace(facts, torn=history.torn, unread=observed.unread)
    return history.check(observed.records, facts, checkers)


def facts_so_far(campaign: Campaign, ops: Sequence[Op]) -> RunFacts:
    """The facts of a run that broke off before it could write them down."""
    return run_facts(campaign, records_of(campaign.plan, ops), ops)


def _facts(folder: RunFolder) -> RunFacts:
    """What the run wrote down about itself. Raises RunFolderError."""
    try:
        return RunFacts.from_json(folder.read_verdict()["facts"])
    except (KeyError, TypeError, AttributeError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise RunFolderError(
            f"the facts in {folder.path}/verdict.json are damaged: {reason}"
        ) from error
