"""The `open` op of every client process, from which the checkers count."""

from __future__ import annotations

from collections import Counter

import pytest

from staticfire.faults.model.fault import PlannedFault
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.runs.simulated_runner import run_simulated


@pytest.mark.slow
def test_each_client_process_opens_once() -> None:
    crash = PlannedFault(
        fault_id=0, kind="client-crash", at_s=1.0, duration_s=1.0, targets=("consumer-1",)
    )
    options = {"time_s": 3.0, "producers": 2, "consumers": 2, "acks_min": 1, "plan": (crash,)}
    result = run_simulated(draw_campaign(1, options))

    opens = [op for op in result.ops if op.f == "open"]
    assert all(op.type == "ok" for op in opens)
    assert len({op.process for op in opens}) == len(opens)
    clients = {"probe": 1, "producer-1": 1, "producer-2": 1, "consumer-1": 2, "consumer-2": 1}
    assert Counter(op.node for op in opens) == clients
