"""docs/history.md in data tools: each example runs as written, and finds the planted anomaly."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest

from staticfire.checkers.formats.columnar.manifest import read_manifest
from staticfire.checkers.model.history import Op, write_history
from staticfire.checkers.model.message_ids import MessageIds
from staticfire.harness.cli import status_of

PAGE = (Path(__file__).parents[3] / "docs" / "history.md").read_text(encoding="utf-8")
EXAMPLES = {
    name: re.search(rf"^{name}[^\n]*:\n\n```python\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
    for name in ("pandas", "DuckDB", "Polars", "Spark")
}
SQL = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
NEVER = ("p1-3", "p2-8", "an odd key")


def ops() -> list[Op]:
    """Sends to three queues of two brokers with growing latencies. NEVER are delivered to no group."""
    found: list[Op] = []

    def add(kind: str, f: str, value: dict[str, Any], at_ns: int) -> None:
        op = Op(index=len(found), time_ns=at_ns, process=1, type=kind, f=f, value=value, node="n")  # type: ignore[arg-type]
        found.append(op)

    keys = [*(f"p{process}-{number}" for process in (1, 2) for number in range(40)), "an odd key"]
    places = [("broker-a", 0), ("broker-a", 1), ("broker-b", 0)]
    at_ns = 0
    for number, key in enumerate(keys):
        broker, queue = places[number % 3]
        send = {"key": key, "topic": "t", "size": 10}
        place = {"topic": "t", "broker": broker, "queue": queue}
        row = [key, number // 3, number * 100, True, 0]
        add("invoke", "send", send, at_ns)
        at_ns += 1_000_000 * (number + 1)
        if number % 7 == 5:
            add("fail", "send", send, at_ns)
            continue
        stored = {**send, **place, "queue_offset": number // 3, "physical_offset": number * 100}
        add("ok", "send", {**stored, "status": "SEND_OK", "attempts": 1}, at_ns)
        if key not in NEVER:
            add("invoke", "consume", {"group": "g", **place, "messages": [row]}, at_ns)
            add("ok", "consume", {"group": "g", **place, "messages": [row]}, at_ns)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with history.jsonl and the columns of it, as a run has."""
    made = tmp_path_factory.mktemp("run")
    write_history(made / "history.jsonl", ops())
    columns = made / "history.parquet"
    assert status_of(["history", "convert", str(made / "history.jsonl"), str(columns)]) == 0
    return made


def took_of_queues(folder: Path) -> dict[int, float]:
    """The 99th percentile in milliseconds of acknowledged sends, by the number of the queue, from the ops alone."""
    begun: dict[str, int] = {}
    took: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    for op in ops():
        if op.f == "send" and op.type == "invoke":
            begun[op.value["key"]] = op.time_ns
        elif op.f == "send" and op.type == "ok":
            place = op.value["broker"], op.value["queue"]
            took[place].append((op.time_ns - begun[op.value["key"]]) / 1e6)
    queues = [
        tuple(one[1:]) for one in read_manifest(folder / "history.parquet").dictionaries.queues
    ]
    return {queues.index(place): float(np.percentile(times, 99)) for place, times in took.items()}


def run_example(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *, prefix: str = "", **given: Any
) -> None:
    """Run an example in the folder of the run, with its relative path behind `prefix`, and compare what it found."""
    example = EXAMPLES[name]
    assert example is not None
    lines = [line for line in example[1].splitlines() if line]
    assert len(lines) <= 10
    monkeypatch.chdir(folder)
    found: dict[str, Any] = dict(given)
    text = example[1].replace('"history.parquet', f'"{prefix}history.parquet')
    exec(compile(text, f"docs/history.md ({name})", "exec"), found)
    ids = MessageIds()
    assert sorted(found["unseen"]) == sorted(ids[key] for key in NEVER)
    assert found["p99_ms"] == pytest.approx(took_of_queues(folder))


@pytest.mark.parametrize("name", ["DuckDB", "Polars"])
def test_an_example_finds_what_was_planted(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_example(name, folder, monkeypatch)


@pytest.mark.needs_spark  # its extra brings pandas, too
def test_pandas_finds_what_was_planted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_example("pandas", folder, monkeypatch)


@pytest.mark.needs_spark
@pytest.mark.real
@pytest.mark.slow
def test_spark_finds_what_was_planted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from staticfire.spark_analysis.engine.session import Settings, spark_session

    # Paths begin where the JVM has started, and an earlier test may have started it.
    with spark_session(Settings(master="local[1]", driver_memory_mb=512)) as spark:
        run_example("Spark", folder, monkeypatch, prefix=f"{folder}/", spark=spark)


def test_the_query_over_names_finds_what_was_planted(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert status_of(["history", "named", str(folder), str(tmp_path / "messages.parquet")]) == 0
    monkeypatch.chdir(tmp_path)
    [query] = SQL
    rows = duckdb.connect().execute(query).fetchall()
    assert sorted(row[0] for row in rows) == sorted(NEVER)
    assert {row[1] for row in rows} == {"t"}


def test_names_say_what_the_ops_say(folder: Path, tmp_path: Path) -> None:
    assert status_of(["history", "named", str(folder), str(tmp_path / "named")]) == 0
    rows = pq.read_table(tmp_path / "named").to_pylist()
    sent = {
        (
            op.value["key"],
            op.value.get("broker"),
            op.value.get("queue"),
            op.value.get("queue_offset"),
        )
        for op in ops()
        if op.f == "send" and op.type != "invoke"
    }
    assert {
        (row["key"], row["broker"], row["queue"], row["queue_offset"])
        for row in rows
        if row["kind"] == "send"
    } == sent
    assert {row["outcome"] for row in rows} == {"ok", "failed"}
    assert {row["group"] for row in rows if row["kind"] == "delivery"} == {"g"}
    assert all(row["due_ns"] is None and row["transaction"] is None for row in rows)


def test_lines_without_columns_are_named_as_well(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = [tmp_path / "of columns", tmp_path / "of lines"]
    for source, target in zip((folder, folder / "history.jsonl"), named, strict=True):
        assert status_of(["history", "named", str(source), str(target)]) == 0
    tables = [pq.read_table(path) for path in named]
    assert tables[0].equals(tables[1])
    assert f"{tables[0].num_rows} rows" in capsys.readouterr().out
    assert sorted(tmp_path.iterdir()) == sorted(named)


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


@pytest.mark.parametrize("damage", [Path.unlink, _truncate], ids=["missing", "torn"])
def test_damaged_columns_are_one_sentence(
    damage: Callable[[Path], object],
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    columns = tmp_path / "history.parquet"
    assert status_of(["history", "convert", str(folder / "history.jsonl"), str(columns)]) == 0
    damage(next(columns.glob("message_events/*/*.parquet")))
    capsys.readouterr()
    assert status_of(["history", "named", str(columns), str(tmp_path / "named")]) == 254
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "named").exists()
    assert status_of(["history", "named", str(folder), str(tmp_path)]) == 254
