"""The facts of a run for `staticfire analyze`: recorded ones, or derived ones for a run that broke off."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from staticfire.checkers.formats.columnar.reader import ColumnarHistory
from staticfire.checkers.formats.columnar.schema import FOLDER
from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.model.history import torn_reason
from staticfire.checkers.verdicts.compose import RunVerdict
from staticfire.harness.recording.nemesis import records_of
from staticfire.harness.recording.stored_logs import StoredLogs
from staticfire.harness.run_folder.doubts import (
    doubted,
    facts_doubts,
    verdict_doubts,
    with_confirmed_queues,
)
from staticfire.harness.run_folder.run_folder import CAMPAIGN_FILE, RunFolder
from staticfire.harness.systems.registry import system_of
from staticfire.spark_analysis.runs.inputs import FACTS_FILE, VERDICT_FILE, read_facts


def facts_of_run(run: Path) -> RunFacts:
    """Return the facts. Raises HistoryError, OSError; RunFolderError if they contradict campaign, faults or history."""
    is_written = any((run / name).exists() for name in (FACTS_FILE, VERDICT_FILE))
    if is_written or not (run / CAMPAIGN_FILE).exists():
        facts = read_facts(run)
        if not _is_recorded_run(run):
            return facts
        folder = RunFolder(run)
        campaign, events = folder.read_campaign(), ColumnarHistory(folder.columns).events()
        facts_doubts(folder, campaign, events, unchecked=False)
        return with_confirmed_queues(folder, campaign, events, facts)
    campaign = RunFolder(run).read_campaign()
    events = ColumnarHistory(run / FOLDER).events()
    facts = system_of(campaign).facts(campaign, records_of(campaign.plan, events), events)
    return replace(facts, unfinished=True)


def stored_logs_of(run: Path) -> StoredLogs | None:
    """Return the reader of servers' logs; None without a campaign, which names the system. Raises RunFolderError."""
    if not (run / CAMPAIGN_FILE).exists():
        return None
    return system_of(RunFolder(run).read_campaign()).stored_logs


def doubted_verdict(run: Path, facts: RunFacts, verdict: RunVerdict) -> RunVerdict:
    """Return the verdict of an analysis, with the same doubts about its files as in `staticfire check`.

    Raises HistoryError, RunFolderError, OSError.
    """
    folder, doubts = RunFolder(run), list[str]()
    compared = facts.unchecked and _is_recorded_run(run)
    if compared:
        events = ColumnarHistory(folder.columns).events()
        doubts += facts_doubts(folder, folder.read_campaign(), events, unchecked=True)
    if folder.observations.exists() and (torn := torn_reason(folder.observations)):
        doubts.append(torn)
    if compared:
        doubts += verdict_doubts(folder, verdict, is_as_recorded=True)
    return doubted(verdict, doubts)


def _is_recorded_run(run: Path) -> bool:
    """Whether the harness recorded the run, so that a campaign and a verdict lie beside it; not a synthetic history."""
    return (
        (run / CAMPAIGN_FILE).exists()
        and (run / VERDICT_FILE).exists()
        and not (run / FACTS_FILE).exists()
    )
