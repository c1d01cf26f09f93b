"""The executors of Spark as workers of a hunt."""

from __future__ import annotations

import pickle
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from staticfire.harness.cli.hunt.executor import FUNCTION, READY, pickled
from staticfire.harness.cli.hunt.seeds import SeedResult, failed_seed
from staticfire.harness.cli.hunt.workers import Task, Workers
from staticfire.harness.cli.status import HarnessError
from staticfire.spark_analysis.engine.java import SparkError
from staticfire.spark_analysis.engine.scatter import Scatter, package_archive
from staticfire.spark_analysis.engine.session import Settings, spark_session


@contextmanager
def workers_on_spark(settings: Settings, limit_s: float | None = None) -> Iterator[Workers]:
    """Executors, which get this checkout with the planted bug that it has.

    Args:
        limit_s: wall time that a seed may take; None is any.

    Raises HarnessError, also in the block when Spark ends.
    """
    folder = Path(tempfile.mkdtemp(prefix="staticfire-hunt-"))
    try:
        archive = package_archive(folder)
        with spark_session(settings) as spark:
            scatter = Scatter(spark, archive, FUNCTION)
            try:
                _check(scatter)
                yield _Executors(scatter, limit_s)
            finally:
                scatter.end()
    except SparkError as error:
        raise HarnessError(str(error)) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _check(scatter: Scatter) -> None:
    """Otherwise every seed would fail. Raises SparkError."""
    for _, answer in scatter.results([READY]):
        if isinstance(answer, SparkError):
            raise SparkError(f"no executor can run a seed: {answer}")


class _Executors:
    def __init__(self, scatter: Scatter, limit_s: float | None) -> None:
        self._scatter, self._limit_s = scatter, limit_s

    def results(self, tasks: Sequence[Task]) -> Iterator[SeedResult]:
        calls = (pickled(task, self._limit_s) for task in tasks)
        try:
            for number, result in self._scatter.results(calls):
                if isinstance(result, SparkError):
                    yield failed_seed(tasks[number].seed, tasks[number].given, str(result))
                else:
                    yield pickle.loads(result)
        except SparkError as error:
            raise HarnessError(str(error)) from error
