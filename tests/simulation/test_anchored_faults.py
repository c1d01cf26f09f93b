"""Faults of a simulated cluster that strike at events of its disk and of one message."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticfire.faults.model.anchor import Anchor
from staticfire.faults.model.fault import PlannedFault
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.campaign.ops import PlannedOp
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.runs.simulated_runner import run_simulated

BROKER = "broker-a-0"
pytestmark = pytest.mark.slow


def campaign(kind: str, anchor: Anchor, **params: Any) -> Campaign:
    """One broker whose flush takes 3 ms, and three sends."""
    drawn = draw_campaign(
        1,
        {
            "time_s": 4.0,
            "plan": (),
            "followers": (0,),
            "producers": 1,
            "fsync_us": 3000,
            "acks_min": 0,
        },
    )
    ops = tuple(
        PlannedOp(
            node="producer-1",
            at_s=1.0 + number / 10,
            f="send",
            value={"topic": drawn.topic, "key": f"p0-{number}", "size": 100},
        )
        for number in range(3)
    )
    planned = PlannedFault(
        fault_id=0,
        kind=kind,
        at_s=0.0,
        duration_s=1.0,
        targets=(BROKER,),
        params=params,
        after=anchor,
    )
    return replace(drawn, flush="sync", ops=ops, plan=(planned,))


def acknowledged(campaign: Campaign) -> tuple[str, ...]:
    result = run_simulated(campaign)
    assert run_simulated(campaign).digest == result.digest
    assert result.faults[0].bitten
    return tuple(op.value["key"] for op in result.ops if op.f == "send" and op.type == "ok")


def test_a_kill_between_append_and_flush_leaves_no_answer() -> None:
    assert "p0-1" not in acknowledged(
        campaign("kill", Anchor(event="append", node=BROKER, key="p0-1"))
    )


def test_a_kill_behind_the_answer() -> None:
    anchor = Anchor(event="ack", key="p0-1", delay_ms=2.0)
    result = run_simulated(campaign("kill", anchor))
    [ack_ns] = [
        op.time_ns
        for op in result.ops
        if op.f == "send" and op.value["key"] == "p0-1" and op.type == "ok"
    ]
    assert result.faults[0].fired_ns == ack_ns + 2_000_000


def test_the_moment_of_a_cut_inside_a_flush_is_when_the_power_failed() -> None:
    anchor = Anchor(event="ack", key="p0-0")
    found = run_simulated(campaign("power-cut-in-operation", anchor, sync=2)).faults[0]
    assert found.fired_ns is not None
    assert found.struck_ns is not None
    assert found.struck_ns > found.fired_ns
