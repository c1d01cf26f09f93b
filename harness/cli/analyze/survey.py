"""Judges many runs, each as a whole, in this process or as calls on Spark. Every run gets a row."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from staticfire.checkers.guarantees.verdict import Validity, combine
from staticfire.harness.cli.analyze.executor import FUNCTION, TRIAL, pickled
from staticfire.harness.cli.analyze.folders import folders_below, is_of_run
from staticfire.harness.cli.analyze.run_rows import RunRow, failed_row, row_of
from staticfire.harness.cli.progress import Progress
from staticfire.harness.cli.status import BadInput
from staticfire.spark_analysis.engine.java import SparkError
from staticfire.spark_analysis.engine.scatter import Scatter, scatter
from staticfire.spark_analysis.engine.session import Settings
from staticfire.spark_analysis.results.compare import Compared, Comparison, compare

RUNS_A_CALL = 16  # a call costs Spark about a twentieth of a second
NO_COMMIT = "no commit"


def folders_of(paths: Sequence[Path]) -> dict[Path, str]:
    """Return every folder to be judged, with the path below which it was found. Raises BadInput."""
    found: dict[Path, str] = {}
    for path in paths:
        if not path.is_dir():
            raise BadInput(f"{path} is not a folder; give a folder of runs")
        below = [folder.absolute() for folder in folders_below(path)]
        if not any(map(is_of_run, below)):
            raise BadInput(f"{path} holds no runs; give a folder of runs")
        found |= dict.fromkeys(below, path.name or str(path))
    return found


def judged(
    folders: Sequence[Path], settings: Settings | None, progress: Progress
) -> Iterator[RunRow]:
    """Yield a row for each folder, as they come. Raises SparkError."""
    rows = map(row_of, folders) if settings is None else _on_spark(folders, settings)
    failed = 0
    for done, row in enumerate(rows, 1):
        failed += row.failed
        progress.update(
            done, what="judging", total=len(folders), details=f"{failed} failed" if failed else ""
        )
        yield row


def _on_spark(folders: Sequence[Path], settings: Settings) -> Iterator[RunRow]:
    """Raises SparkError."""
    with scatter(settings, FUNCTION, TRIAL) as executors:
        yield from judged_by(executors, folders)


def judged_by(
    executors: Scatter, folders: Sequence[Path], runs_a_call: int = RUNS_A_CALL
) -> Iterator[RunRow]:
    """Yield a row for each folder, as they come.

    A call that Spark gives up is repeated, one run at a time, so that only the run that ends its process has failed.
    Raises SparkError.
    """
    length = max(1, min(runs_a_call, len(folders) // executors.width))
    calls = [folders[start : start + length] for start in range(0, len(folders), length)]
    again: list[Path] = []
    for number, answer in executors.results(map(pickled, calls)):
        if not isinstance(answer, SparkError):
            yield from pickle.loads(answer)
        elif len(calls[number]) == 1:
            yield failed_row(calls[number][0], str(answer))
        else:
            again += calls[number]
    if again:
        yield from judged_by(executors, again, 1)


def with_versions(rows: Iterable[RunRow], found: dict[Path, str]) -> list[RunRow]:
    """Return the rows in the order of versions: PATHs if there are several, else commits by their first run's time."""
    labels = list(dict.fromkeys(found.values()))
    if len(labels) > 1:
        named = [replace(row, version=found[Path(row.run)]) for row in rows]
        return sorted(named, key=lambda row: (labels.index(row.version), row.run))
    named = [replace(row, version="" if row.failed else row.commit or NO_COMMIT) for row in rows]
    named.sort(key=lambda row: (row.made, row.run))
    order = list(dict.fromkeys(row.version for row in named))
    key = {version: (version == NO_COMMIT, order.index(version)) for version in order}
    return sorted(named, key=lambda row: (key[row.version], row.run))


def comparison_of(rows: Iterable[RunRow]) -> Comparison:
    """Compare the judged runs. Runs without a commit come last and take no part in regressions."""
    comparison = compare(
        [
            Compared(label=row.version, valid=row.valid, anomalies=row.anomalies, faults=row.faults)
            for row in rows
            if not row.failed
        ]
    )
    of_commits = (one for one in comparison.regressions if one.after != NO_COMMIT)
    return replace(comparison, regressions=tuple(of_commits))


def validity_of(rows: Iterable[RunRow]) -> Validity:
    """Return the verdict over all rows, in which a run that cannot be judged counts as unknown."""
    return combine(row.valid for row in rows)
