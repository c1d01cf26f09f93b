"""Parses a range of seeds."""

from __future__ import annotations

import re

from staticfire.harness.campaign.campaign import SEED_MAX
from staticfire.harness.cli.status import BadInput

SEEDS_MAX = 1_000_000
ALLOWED = "allowed: FIRST-LAST, such as 0-99, or the number of a single seed"


def seed_range(text: str) -> range:
    """Parse `0-99`, both ends included, or `5`, that seed alone. Raises BadInput."""
    found = re.fullmatch(r"([0-9]{1,20})(?:-([0-9]{1,20}))?", text.strip())
    if found is None:
        raise BadInput(f"--seeds is {text!r:.80}; {ALLOWED}")
    low = int(found[1])
    high = low if found[2] is None else int(found[2])
    if high < low:
        raise BadInput(f"--seeds is {text!r}: its first seed is above its last one; {ALLOWED}")
    if high > SEED_MAX:
        raise BadInput(f"--seeds is {text!r}; allowed: seeds from 0 to {SEED_MAX}")
    if high - low >= SEEDS_MAX:
        raise BadInput(f"--seeds is {text!r}: {high - low + 1} seeds; allowed: at most {SEEDS_MAX}")
    return range(low, high + 1)
