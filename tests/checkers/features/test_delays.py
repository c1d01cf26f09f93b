"""Delayed messages that come early."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.checkers.guarantees.facts import FaultFacts
from tests.checkers.stories import Story
from tests.support.history_language import NODE, fault

SKEW = fault("clock_skew", NODE, at_s=0.5, healed_s=1.5)


@pytest.mark.parametrize(
    ("at_s", "found"),
    [
        (5.9, {"early_delivery"}),
        (5.998, {"early_delivery"}),
        (5.999, {"early_delivery"}),
        (5.9991, set()),  # a store time is a whole millisecond, rounded down
        (6.0, set()),
    ],
)
def test_a_delayed_message_does_not_come_early(at_s: float, found: set[str]) -> None:
    story = Story().send(1.0, "a", delay_level=2, delay_ms=5000).consume(at_s, "a", 0)
    assert story.counts("delays") == found


STARTED_ANEW = fault("kill", NODE, at_s=2.0, healed_s=2.5)
EPOCH_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("faults", "known", "found"),
    [
        ((SKEW, STARTED_ANEW), {}, "early_delivery_allowed"),
        ((SKEW,), {}, "early_delivery"),  # a leader that runs notices the step
        ((STARTED_ANEW,), {}, "early_delivery"),
        ((SKEW, fault("kill", NODE, at_s=3.5, healed_s=4)), {}, "early_delivery"),
        ((SKEW,), {"mode": "faithful"}, "early_delivery_allowed"),
        ((SKEW,), {"mode": "faithful", "policies": ("visible_end",)}, "early_delivery"),
    ],
)
def test_a_leader_that_starts_anew_believes_a_wrong_clock(
    faults: tuple[FaultFacts, ...], known: dict[str, Any], found: str
) -> None:
    early = Story().send(1.0, "a", delay_level=2, delay_ms=5000).consume(3.0, "a", 0)
    assert early.counts("delays", faults=faults, **known) == {found}


@pytest.mark.parametrize(
    ("skewed_s", "moved_s", "found"),
    [
        (1.5, 6.1, "early_delivery_allowed"),  # its clock was ahead by three seconds and more
        (1.5, 5.5, "early_delivery"),  # by less than the message was early
        (1.5, 2.9, "early_delivery"),
        (0.5, 2.9, "early_delivery_allowed"),  # it was behind when the message was stored
    ],
)
def test_its_clock_was_behind_when_it_stored_the_message_or_is_ahead_now(
    skewed_s: float, moved_s: float, found: str
) -> None:
    early = Story().send(1.0, "a", delay_level=2, delay_ms=5000)
    early.consume(3.0, "a", 0, stored_ms=EPOCH_MS + int(1000 * moved_s))
    skew = fault("clock_skew", NODE, at_s=skewed_s, healed_s=4)
    faults = skew, STARTED_ANEW
    assert early.counts("delays", faults=faults, wall_epoch_ms=EPOCH_MS) == {found}
