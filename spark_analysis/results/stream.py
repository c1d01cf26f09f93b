"""Counts the ops of a campaign in progress by Structured Streaming, and prints a line for each batch.

It gives no verdict, since a verdict needs the whole history. It reads only finished parts: a part is renamed when it is
complete, and Spark ignores names that begin with a dot.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from staticfire.checkers.formats.columnar.schema import FOLDER
from staticfire.checkers.model.history import HistoryError
from staticfire.spark_analysis.engine.java import SparkError
from staticfire.spark_analysis.engine.session import explain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "index long, time_ns long, f string, type string"
EVERY_S = 2
POLL_S = 1


def follow_runs(
    spark: SparkSession,
    paths: list[Path],
    tell: Callable[[str], None],
    *,
    until: Callable[[], bool] = lambda: False,
) -> Counter[tuple[str, str]]:
    """Count ops by f and type, and pass `tell` a line for each batch, until Ctrl-C or until `until()` is true.

    Raises HistoryError for a path that does not exist, SparkError.
    """
    for path in paths:
        if not path.is_dir():
            raise HistoryError(f"{path} is not a folder; give the folder of a run, or of many runs")
    counts: Counter[tuple[str, str]] = Counter()

    def count(batch: DataFrame, _number: int) -> None:
        rows = batch.groupBy("f", "type").count().collect()
        end_ns = batch.agg({"time_ns": "max"}).collect()[0][0]
        for row in rows:
            counts[row["f"], row["type"]] += row["count"]
        if rows:
            tell(line_of(counts, end_ns))

    with tempfile.TemporaryDirectory(prefix="staticfire-follow-") as checkpoint:
        stream = spark.readStream.schema(SCHEMA).format("parquet").load(_pattern(paths))
        query = (
            stream.writeStream.foreachBatch(count)
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime=f"{EVERY_S} seconds")
            .start()
        )
        try:
            while not until() and not query.awaitTermination(POLL_S):
                pass
        except KeyboardInterrupt:
            pass
        except Exception as error:
            raise SparkError(f"following failed: {explain(error)}") from error
        finally:
            query.stop()
    return counts


def _pattern(paths: list[Path]) -> str:
    """Return a pattern for folders of ops: of a run, a history, or all runs in a folder. They need not exist."""
    if len(paths) != 1:
        folders = ",".join(str(path.absolute()) for path in paths)
        return f"{{{folders}}}/{{{FOLDER}/ops,ops,*/{FOLDER}/ops}}"
    return f"{paths[0].absolute()}/{{{FOLDER}/ops,ops,*/{FOLDER}/ops}}"


def line_of(counts: Counter[tuple[str, str]], end_ns: int) -> str:
    """Return one line: the time that the campaign has reached, and the counters."""
    counts_text = ", ".join(f"{f} {kind} {count:,}" for (f, kind), count in sorted(counts.items()))
    return f"{end_ns / 1e9:10.3f} s  {counts_text}"
