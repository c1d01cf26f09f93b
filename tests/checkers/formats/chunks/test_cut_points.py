"""One queue in chunks: any clean cut points give the verdict of the whole."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.checkers.formats.chunks import cut_points as cut_points
from staticfire.checkers.formats.chunks.check_files import check_files
from staticfire.checkers.formats.columnar.reader import ColumnarHistory
from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.model.columns import Ints, Mask
from staticfire.checkers.verdicts.compose import RunVerdict, check_columns
from tests.checkers.formats.columnar.test_round_trip import record
from tests.support.one_queue_histories import KNOWN, one_queue_history

STEADY = settings(max_examples=int(os.environ.get("HISTORIES", "25")), deadline=None)
SEEDS = st.integers(0, (1 << 32) - 1)  # `st.randoms()` remembers each of thousands of draws


def reported(verdict: RunVerdict) -> dict[str, object]:
    """By checker, so that a difference says whose it is."""
    return {
        **verdict.to_json(),
        "verdicts": None,
        **{of.checker: of.to_json() for of in verdict.verdicts},
    }


def in_chunks(
    history: ColumnarHistory, known: RunFacts, wanted: Random | None = None
) -> tuple[list[int], dict[str, object]]:
    """How many chunks there were, and the verdict; cut at every clean cut point, or at those that `wanted` picks."""
    numbers: list[int] = []

    def chosen(_rows: Ints, clean: Mask, _rows_max: int) -> list[int]:
        cells: Sequence[int] = (np.flatnonzero(clean[1:]) + 1).tolist()
        taken = [cell for cell in cells if wanted is None or wanted.randrange(2)]
        numbers.append(1 + len(taken))
        return taken

    with patch.object(cut_points, "_chosen", chosen):
        verdict = check_files(history, [], known, partition_rows=1, whole_rows=1)
    return numbers, reported(verdict)


@pytest.mark.slow
@STEADY
@given(seed=SEEDS, known=st.sampled_from(KNOWN), steps=st.integers(5, 80))
def test_any_borders_give_the_verdict_of_the_whole(seed: int, known: RunFacts, steps: int) -> None:
    random = Random(seed)
    with TemporaryDirectory() as folder:
        history = record(one_queue_history(random, steps), Path(folder) / "h", part_rows=15)
        whole = reported(check_columns(*history.whole(), [], known))

        assert in_chunks(history, known)[1] == whole
        assert in_chunks(history, known, random)[1] == whole
