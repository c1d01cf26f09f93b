"""The core set over a large history: in this process, on Spark, from raw files with layout; beside it DuckDB in SQL.

    python tests/benchmarks/bench_spark.py [OPS] [FOLDER]

OPS is 10,000,000 by default; 100,000,000 need 5 GB of disk and a quarter of an hour. A FOLDER that holds the history
already is used as it is. CPU seconds of the whole process tree count, not wall time. DuckDB answers the same questions
from the raw files, and its counts are held against ours.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

from tests.support.process_tree import Cost, run_and_measure


def main(ops: int, folder: Path) -> None:
    raw, queued = folder / "raw", folder / "queued"
    shape = ("--ops", str(ops), "--skew", "0", "--plant", "5", "--semantics", "0")
    for target, layout in ((queued, "per-queue"), (raw, "raw")):
        if not target.exists():
            command = [sys.executable, "-m", "staticfire", "synthesize", str(target), *shape]
            _print(f"synthesize {layout}", run_and_measure([*command, "--layout", layout]))
    asked = [sys.executable, "-m", "tests.benchmarks.core_set"]
    for name, where in (("in process", "in-process"), ("spark local[2]", "local[2]")):
        _print(f"per queue, {name}", run_and_measure([*asked, where, str(queued)]))
    shutil.rmtree(raw / "history.parquet", ignore_errors=True)
    ours = run_and_measure([*asked, "in-process", str(raw)])
    _print("raw, layout included, in process", ours)
    shutil.rmtree(raw / "history.parquet", ignore_errors=True)
    on_spark = run_and_measure([*asked, "local[2]", str(raw)])
    _print("raw, layout included, spark", on_spark)
    duck = run_and_measure([*asked, "duckdb", str(raw)])
    _print("raw, duckdb", duck)
    counts = [json.loads(cost.said.splitlines()[-1]) for cost in (ours, on_spark, duck)]
    assert counts[0] == counts[1] == counts[2], counts
    print(f"counts equal: {counts[0]}")
    print(f"raw, spark / duckdb: {on_spark.cpu_s / duck.cpu_s:.2f} of its CPU")


def _print(name: str, cost: Cost) -> None:
    assert cost.status == 0, cost.said
    print(
        f"{name:<34} {cost.cpu_s:8.1f} CPU s {cost.wall_s:8.1f} s {cost.peak_mb:6} MB", flush=True
    )


if __name__ == "__main__":
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    if len(sys.argv) > 2:
        main(size, Path(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory(prefix="staticfire-bench-") as scratch:
            main(size, Path(scratch))
