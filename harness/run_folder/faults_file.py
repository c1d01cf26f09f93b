"""Reads faults.jsonl of a run folder: each planned fault and its outcome."""

from __future__ import annotations

from pathlib import Path

import orjson

from staticfire.checkers.model.plain_files import read_plain
from staticfire.harness.run_folder.run_folder import RunFolderError

FAULTS_BYTES_MAX = 64 << 20
FAULT_FIELDS = {"kind", "targets", "bitten", "fired_ns", "healed_ns", "evidence"}


def read_faults(path: Path) -> list[dict[str, object]]:
    """Return the lines of faults.jsonl; none without the file. Raises RunFolderError, HistoryError, OSError."""
    if not path.exists():
        return []
    faults = []
    for number, line in enumerate(read_plain(path, FAULTS_BYTES_MAX).splitlines(), 1):
        try:
            fault = orjson.loads(line)
        except ValueError as error:
            raise RunFolderError(f"{path}: line {number} is no JSON: {error}") from error
        if not _is_fault(fault):
            raise RunFolderError(f"{path}: line {number} is no fault")
        faults.append({"struck_ns": fault["fired_ns"], **fault})  # older runs have no other fields
    return faults


def _is_fault(fault: object) -> bool:
    """Whether a line of faults.jsonl has the fields of a fault, with their types."""
    return (
        isinstance(fault, dict)
        and fault.keys() >= FAULT_FIELDS
        and isinstance(fault["kind"], str)
        and isinstance(fault["targets"], list)
        and all(isinstance(node, str) for node in fault["targets"])
        and isinstance(fault["evidence"], dict)
        and all(
            isinstance(fault.get(name), int | None)
            for name in ("fired_ns", "struck_ns", "healed_ns")
        )
        and isinstance(fault.get("incidents", []), list)
        and all(map(_is_incident, fault.get("incidents", ())))
    )


def _is_incident(incident: object) -> bool:
    """Whether a value has the fields of an incident, an effect of a fault on a disk."""
    return (
        isinstance(incident, dict)
        and isinstance(incident.get("node"), str)
        and isinstance(incident.get("at_ns"), int)
        and isinstance(incident.get("what"), str)
        and isinstance(incident.get("dropped"), list)
        and all(map(_is_dropped, incident["dropped"]))
    )


def _is_dropped(part: object) -> bool:
    """Whether a value is a part of a file that a power cut dropped."""
    return (
        isinstance(part, dict)
        and isinstance(part.get("path"), str)
        and all(isinstance(part.get(name), int) for name in ("start", "end"))
    )
