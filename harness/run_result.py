"""What a run leaves behind: its verdict and everything the verdict rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from checkers.compose import RunVerdict
from checkers.facts import RunFacts
from checkers.history import Op
from harness.campaign import Campaign
from harness.clients.port import ONE_WAY
from harness.nemesis import FaultRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """What is kept of a server: its log, and its files by path unless the run was valid."""

    name: str
    log: list[dict[str, Any]]
    store: dict[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """Everything that is known at the end of a run."""

    campaign: Campaign
    verdict: RunVerdict
    facts: RunFacts
    ops: list[Op]
    observations: list[dict[str, Any]]
    faults: list[FaultRecord]
    digest: str  # of everything that happened, history included
    nodes: list[NodeRecord]  # of servers
    interrupted: bool = False  # somebody ended the load early
    up_s: float  # until every broker served
    run_s: float

    def exercised(self) -> dict[str, int]:
        """How often features of the system were really used that no fault and no verdict tells of."""
        sends = [op for op in self.ops if op.f == "send"]
        looked = [verdict for verdict in self.verdict.verdicts if verdict.checker == "look_ups"]
        return {
            "batched": sum(op.type == "ok" and "batch" in op.value for op in sends),
            "one way": sum(op.type == "info" and op.error == ONE_WAY for op in sends),
            "found by key": sum(verdict.counts.get("by_key", 0) for verdict in looked),
            "found by id": sum(verdict.counts.get("by_id", 0) for verdict in looked),
            "log files deleted": self._observed("deletions", "log_files"),
            "read from slaves": self._observed("slave_reads", "messages"),
        }

    def _observed(self, kind: str, field: str) -> int:
        return sum(seen[field] for seen in self.observations if seen["kind"] == kind)
