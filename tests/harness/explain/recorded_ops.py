"""Ops and a finding of a small history, for tests of explanations."""

from __future__ import annotations

from typing import Any

from staticfire.checkers.guarantees.judgement import Judgement
from staticfire.checkers.guarantees.verdict import Finding
from staticfire.checkers.model.history import Op

S = 1_000_000_000
PLACE = {"topic": "t", "broker": "b", "queue": 0, "queue_offset": 7}


def finding(anomaly: str = "lost", key: str | None = "k", **more: Any) -> Finding:
    place = {"topic": "t", "broker": "b", "queue": 0, "queue_offset": 7, "physical_offset": 500}
    return Finding(
        anomaly=anomaly,
        judgement=Judgement.VIOLATION,
        op_index=1,
        time_ns=2 * S,
        detail="it must survive",
        key=key,
        **{**place, **more},
    )


def op(time_s: int, type_: Any, f: str, value: dict[str, Any], node: str, process: int = 1) -> Op:
    return Op(
        index=time_s,
        time_ns=time_s * S,
        process=process,
        type=type_,
        f=f,
        value=value,
        node=node,
        error="no answer" if type_ == "info" else None,
    )
