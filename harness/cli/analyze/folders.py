"""Finds the folders of runs below a path, and other folders, so that no damaged run is silently missing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from staticfire.checkers.formats.columnar.schema import FOLDER
from staticfire.harness.run_folder.run_folder import CAMPAIGN_FILE, VERDICT_FILE
from staticfire.spark_analysis.results.analysis import WITNESS_FILE

MARKS = frozenset({CAMPAIGN_FILE, VERDICT_FILE, "history.jsonl", FOLDER})


def folders_below(path: Path) -> Iterator[Path]:
    """Return every folder of a run at or below `path`, and every other folder without subfolders.

    Skips hidden folders and outputs of `staticfire analyze`. A link counts as a folder of its own.
    """
    try:
        entries = sorted(os.scandir(path), key=lambda entry: entry.name)
    except OSError:  # judging it reports why
        yield path
        return
    names = {entry.name for entry in entries}
    if WITNESS_FILE in names and CAMPAIGN_FILE not in names:
        return
    inside = [entry for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
    if MARKS & names or not inside:
        yield path
        return
    for entry in inside:
        if entry.is_symlink():  # a link may lead back to here
            yield Path(entry.path)
        else:
            yield from folders_below(Path(entry.path))


def is_of_run(folder: Path) -> bool:
    """Whether the folder has any file or folder of a run."""
    return any((folder / name).exists() for name in MARKS)
