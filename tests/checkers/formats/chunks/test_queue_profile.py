"""The profile of a long queue: the cells in which its offsets are counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from staticfire.checkers.formats.chunks.queue_profile import grid_of, is_sparse, span_of
from staticfire.checkers.formats.columnar.manifest import Part
from tests.checkers.formats.columnar.test_round_trip import record
from tests.support.history_language import history


def part(path: str, low: int, high: int) -> Part:
    return Part(
        path=path, queue=0, rows=1000, bytes=1, crc32=0, first=0, last=9, low=low, high=high
    )


def test_cells_reach_over_all_parts_though_one_offset_is_far_away() -> None:
    parts = [part("a", 0, 999), part("b", 1000, 10**9)]
    assert [is_sparse(of) for of in parts] == [False, True]

    grid = grid_of(parts, {"b": (1010, 1990)}, cells=400)

    assert grid is not None
    assert (grid.low, grid.width, grid.first_offset(grid.cells - 1)) == (0, 5, 1990)


@pytest.mark.parametrize("far", [10**9, 7])
def test_a_span_leaves_out_what_is_far_away(far: int, tmp_path: Path) -> None:
    lines = [f"0 ok send m{at}@0:{50_000 + at}" for at in range(200)]
    reported = record(history(*lines, f"0 ok send wrong@0:{far}"), tmp_path / "h")
    [only] = reported.manifest.message_events

    low, high = span_of(reported, only)

    assert is_sparse(only)
    assert 50_000 <= low < 50_010 < 50_190 < high < 50_200
