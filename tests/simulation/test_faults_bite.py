"""Faults that need more than one call: each strikes a whole simulated cluster, is proven, heals, and costs nothing."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.harness.campaign.file import typed_options
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.runs.simulated_runner import run_simulated

GIVEN = {
    "followers": (1,),
    "coordinators": 2,
    "replication": "sync",
    "flush": "sync",
    "time_s": 10.0,
    "producers": 3,
    "consumers": 1,
    "think_ms": 60.0,
    "acks_min": 50,
    "batch_share": 0.0,
    "one_way_share": 0.0,
    "broker_properties": (),
}
BROKERS = ["broker-a-1", "broker-a-0"]
FAULTS: dict[str, dict[str, Any]] = {
    "rolling-restart": {"targets": BROKERS},
    "name-server-freeze-in-rolling-restart": {"targets": ["ns-2", *BROKERS], "duration_s": 9.0},
    "broker-black-hole": {"targets": ["broker-a-0"]},
    "name-server-black-hole": {"targets": ["ns-1"]},
    "network-latency": {"targets": ["broker-a-0"], "params": {"delay_ms": 100}},
    "packet-loss": {"targets": ["broker-a-0"], "params": {"percent": 10}},
    "bandwidth": {"targets": ["broker-a-0"], "params": {"bits_per_s": 300_000}},
    "topic-anew": {"targets": []},
    "offsets-cloned": {"targets": []},
    "cleaning": {"targets": []},
    "options-change": {
        "targets": [],
        "params": {"option": "maxTransferCountOnMessageInMemory=1"},
    },
    "rights-change": {"targets": []},
    "group-change": {"targets": [], "params": {"retry_queues": 6}},
    "group-and-broker-crash": {"targets": ["broker-a-0", "consumer-1"], "duration_s": 2.0},
    "wiped-slave": {"targets": ["broker-a-1"]},
    "disk-full": {
        "targets": ["broker-a-0"],
        "duration_s": 7.0,
        "params": {"free_bytes": 0, "over_s": 1.0},
    },
}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_bites_and_nothing_is_lost(kind: str) -> None:
    row = {"kind": kind, "at_s": 1.0, "duration_s": 5.0, **FAULTS[kind]}
    given = {**GIVEN, "acl": kind == "rights-change"}
    campaign = draw_campaign(7, {**given, **typed_options({"plan": [row]}, "the test")})
    result = run_simulated(campaign)
    [record] = result.faults
    assert record.error is None
    assert record.bitten, record.evidence
    assert record.healed_ns is not None
    assert result.verdict.valid is True, result.verdict
