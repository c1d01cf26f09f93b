"""Facts of faults, and of nodes that exited by themselves."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.checkers.model.history import NEMESIS, Op, OpType
from staticfire.faults.model.fault import PlannedFault
from staticfire.harness.recording.nemesis import FaultRecord
from staticfire.harness.results.fault_facts import exits_of, fault_facts


def op(index: int, process: int, type_: OpType, f: str, node: str, error: str | None = None) -> Op:
    return Op(
        index=index,
        time_ns=index,
        process=process,
        type=type_,
        f=f,
        value={},
        error=error,
        node=node,
    )


def test_a_client_that_declined_its_configuration_is_quoted() -> None:
    ops = [
        op(0, 7, "fail", "open", "consumer-1", "this client cannot do more_topics"),
        op(1, 8, "ok", "open", "consumer-2"),
        op(2, NEMESIS, "info", "node_exit", "consumer-1", "status 0"),
        op(3, NEMESIS, "info", "node_exit", "consumer-2", "status 1"),
        op(4, 9, "ok", "open", "consumer-1"),
        op(5, NEMESIS, "info", "node_exit", "consumer-1", "status 2"),
    ]

    assert [(ended.node, ended.error) for ended in exits_of(ops)] == [
        ("consumer-1", "status 0: this client cannot do more_topics"),
        ("consumer-2", "status 1"),
        ("consumer-1", "status 2"),
    ]


@pytest.mark.parametrize(
    ("kind", "params", "delay_s"),
    [
        ("network-latency", {"delay_ms": 250.0}, 0.25),
        ("packet-loss", {"percent": 5.0}, 0.0),
        ("kill", {}, 0.0),
    ],
)
def test_facts_say_how_late_packets_are(kind: str, params: dict[str, Any], delay_s: float) -> None:
    planned = PlannedFault(
        fault_id=0, kind=kind, at_s=1, duration_s=1, targets=("broker-a-0",), params=params
    )
    assert fault_facts(FaultRecord(planned=planned)).delay_s == delay_s


@pytest.mark.parametrize(
    ("came_of_it", "bitten_ns"),
    [
        ({}, None),  # not fired
        (
            {"fired_ns": 1, "struck_ns": 5},
            5,
        ),  # still on: only its heal would have said whether it bit
        ({"fired_ns": 1, "struck_ns": 5, "healed_ns": 9}, None),
        ({"fired_ns": 1, "struck_ns": 5, "healed_ns": 9, "bitten": True}, 5),
        ({"fired_ns": 1, "error": "no such node"}, 1),  # half of it may have been done
        ({"fired_ns": 1, "struck_ns": 5, "error": "it cannot be healed"}, 5),
    ],
)
def test_a_fault_that_is_still_on_or_failed_may_have_had_its_effect(
    came_of_it: dict[str, Any], bitten_ns: int | None
) -> None:
    clock = PlannedFault(fault_id=1, kind="clock-skew", targets=("n0",), at_s=0.0, duration_s=1.0)
    assert fault_facts(FaultRecord(planned=clock, **came_of_it)).bitten_ns == bitten_ns
