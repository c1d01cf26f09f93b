"""The executors of Spark as workers of a hunt."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from staticfire.harness.cli.hunt.executor import FUNCTION, READY, pickled
from staticfire.harness.cli.hunt.seeds import SeedResult, failed_seed
from staticfire.harness.cli.hunt.workers import Task, Workers
from staticfire.harness.cli.status import HarnessError, turn_errors
from staticfire.spark_analysis.engine.java import SparkError
from staticfire.spark_analysis.engine.scatter import Scatter, scatter
from staticfire.spark_analysis.engine.session import Settings


@contextmanager
def workers_on_spark(settings: Settings, limit_s: float | None = None) -> Iterator[Workers]:
    """Yield executors, which get this checkout with its planted bug.

    Args:
        limit_s: wall time for a seed; None: no limit.

    Raises HarnessError, also in the block when Spark ends.
    """
    with (
        turn_errors(SparkError, into=HarnessError),
        scatter(settings, FUNCTION, READY) as executors,
    ):
        yield _Executors(executors, limit_s)


class _Executors:
    def __init__(self, scatter: Scatter, limit_s: float | None) -> None:
        self._scatter, self._limit_s = scatter, limit_s

    def results(self, tasks: Sequence[Task]) -> Iterator[SeedResult]:
        calls = (pickled(task, self._limit_s) for task in tasks)
        with turn_errors(SparkError, into=HarnessError):
            for number, result in self._scatter.results(calls):
                if isinstance(result, SparkError):
                    yield failed_seed(tasks[number].seed, tasks[number].given, str(result))
                else:
                    yield pickle.loads(result)
