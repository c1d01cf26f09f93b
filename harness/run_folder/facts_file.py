"""The facts of a run for `staticfire analyze`: those that it recorded, or those known of a run that broke off."""

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
from staticfire.harness.run_folder.doubts import doubted, facts_doubts, verdict_doubts
from staticfire.harness.run_folder.run_folder import CAMPAIGN_FILE, RunFolder
from staticfire.harness.systems.registry import system_of
from staticfire.spark_analysis.runs.inputs import FACTS_FILE, VERDICT_FILE, read_facts


def facts_of_run(run: Path) -> RunFacts:
    """Raises HistoryError, OSError; RunFolderError where facts contradict the campaign, its faults or the history."""
    is_written = any((run / name).exists() for name in (FACTS_FILE, VERDICT_FILE))
    if is_written or not (run / CAMPAIGN_FILE).exists():
        facts = read_facts(run)
        if _has_campaign(run):
            _doubts_about(RunFolder(run), unchecked=False)
        return facts
    campaign = RunFolder(run).read_campaign()
    events = ColumnarHistory(run / FOLDER).events()
    facts = system_of(campaign).facts(campaign, records_of(campaign.plan, events), events)
    return replace(facts, unfinished=True)


def stored_logs_of(run: Path) -> StoredLogs | None:
    """Reads the logs of the run's servers; None without a campaign, which names the system. Raises RunFolderError."""
    if not (run / CAMPAIGN_FILE).exists():
        return None
    return system_of(RunFolder(run).read_campaign()).stored_logs


def doubted_verdict(run: Path, facts: RunFacts, verdict: RunVerdict) -> RunVerdict:
    """The verdict of an analysis, as far as its files can be believed: what `staticfire check` doubts is doubted here.

    Raises HistoryError, RunFolderError, OSError.
    """
    folder, doubts = RunFolder(run), list[str]()
    compared = facts.unchecked and _has_campaign(run)
    if compared:
        doubts += _doubts_about(folder, unchecked=True)
    if folder.observations.exists() and (torn := torn_reason(folder.observations)):
        doubts.append(torn)
    if compared:
        doubts += verdict_doubts(folder, verdict, is_as_recorded=True)
    return doubted(verdict, doubts)


def _has_campaign(run: Path) -> bool:
    """Whether the recorded facts can be held against a campaign; those of a synthetic history cannot."""
    return (
        (run / CAMPAIGN_FILE).exists()
        and (run / VERDICT_FILE).exists()
        and not (run / FACTS_FILE).exists()
    )


def _doubts_about(folder: RunFolder, *, unchecked: bool) -> list[str]:
    events = ColumnarHistory(folder.columns).events()
    return facts_doubts(folder, folder.read_campaign(), events, unchecked)
