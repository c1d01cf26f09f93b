"""Cases of a slow test: all of them, or a sample that changes with the commit, as CI asks for it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from random import Random
from typing import TypeVar

SAMPLE = "STATICFIRE_SAMPLE"
T = TypeVar("T")


def sample_of(cases: Sequence[T], count: int, text: str | None = None) -> list[T]:
    """As many cases as `count`, in their order, others for another text; without a text all of them.

    Args:
        text: that of the environment variable STATICFIRE_SAMPLE by default.
    """
    chosen_by = os.environ.get(SAMPLE, "") if text is None else text
    if not chosen_by:
        return list(cases)
    places = Random(f"{chosen_by}/{len(cases)}").sample(range(len(cases)), min(count, len(cases)))
    return [cases[place] for place in sorted(places)]
