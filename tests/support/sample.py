"""Cases of a slow test: all of them, or a sample that changes with the commit, as CI asks for it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from random import Random
from typing import TypeVar

SAMPLE = "STATICFIRE_SAMPLE"
ALWAYS = 12  # cases of one test that are never sampled
SHARE = 3  # of more cases a third runs
T = TypeVar("T")


def sample_of(cases: Sequence[T], count: int, text: str | None = None) -> list[T]:
    """As many cases as `count`, in their order, others for another text; without a text all of them.

    Args:
        text: that of the environment variable STATICFIRE_SAMPLE by default.
    """
    chosen_by = os.environ.get(SAMPLE, "") if text is None else text
    if not chosen_by:
        return list(cases)
    places = Random(f"{chosen_by}/{cases}").sample(range(len(cases)), min(count, len(cases)))
    return [cases[place] for place in sorted(places)]


def left_out(cases: Sequence[str], text: str | None = None) -> set[str]:
    """Return the cases that a sample leaves out; none without a text.

    Args:
        cases: node ids of pytest; the cases of one test differ behind the first bracket only.
        text: as for `sample_of`.
    """
    of_test: dict[str, list[str]] = {}
    for case in cases:
        of_test.setdefault(case.partition("[")[0], []).append(case)
    kept = {
        case
        for mine in of_test.values()
        for case in sample_of(mine, max(ALWAYS, len(mine) // SHARE), text)
    }
    return set(cases) - kept
