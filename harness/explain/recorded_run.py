"""Reads a recorded run from its folder and verifies it: verdict, ops, observations, faults and facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.model.history import Op, read_history, read_observations
from staticfire.checkers.verdicts.compose import RunVerdict
from staticfire.harness.explain.life import Record
from staticfire.harness.recording.stored_logs import StoredLogs
from staticfire.harness.run_folder.facts_file import facts_of_run, stored_logs_of
from staticfire.harness.run_folder.faults_file import read_faults
from staticfire.harness.run_folder.run_folder import VERDICT_FILE, RunFolder, RunFolderError


class NotRepeated(ValueError):
    """This version does not reproduce the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """A run read from its folder.

    `is_torn`: the history ends in the middle of a line. `end_ns`: end of the run, by its clock.
    """

    verdict: RunVerdict
    digest: str
    end_ns: int
    ops: Sequence[Op]
    observations: Sequence[Record]
    faults: Sequence[Record]
    facts: RunFacts
    is_torn: bool
    stored_logs: StoredLogs | None


def read_run(folder: RunFolder) -> RecordedRun:
    """Read a run folder. Raises RunFolderError, HistoryError, OSError."""
    folder.verify()
    document = folder.read_verdict()
    verdict = _verdict(folder, document)
    history = read_history(folder.history)
    return RecordedRun(
        verdict=verdict,
        digest=str(document["digest"]),
        end_ns=max((op.time_ns for op in history.ops), default=0),
        ops=history.ops,
        observations=read_observations(folder.observations).records,
        faults=read_faults(folder.path / "faults.jsonl"),
        facts=facts_of_run(folder.path),
        is_torn=history.torn,
        stored_logs=stored_logs_of(folder.path),
    )


def _verdict(folder: RunFolder, document: dict[str, Any]) -> RunVerdict:
    """Read the verdict. Raises RunFolderError."""
    try:
        return RunVerdict.from_json(document["verdict"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunFolderError(f"{folder.path / VERDICT_FILE} holds no verdict: {error}") from error
