"""The starting point of the search for the point of no return."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from staticfire.checkers.guarantees.promises import Judgement
from staticfire.checkers.guarantees.verdict import Finding
from staticfire.harness.explain.no_return import BESIDE_NS
from staticfire.harness.explain.rewinding import likely_of

STALL = {"kind": "power-cut", "fired_ns": 40, "struck_ns": 50, "bitten": True}
KILL = {"kind": "kill", "fired_ns": 10, "struck_ns": 11, "bitten": True}
CLIENT = {"kind": "client-crash", "fired_ns": 20, "struck_ns": 20, "bitten": False}
PAUSE = {"kind": "pause", "fired_ns": 47, "struck_ns": 48, "bitten": True}


@dataclass
class Run:
    faults: list[dict[str, Any]] = field(default_factory=list)


def finding(anomaly: str) -> Finding:
    return Finding(
        anomaly=anomaly, judgement=Judgement.VIOLATION, op_index=7, time_ns=45, detail="a promise"
    )


@pytest.mark.parametrize(
    ("anomaly", "faults", "fired"),
    [
        ("slow_delivery", [STALL, KILL, CLIENT], [10]),  # the last that had bitten
        ("lost", [STALL, KILL, CLIENT, PAUSE], [40, 10]),  # at first what destroyed after the ack
        ("lost", [KILL, PAUSE], [47, 10]),
        ("slow_delivery", [CLIENT], []),
    ],
)
def test_the_fault_that_the_failure_seems_to_follow(
    anomaly: str, faults: list[dict[str, Any]], fired: list[int]
) -> None:
    beside = [at_ns + by for at_ns in fired for by in (BESIDE_NS, -BESIDE_NS)]
    run: Any = Run(faults)
    assert likely_of(run, finding(anomaly)) == [*beside, 45 + BESIDE_NS]
