"""Reasons to doubt the files of a run. With any of them its verdict is at best unknown.

Checksums tie the files of a folder together. Without them the facts must follow from the campaign, and the recorded
verdict must have the same counts as a new verdict over the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.model.history import Op
from staticfire.checkers.verdicts.compose import RunVerdict
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.run_folder.consistency import (
    differences,
    expected_facts,
    read_records,
    refuse_contradictions,
)
from staticfire.harness.run_folder.run_folder import RunFolder, RunFolderError
from staticfire.harness.version import versions

COUNTED = ("acked", "weak", "unknown", "failed", "deliveries")  # in every recorded verdict


def facts_doubts(
    folder: RunFolder, campaign: Campaign, events: Sequence[Op], unchecked: bool
) -> list[str]:
    """Yield reasons to doubt facts without checksums. Raises RunFolderError if another file contradicts them."""
    recorded: Any = folder.read_verdict()["facts"]
    expected = expected_facts(campaign, read_records(folder, campaign), events)
    refuse_contradictions(folder, recorded, expected)
    if not unchecked:  # another version may have written the rest differently
        return []
    return list(differences(recorded, expected, is_same_version=_is_same_version(folder)))


def with_confirmed_queues(
    folder: RunFolder, campaign: Campaign, events: Sequence[Op], facts: RunFacts
) -> RunFacts:
    """Return the facts with what leaders had confirmed. Earlier versions have that in faults.jsonl alone.

    Raises RunFolderError.
    """
    recorded: Any = folder.read_verdict()["facts"]
    lacking = {fault["fault_id"] for fault in recorded["faults"] if "confirmed" not in fault}
    if not lacking:
        return facts
    expected = expected_facts(campaign, read_records(folder, campaign), events)
    confirmed = {fault.fault_id: fault.confirmed for fault in expected.faults}
    faults = (
        replace(fault, confirmed=confirmed.get(fault.fault_id, ()))
        if fault.fault_id in lacking
        else fault
        for fault in facts.faults
    )
    return replace(facts, faults=tuple(faults))


def verdict_doubts(
    folder: RunFolder, verdict: RunVerdict, *, is_as_recorded: bool
) -> Iterator[str]:
    """Yield a sentence for each count of the recorded verdict that the files do not confirm.

    For runs without checksums, where nothing else detects a history cut off behind the drain. A verdict of this version
    over the same evidence (`is_as_recorded`) has the same counts. Raises RunFolderError.
    """
    recorded: Any = folder.read_verdict()["verdict"]
    try:
        counted = {name: recorded["counts"][name] for name in COUNTED}
        by_checker = {of["checker"]: dict(of["counts"]) for of in recorded["verdicts"]}
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise RunFolderError(f"the verdict in verdict.json is damaged: {error!r}") from error
    for name, times in counted.items():
        if times != verdict.counts.get(name, 0):
            yield (
                f"the recorded verdict counts {times} {name}, the history has {verdict.counts.get(name, 0)}: it is not "
                "whole, or of another run"
            )
    for name in verdict.not_applicable:
        if any(by_checker.get(name, {}).values()):
            yield (
                f"the recorded verdict rests on {name}, of which this history has nothing: it is not whole, or of "
                "another run"
            )
    if not is_as_recorded or not _is_same_version(folder):
        return
    for of in verdict.verdicts:
        then = by_checker.get(of.checker, {})
        for name in sorted(then.keys() | of.counts.keys()):
            if then.get(name, 0) != of.counts.get(name, 0):
                yield (
                    f"the recorded verdict of {of.checker} counts {then.get(name, 0)} {name}, and the files come to "
                    f"{of.counts.get(name, 0)}: they are not whole, or of another run"
                )


def doubted(verdict: RunVerdict, doubts: Sequence[str]) -> RunVerdict:
    """Return the verdict, which is not valid if there is a reason to doubt the files."""
    if not doubts:
        return verdict
    return replace(
        verdict,
        valid=False if verdict.valid is False else "unknown",
        below_floors=(*verdict.below_floors, *doubts),
    )


def _is_same_version(folder: RunFolder) -> bool:
    recorded = folder.read_verdict().get("versions")
    return isinstance(recorded, dict) and recorded.get("staticfire") == versions()["staticfire"]
