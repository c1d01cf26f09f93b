"""The part of an analysis of many runs that an executor of Spark carries out: it judges some runs whole."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path

from staticfire.harness.cli.analyze.run_rows import RunRow, row_of

FUNCTION = f"{__name__}:run_pickled"
TRIAL = pickle.dumps([])  # of no runs: whether this executor can import what judging needs


def pickled(folders: Sequence[Path]) -> bytes:
    """A call of `run_pickled`."""
    return pickle.dumps(list(folders))


def run_pickled(call: bytes) -> bytes:
    """Judge each folder, and return their pickled rows."""
    folders: list[Path] = pickle.loads(call)
    rows: list[RunRow] = [row_of(folder) for folder in folders]
    return pickle.dumps(rows)
