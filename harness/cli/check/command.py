"""`staticfire check`: judge a recorded history again. A pure function of the run folder."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import click

from staticfire.checkers.formats.chunks.check_files import Progress
from staticfire.checkers.guarantees.facts import Mode, RunFacts
from staticfire.checkers.model.history import (
    HistoryError,
    Observations,
    Op,
    read_observations,
    torn_reason,
)
from staticfire.checkers.verdicts.compose import ALL_CHECKERS, CLIENT_CHECKERS, RunVerdict
from staticfire.harness.campaign.campaign import MODES, Campaign
from staticfire.harness.cli.check.edn import edn_options, is_edn, judge_edn, refuse_facts
from staticfire.harness.cli.completion import complete_run
from staticfire.harness.cli.options import system_option
from staticfire.harness.cli.outputs import Outputs, output_options, verbose_option
from staticfire.harness.cli.progress import working
from staticfire.harness.cli.status import BadInput, status_of_validity
from staticfire.harness.console.brief import verdict_brief
from staticfire.harness.recording.history import read_run_history
from staticfire.harness.recording.nemesis import records_of
from staticfire.harness.report.verdict_lines import verdict_lines
from staticfire.harness.run_folder.doubts import (
    doubted,
    facts_doubts,
    verdict_doubts,
    with_confirmed_queues,
)
from staticfire.harness.run_folder.run_folder import RunFolder, RunFolderError
from staticfire.harness.systems.registry import system_of


@click.command(short_help="Judge a recorded run again.")
@click.argument("run", type=click.Path(path_type=Path), shell_complete=complete_run)
@system_option(expose=False)
@click.option(
    "--client-only",
    is_flag=True,
    help="Use only what clients recorded, and no observations of nodes.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Number of processes that judge a columnar history.",
)
@click.option(
    "--mode",
    type=click.Choice(MODES),
    help="Judge by the promises of this mode. Default: the mode of the run.",
)
@verbose_option
@output_options
@edn_options
def check(
    run: Path,
    client_only: bool,
    jobs: int,
    mode: str | None,
    is_verbose: bool,
    junit: Path | None,
    is_markdown: bool,
    is_json: bool,
    **of_edn: Any,
) -> int:
    """Judge the history kept in folder RUN again; the verdict depends on its files alone.

    The command compares every file with the checksum that the run wrote. It judges a torn history, or that of a run
    that did not finish, up to the end of what it can read; neither is ever valid. The verdict is the same from JSON
    lines (history.jsonl) and from columns (history.parquet/). Columns may be larger than memory, because the command
    judges them queue by queue.

    RUN may also be a history of Jepsen's Kafka workload (.edn); see docs/jepsen.md.

    \b
    Example:
      staticfire check runs/20261120-101500-queue-1
      staticfire check history.edn --flush sync --replication sync
      staticfire check runs/20261120-101500-queue-1 --json --junit check.xml

    Exit status: 0 valid, 1 invalid, 2 unknown, 254 bad arguments, 255 harness error.
    """
    outputs = Outputs(junit=junit, is_markdown=is_markdown, is_json=is_json)
    outputs.check()
    started_s = time.monotonic()
    try:
        with working("judging", unit="rows") as progress:
            if is_edn(run):
                verdict = judge_edn(run, mode, **of_edn)
            else:
                refuse_facts(run, **of_edn)
                verdict = judge(
                    RunFolder(run),
                    client_only=client_only,
                    jobs=jobs,
                    mode=mode,
                    progress=lambda done, total: progress.update(done, total=total),
                )
    except (RunFolderError, HistoryError) as error:
        raise BadInput(str(error)) from error
    except OSError as error:
        raise BadInput(f"{error.filename} cannot be read: {error.strerror}") from error
    if outputs.is_console:
        print("\n".join(verdict_lines(verdict) if is_verbose else verdict_brief(verdict)))
    outputs.say(run.resolve().name, verdict, time.monotonic() - started_s)
    return status_of_validity(verdict.valid)


def judge(
    folder: RunFolder,
    *,
    client_only: bool,
    jobs: int = 1,
    mode: str | None = None,
    progress: Progress = lambda _done, _all: None,
) -> RunVerdict:
    """Judge a recorded run by the promises of `mode`, or else of its own mode.

    Raises RunFolderError, HistoryError, or OSError for a missing file.
    """
    campaign = folder.read_campaign()
    finished = folder.is_finished
    unchecked = finished and not folder.verify()
    history = read_run_history(folder.history, folder.columns, jobs=jobs, progress=progress)
    observed = (
        Observations(records=[], torn=False)
        if client_only
        else read_observations(folder.observations)
    )
    facts = _facts(folder) if finished else facts_so_far(campaign, history.events)
    doubts = facts_doubts(folder, campaign, history.events, unchecked) if finished else []
    if finished:
        facts = with_confirmed_queues(folder, campaign, history.events, facts)
    if observed.torn:
        doubts.append(torn_reason(folder.observations))
    checkers = CLIENT_CHECKERS if client_only else ALL_CHECKERS
    facts = replace(
        facts,
        torn=history.torn or facts.torn,
        unread=observed.unread or facts.unread,
        unfinished=not finished or facts.unfinished,
        unchecked=unchecked,
    )
    judged_in = cast(Mode, mode or facts.mode)
    verdict = history.check(observed.records, replace(facts, mode=judged_in), checkers)
    if unchecked:
        is_as_recorded = not client_only and judged_in == facts.mode
        doubts += verdict_doubts(folder, verdict, is_as_recorded=is_as_recorded)
    verdict = doubted(verdict, doubts)
    if judged_in == facts.mode:
        return verdict
    note = f"the run was made in {facts.mode} mode, and is judged in {mode} mode"
    return replace(verdict, caveats=(*verdict.caveats, note))


def facts_so_far(campaign: Campaign, ops: Sequence[Op]) -> RunFacts:
    """Return the facts of a run that broke off before it recorded them."""
    return system_of(campaign).facts(campaign, records_of(campaign.plan, ops), ops)


def _facts(folder: RunFolder) -> RunFacts:
    """Return the facts that the run recorded. Raises RunFolderError."""
    try:
        return RunFacts.from_json(folder.read_verdict()["facts"])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise RunFolderError(
            f"the facts in {folder.path}/verdict.json are damaged: {reason}"
        ) from error
