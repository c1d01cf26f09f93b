"""The facts of a run for `staticfire analyze`: those that it recorded, or those known of a run that broke off."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from staticfire.checkers.formats.columnar.reader import ColumnarHistory
from staticfire.checkers.formats.columnar.schema import FOLDER
from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.harness.recording.nemesis import records_of
from staticfire.harness.run_folder.consistency import (
    expected_facts,
    read_records,
    refuse_contradictions,
)
from staticfire.harness.run_folder.run_folder import CAMPAIGN_FILE, RunFolder
from staticfire.harness.systems.registry import system_of
from staticfire.spark_analysis.runs.inputs import FACTS_FILE, VERDICT_FILE, read_facts


def facts_of_run(run: Path) -> RunFacts:
    """Raises HistoryError, RunFolderError, OSError."""
    told = any((run / name).exists() for name in (FACTS_FILE, VERDICT_FILE))
    if told or not (run / CAMPAIGN_FILE).exists():
        facts = read_facts(run)
        if (run / CAMPAIGN_FILE).exists() and not (run / FACTS_FILE).exists():
            _compare(RunFolder(run))
        return facts
    campaign = RunFolder(run).read_campaign()
    events = ColumnarHistory(run / FOLDER).events()
    facts = system_of(campaign).facts(campaign, records_of(campaign.plan, events), events)
    return replace(facts, unfinished=True)


def _compare(folder: RunFolder) -> None:
    """Raises RunFolderError where the recorded facts contradict the campaign, its faults or the history."""
    campaign, recorded = folder.read_campaign(), folder.read_verdict()["facts"]
    events = ColumnarHistory(folder.columns).events()
    expected = expected_facts(campaign, read_records(folder, campaign), events)
    refuse_contradictions(folder, recorded, expected)
