"""Groups of lite pull and pull consumers under the faults that strike members: everything is promised that push is."""

from __future__ import annotations

import pytest

from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.runs.simulated_runner import run_simulated

SHORT = {
    "time_s": 20.0,
    "acks_min": 100,
    "faults": ("client-crash", "client-crash", "pause", "failing-listener", "member-leaves"),
    "broker_properties": (),
}


@pytest.mark.parametrize(
    ("kind", "marks"),
    [
        ("lite-pull", ("pulled by a lite pull consumer",)),
        (
            "lite-pull-commit",
            ("pulled by a lite pull consumer", "committed by the caller of lite pull"),
        ),
        ("lite-pull-assign", ("pulled with queues assigned by hand", "sought to an offset")),
        ("pull", ("pulled by a pull consumer",)),
    ],
)
def test_members_that_ask_for_messages_lose_none(kind: str, marks: tuple[str, ...]) -> None:
    result = run_simulated(draw_campaign(2, {**SHORT, "consumer_kind": kind}))
    assert result.verdict.valid is True, result.verdict.findings()
    assert all(result.verdict.coverage[mark] > 0 for mark in marks)
