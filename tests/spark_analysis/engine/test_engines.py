"""Engines: how items become tasks, and how failures come back."""

from __future__ import annotations

import pickle
from functools import partial

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticfire.checkers.model.history import HistoryError
from staticfire.spark_analysis.engine.engines import RESULT, InProcess, _in_order, packed, run_tasks
from staticfire.spark_analysis.engine.java import SparkError


@given(st.lists(st.integers(0, 100), max_size=40), st.integers(1, 8))
def test_every_item_is_in_one_task_and_loads_are_even(weights: list[int], tasks: int) -> None:
    chosen = packed(weights, tasks)
    assert sorted(item for task in chosen for item in task) == list(range(len(weights)))
    loads = [sum(weights[item] for item in task) for task in chosen]
    assert max(loads) - min(loads) <= max(weights, default=0)


def test_in_process_keeps_the_order_and_reports() -> None:
    reported: list[tuple[str, int, int]] = []
    engine = InProcess(lambda *done: reported.append(done))
    assert engine.map("twice", lambda n: 2 * n, [3, 1, 2], [5, 5, 10]) == [6, 2, 4]
    assert reported == [("twice", 5, 20), ("twice", 10, 20), ("twice", 20, 20)]


def run_in_worker(function: object, items: list[int]) -> pa.Table:
    """What Spark does with a job, without Spark."""
    work = [[(number, pickle.dumps(item))] for number, item in enumerate(items)]
    batch = pa.RecordBatch.from_arrays([pa.array(range(len(items)), pa.int64())], ["id"])
    batches = run_tasks(pickle.dumps(function), work, iter([batch]))
    return pa.Table.from_batches(list(batches), schema=RESULT)


def test_a_worker_does_its_items() -> None:
    assert _in_order(run_in_worker(abs, [-3, 4]), 2, "abs") == [3, 4]


def missing(path: str, _item: int) -> None:
    raise FileNotFoundError(2, "No such file or directory", path)


def full(path: str, _item: int) -> None:
    error = OSError(28, "No space left on device")
    error.filename = path
    raise error


def damaged(path: str, _item: int) -> None:
    raise HistoryError(f"{path} is damaged")


def test_what_is_wrong_with_a_file_is_raised_as_in_this_process() -> None:
    with pytest.raises(FileNotFoundError) as gone:
        _in_order(run_in_worker(partial(missing, "part-3"), [1]), 1, "look")
    assert gone.value.filename == "part-3"
    with pytest.raises(OSError, match="No space left on device") as error:
        _in_order(run_in_worker(partial(full, "part-4"), [1]), 1, "look")
    assert (error.value.errno, error.value.filename) == (28, "part-4")
    with pytest.raises(HistoryError, match="part-5 is damaged"):
        _in_order(run_in_worker(partial(damaged, "part-5"), [1]), 1, "look")


def test_half_of_the_results_are_none() -> None:
    table = run_in_worker(abs, [1, 2, 3])
    with pytest.raises(SparkError, match="2 results came for 3 work units"):
        _in_order(table.slice(0, 2), 3, "look")
    with pytest.raises(SparkError, match="4 results came for 3 work units"):
        _in_order(pa.concat_tables([table, table.slice(0, 1)]), 3, "look")
