"""Calls of an orderly group that no cut point may separate."""

from __future__ import annotations

import numpy as np
import pytest

from staticfire.checkers.formats.chunks.ownership_runs import (
    OwnershipRuns,
    kept_together,
    ownership_runs_of,
)
from staticfire.checkers.model.timeline import Ownership


def ownership_runs(*calls: tuple[int, int]) -> OwnershipRuns:
    """Of calls: process and op index."""
    process, called = np.array(calls, np.int64).reshape(-1, 2).T
    return ownership_runs_of(process, called)


def had(process: int, *changes: int) -> list[Ownership]:
    """Gained, lost, gained and so on at these op indices."""
    return [
        Ownership(op_index=at, time_ns=at, process=process, change="lost" if odd % 2 else "gained")
        for odd, at in enumerate(changes)
    ]


@pytest.mark.parametrize(
    ("calls", "owned", "together"),
    [
        ([(1, 10), (1, 20), (2, 30), (1, 40), (1, 50)], had(1, 5), [(20, 40)]),
        ([(1, 10), (1, 20), (2, 30), (1, 40)], [*had(1, 5, 25, 35), *had(2, 26)], []),
        ([(1, 10), (1, 20), (2, 30)], had(1, 5), []),
        ([(1, 10), (2, 30), (1, 40)], [], []),
        ([(1, 10), (2, 20), (1, 30), (2, 40)], [*had(1, 5), *had(2, 6)], [(10, 30), (20, 40)]),
        ([], [], []),
    ],
    ids=["overlap", "handed over", "not again", "not said", "by turns", "nothing"],
)
def test_calls_around_another_ones_are_kept_together(
    calls: list[tuple[int, int]], owned: list[Ownership], together: list[tuple[int, int]]
) -> None:
    assert kept_together(ownership_runs(*calls), owned) == together


def test_turns_that_follow_each_other_in_two_parts_are_one() -> None:
    both = ownership_runs((1, 30), (1, 40), (2, 50)).merge(ownership_runs((1, 10), (1, 20)))

    assert [both.process.tolist(), both.first.tolist(), both.last.tolist()] == [
        [1, 2],
        [10, 50],
        [40, 50],
    ]


def test_overlapping_turns_of_two_parts_are_kept_together_for_any_owner() -> None:
    both = ownership_runs((1, 10), (1, 40)).merge(ownership_runs((2, 30), (2, 60)))

    assert kept_together(both, []) == [(10, 40), (30, 60)]
