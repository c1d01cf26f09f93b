"""A recorded run as its folder holds it: verdict, ops, observations, faults and facts, verified."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.model.history import Op, read_history, read_observations
from staticfire.checkers.verdicts.compose import RunVerdict
from staticfire.harness.explain.life import Record
from staticfire.harness.run_folder.facts_file import facts_of_run
from staticfire.harness.run_folder.run_folder import VERDICT_FILE, RunFolder, RunFolderError

FAULT_FIELDS = {"kind", "targets", "bitten", "struck_ns", "healed_ns", "evidence"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """`is_torn`: the history ends in the middle of a line. `end_ns`: of the run, by its clock."""

    verdict: RunVerdict
    digest: str
    end_ns: int
    ops: Sequence[Op]
    observations: Sequence[Record]
    faults: Sequence[Record]
    facts: RunFacts
    is_torn: bool


def read_run(folder: RunFolder) -> RecordedRun:
    """Raises RunFolderError, HistoryError, OSError."""
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
        faults=_faults(folder.path / "faults.jsonl"),
        facts=facts_of_run(folder.path),
        is_torn=history.torn,
    )


def _verdict(folder: RunFolder, document: dict[str, Any]) -> RunVerdict:
    """Raises RunFolderError."""
    try:
        return RunVerdict.from_json(document["verdict"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunFolderError(f"{folder.path / VERDICT_FILE} holds no verdict: {error}") from error


def _faults(path: Path) -> list[dict[str, Any]]:
    """Raises RunFolderError."""
    if not path.exists():
        return []
    faults = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            fault = orjson.loads(line)
        except ValueError as error:
            raise RunFolderError(f"{path}: line {number} is no JSON: {error}") from error
        if not isinstance(fault, dict) or not fault.keys() >= FAULT_FIELDS:
            raise RunFolderError(f"{path}: line {number} is no fault")
        faults.append(fault)
    return faults
