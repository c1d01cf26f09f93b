"""Runs many independent calls on the executors of Spark, each as a job of its own, and yields their results.

Executors get the whole package as an archive, which comes first on their import path, so they import the same code as
the driver. If an executor is lost, Spark repeats its calls. A call that fails for good does not affect the others.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_DEFLATED, ZipFile

import staticfire
from staticfire.spark_analysis.engine.engines import TASKS_A_CORE, parallelism
from staticfire.spark_analysis.engine.java import SparkError
from staticfire.spark_analysis.engine.session import Settings, explain, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TREE = "staticfire-tree"  # the name of the unpacked archive on an executor
WITHOUT_EXECUTORS_S = 120.0  # after this time without executors, waiting calls fail
CHECK_INTERVAL_S = 2.0
THREADS_MAX = 1000
NOT_SENT = {"__pycache__", ".mypy_cache", ".ruff_cache"}


@contextmanager
def scatter(settings: Settings, function: str, trial: bytes) -> Iterator[Scatter]:
    """Yield executors that have this checkout with its planted bug.

    Args:
        settings: where and how Spark runs.
        function: see Scatter.
        trial: a call that an executor must carry out first, so that a mistake does not fail thousands of calls.

    Raises SparkError.
    """
    folder = Path(tempfile.mkdtemp(prefix="staticfire-scatter-"))
    try:
        archive = package_archive(folder)
        with spark_session(settings) as spark:
            executors = Scatter(spark, archive, function)
            try:
                for _, answer in executors.results([trial]):
                    if isinstance(answer, SparkError):
                        raise SparkError(f"no executor can do this work: {answer}")
                yield executors
            finally:
                executors.end()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Scatter:
    """Runs calls on executors.

    Args:
        archive: a file made by `package_archive`, which must not be removed meanwhile.
        function: `module:name` of a function of the package that takes and returns bytes.
    """

    def __init__(self, spark: SparkSession, archive: Path, function: str) -> None:
        self._spark, self._function = spark, function
        self._context = spark.sparkContext
        self._context.addArchive(f"{archive}#{TREE}")
        self._threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="spark-call")

    @property
    def width(self) -> int:
        """The number of calls that run at the same time."""
        return TASKS_A_CORE * max(1, int(self._context.defaultParallelism))

    def results(self, calls: Iterable[bytes]) -> Iterator[tuple[int, bytes | SparkError]]:
        """Yield (number, result) of each call as it ends; the result of a call that Spark gave up is its error.

        Raises SparkError when Spark has ended, or has had no executors for WITHOUT_EXECUTORS_S.
        """
        left = iter(enumerate(calls))
        under_way: dict[Future[bytes], int] = {}
        seen_s = time.monotonic()
        width = TASKS_A_CORE * parallelism(self._spark)
        while True:
            while len(under_way) < min(width, THREADS_MAX) and (one := next(left, None)):
                number, call = one
                under_way[self._threads.submit(self._call, call)] = number
            if not under_way:
                return
            done, _ = wait(under_way, CHECK_INTERVAL_S, FIRST_COMPLETED)
            for future in done:
                yield under_way.pop(future), self._came_to(future)
            if done or self._executors():
                seen_s = time.monotonic()
                width = self.width
            elif time.monotonic() - seen_s > WITHOUT_EXECUTORS_S:
                raise SparkError(
                    f"the cluster {self._context.master} has given no executor for {WITHOUT_EXECUTORS_S:g} s; "
                    "has it a free core and the memory that --memory asks for?"
                )

    def end(self) -> None:
        """Cancel all running and waiting calls."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        with suppress(Exception):  # Spark may have ended
            self._context.cancelAllJobs()

    def _call(self, call: bytes) -> bytes:
        task = _on_executor(TREE, self._function, call)
        [result] = self._context.parallelize([0], 1).mapPartitions(task).collect()
        return bytes(result)

    def _came_to(self, future: Future[bytes]) -> bytes | SparkError:
        """Return the result of an ended call. Raises SparkError when Spark has ended."""
        try:
            return future.result()
        except Exception as error:  # pyspark and py4j raise their own
            said = SparkError(explain(error))
        if self._has_ended():
            raise SparkError(f"Spark has ended: {said}") from said
        return said

    def _has_ended(self) -> bool:
        try:
            return bool(self._context._jsc.sc().isStopped())
        except Exception:  # the process of Spark has ended
            return True

    def _executors(self) -> int:
        """Return the number of executors. In a cluster Spark also lists the driver, which is not counted."""
        with suppress(Exception):
            known = len(self._context._jsc.sc().statusTracker().getExecutorInfos())
            return known if str(self._context.master).startswith("local") else known - 1
        return 0


def _on_executor(tree: str, function: str, call: bytes) -> Callable[[object], Iterator[bytes]]:
    """Return the call as a function that is pickled by value, since executors import the package from the archive."""

    def run(rows: Any) -> Iterator[bytes]:
        import importlib
        import sys

        from pyspark import SparkFiles

        list(rows)  # Spark reuses a Python worker only if it has read all of its input
        folder = SparkFiles.get(tree)
        if folder not in sys.path:
            sys.path.insert(0, folder)
        module, _, name = function.partition(":")
        yield getattr(importlib.import_module(module), name)(call)

    return run


def package_archive(folder: Path) -> Path:
    """Write a ZIP of the whole package as this process imports it, including a planted bug. Raises OSError."""
    archive = folder / f"{TREE}.zip"
    name = staticfire.__name__
    with ZipFile(archive, "w", ZIP_DEFLATED) as target:
        for path in sorted(Path(staticfire.__path__[0]).glob("*.py")):
            target.write(path, f"{name}/{path.name}")
        for part, source in _parts().items():
            for path in sorted(source.rglob("*")):
                if path.is_file() and NOT_SENT.isdisjoint(path.parts):
                    target.write(path, f"{name}/{part}/{path.relative_to(source)}")
    return archive


def _parts() -> dict[str, Path]:
    """Return the folders of the package by name, each at the place from which it is imported."""
    parts: dict[str, Path] = {}
    for root in map(Path, staticfire.__path__):
        for folder in sorted(root.iterdir()):
            if (folder / "__init__.py").exists():
                parts.setdefault(folder.name, folder.resolve())
    return parts
