"""Two ways to run a function over many items: a loop in this process, or a job on Spark.

Functions and items are pickled. If a function raises HistoryError or OSError, the job ends with that error without a
retry, because a damaged file stays damaged. Spark repeats tasks that fail for any other reason.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyarrow as pa

from staticfire.checkers.model.history import HistoryError
from staticfire.spark_analysis.engine.java import SparkError
from staticfire.spark_analysis.engine.session import explain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")
Report = Callable[[str, int, int], None]  # takes the name of the work, steps done, all steps
TASKS_A_CORE = 2
RESULT = pa.schema([("item", pa.int64()), ("failed", pa.bool_()), ("data", pa.binary())])
RESULT_DDL = "item long, failed boolean, data binary"
POLL_S = 0.5


def silent(_what: str, _done: int, _total: int) -> None:
    """Report nothing."""


class Engine(Protocol):
    """Runs functions over items."""

    parallel: int  # functions that run at the same time

    def map(
        self, what: str, function: Callable[[T], R], items: Sequence[T], weights: Sequence[int]
    ) -> list[R]:
        """Return the results in the order of the items.

        Args:
            what: the name of the work, for progress and errors.
            function: called with each item; may raise HistoryError and OSError.
            weights: the cost of each item, in any unit.

        Raises HistoryError, SparkError, OSError.
        """


@dataclass(slots=True)
class InProcess:
    """Runs functions in this process, one item after the other."""

    report: Report = silent
    parallel: int = 1

    def map(
        self, what: str, function: Callable[[T], R], items: Sequence[T], weights: Sequence[int]
    ) -> list[R]:
        results, total, done = [], sum(weights), 0
        for item, weight in zip(items, weights, strict=True):
            results.append(function(item))
            done += weight
            self.report(what, done, total)
        return results


class OnSpark:
    """Runs functions as a Spark job. Its tasks are Python workers, which read the files themselves."""

    def __init__(self, spark: SparkSession, report: Report = silent) -> None:
        self._spark, self._report = spark, report
        self.parallel = parallelism(spark)

    def map(
        self, what: str, function: Callable[[T], R], items: Sequence[T], weights: Sequence[int]
    ) -> list[R]:
        if not items:
            return []

        tasks = packed(weights, TASKS_A_CORE * self.parallel)
        work = [[(number, pickle.dumps(items[number])) for number in task] for task in tasks]
        job = partial(run_tasks, _by_value(function), work)
        frame = self._spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(job, RESULT_DDL)
        try:
            with self._reported(what, len(tasks)):
                table = frame.toArrow()
        except Exception as error:  # pyspark, py4j and gRPC each raise their own
            raise SparkError(f"{what} failed on Spark: {explain(error)}") from error
        return _in_order(table, len(items), what)

    @contextmanager
    def _reported(self, what: str, tasks: int) -> Iterator[None]:
        """Report how many tasks are done while they run; with Spark Connect only the begin and the end."""
        self._report(what, 0, tasks)
        tracker = None
        with suppress(Exception):  # Spark Connect has no context
            tracker = self._spark.sparkContext.statusTracker()
        if tracker is None:
            yield
        else:
            ended = threading.Event()
            watcher = threading.Thread(
                target=_watch,
                args=(tracker, partial(self._report, what), tasks, ended),
                daemon=True,
            )
            watcher.start()
            try:
                yield
            finally:
                ended.set()
                watcher.join()
        self._report(what, tasks, tasks)


def _by_value(function: Callable[..., object]) -> bytes:
    """Pickle a function by value, including checkers that workers cannot import."""
    from pyspark import cloudpickle

    data: bytes = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
    return data


def _watch(
    tracker: Any, report: Callable[[int, int], None], tasks: int, ended: threading.Event
) -> None:
    while not ended.wait(POLL_S):
        with suppress(Exception):  # the JVM may be shutting down
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            report(sum(stage.numCompletedTasks for stage in stages if stage), tasks)


def run_tasks(
    function: bytes, work: list[list[tuple[int, bytes]]], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Carry out tasks in a Python worker; `batches` has their numbers. Yields a row for each item."""
    run: Callable[[object], object] = pickle.loads(function)
    for batch in batches:
        for task in batch.column(0).to_pylist():
            for number, item in work[task]:
                try:
                    result, failed = run(pickle.loads(item)), False
                except (HistoryError, OSError) as error:
                    result, failed = error, True
                columns = [[number], [failed], [pickle.dumps(result)]]
                yield pa.RecordBatch.from_arrays(
                    [pa.array(c, f.type) for c, f in zip(columns, RESULT, strict=True)],
                    schema=RESULT,
                )


def _in_order(table: pa.Table, items: int, what: str) -> list[Any]:
    numbers = table["item"].to_pylist()
    # a missing result must not become a verdict over half of a history
    if sorted(numbers) != list(range(items)):
        raise SparkError(f"{what}: {len(numbers)} results came for {items} work units")
    results: list[object] = [None] * items
    for number, failed, data in zip(
        numbers, table["failed"].to_pylist(), table["data"].to_pylist(), strict=True
    ):
        results[number] = pickle.loads(data)
        if failed:
            raise results[number]
    return results


def packed(weights: Sequence[int], tasks: int) -> list[list[int]]:
    """Distribute items over at most `tasks` tasks: the heaviest first, each to the task with the least weight."""
    tasks = max(1, min(tasks, len(weights)))
    chosen: list[list[int]] = [[] for _ in range(tasks)]
    loads = [0] * tasks
    for item in sorted(range(len(weights)), key=lambda number: (-weights[number], number)):
        least = min(range(tasks), key=loads.__getitem__)
        chosen[least].append(item)
        loads[least] += weights[item]
    return chosen


def parallelism(spark: SparkSession) -> int:
    """Return how many tasks run at the same time, as far as Spark reports it; otherwise 2."""
    with suppress(Exception):  # Spark Connect has no context
        return _cores_of_cluster(spark)
    return 2


def _cores_of_cluster(spark: SparkSession) -> int:
    """Return the number of cores. In a cluster, first wait up to 10 s for an executor to register."""
    context = spark.sparkContext
    if str(context.master).startswith("local"):
        return int(context.defaultParallelism)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if len(context._jsc.sc().statusTracker().getExecutorInfos()) > 1:
            break
        time.sleep(0.2)
    return max(1, int(context.defaultParallelism))
