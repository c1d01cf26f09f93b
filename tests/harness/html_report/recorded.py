"""Recorded runs in memory, made of histories in the language of the tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.model.history import Observations, Op
from staticfire.checkers.verdicts.compose import check_run
from staticfire.harness.html_report.history_rows import MemoryRows
from staticfire.harness.html_report.recorded_run import RecordedRun
from tests.support.history_language import facts as facts_of
from tests.support.history_language import history

LOSS = ("0 ok send a", "0 ok send b", "1 ok consume b", "9 ok drain")
CLEAN = ("0 ok send a", "1 ok consume a", "9 ok probe b", "9 ok drain")


def recorded(
    lines: Sequence[str] | None = None,
    *,
    ops: Sequence[Op] = (),
    facts: RunFacts | None = None,
    faults: Sequence[Mapping[str, Any]] = (),
    observations: Sequence[dict[str, Any]] = (),
    document: Mapping[str, Any] | None = None,
) -> RecordedRun:
    """A run without a campaign."""
    ops = list(ops) if lines is None else history(*lines)
    facts = facts_of() if facts is None else facts
    records = list(observations)
    return RecordedRun(
        path=Path("runs/a-run"),
        verdict=check_run(ops, records, facts),
        facts=facts,
        document=document or {},
        campaign=None,
        campaign_text="",
        faults=faults,
        observations=Observations(records=records, torn=False),
        history=MemoryRows(ops, is_torn=False),
        is_checked=True,
    )


def fault_record(kind: str = "kill", **changes: Any) -> dict[str, Any]:
    """A line of faults.jsonl: planned at 1 s for 2 s, and it bit."""
    return {
        "id": 0,
        "kind": kind,
        "at_s": 1.0,
        "duration_s": 2.0,
        "targets": ["n0"],
        "fired_ns": 1_000_000_000,
        "struck_ns": 1_500_000_000,
        "healed_ns": 3_000_000_000,
        "bitten": True,
        "evidence": {"bitten": True, "lost_bytes": 12},
        "error": None,
        **changes,
    }
