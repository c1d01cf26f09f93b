"""The work of a Spark executor in an analysis of many runs: judges some of the runs, each as a whole."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path

from staticfire.harness.cli.analyze.run_rows import RunRow, row_of

FUNCTION = f"{__name__}:run_pickled"
TRIAL = pickle.dumps([])  # with no runs: checks that this executor can import all modules


def pickled(folders: Sequence[Path]) -> bytes:
    """Return a pickled call of `run_pickled`."""
    return pickle.dumps(list(folders))


def run_pickled(call: bytes) -> bytes:
    """Judge each folder, and return their pickled rows."""
    folders: list[Path] = pickle.loads(call)
    rows: list[RunRow] = [row_of(folder) for folder in folders]
    return pickle.dumps(rows)
