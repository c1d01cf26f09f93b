"""Runs that are judged at a time, and the memory reported for them. That verdicts stay the same: test_verdicts.py."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from staticfire.checkers.model.columns import Chunk, Commits, joined
from staticfire.spark_analysis.engine.engines import InProcess
from staticfire.spark_analysis.runs.partitioning import (
    BASE_BYTES,
    BYTES_A_ROW,
    BYTES_A_ROW_KEPT,
    BYTES_A_ROW_READ,
    Partition,
    memory_bound_bytes,
    partitioned,
)
from tests.support.synthetic import small


@pytest.mark.slow
def test_memory_of_a_piece_counts_the_whole_parts_that_are_read(tmp_path: Path) -> None:
    [run] = small(tmp_path)
    run.observations.unlink()
    [first, *_] = partitioned([run], InProcess())
    rows = first.unit.rows
    assert (
        memory_bound_bytes([run], [first], 1)
        == BASE_BYTES + (BYTES_A_ROW + BYTES_A_ROW_KEPT) * rows
    )

    commits = joined(Commits, [])
    chunk = Chunk(queue=0, number=0, first_offset=0, last_offset=9, commits=commits, given={})
    some = Partition(run=0, unit=replace(first.unit, rows=10, chunk=chunk))
    largest = max(part.rows for part in first.unit.parts)
    needed = BASE_BYTES + 10 * (BYTES_A_ROW + BYTES_A_ROW_KEPT) + largest * BYTES_A_ROW_READ
    assert memory_bound_bytes([run], [some], 1) == needed
