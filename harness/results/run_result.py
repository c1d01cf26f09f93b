"""The result of a run: its verdict and the evidence for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.model.history import Op
from staticfire.checkers.model.message_ranges import messages_in
from staticfire.checkers.op_kinds.catalogue import SENDS
from staticfire.checkers.verdicts.compose import RunVerdict
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.campaign.ops import PlannedOp
from staticfire.harness.recording.nemesis import FaultRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """The kept data of a server: its log and, unless the run was valid, its files by path."""

    name: str
    log: list[dict[str, Any]]
    store: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """Everything that is known at the end of a run."""

    campaign: Campaign
    verdict: RunVerdict
    facts: RunFacts
    ops: list[Op]
    observations: list[dict[str, Any]]
    faults: list[FaultRecord]
    digest: str  # over all events, including the history
    nodes: list[NodeRecord]  # of servers
    begun: tuple[PlannedOp, ...] = ()  # every op that a producer began, as data of a campaign
    interrupted: bool = False  # the user ended the load early
    up_s: float  # time until every broker served
    load_start_ns: int = 0  # the times of plan and ops count from then
    run_s: float

    @property
    def acknowledged(self) -> int:
        """The number of acknowledged messages."""
        return sum(messages_in(op) for op in self.ops if op.f in SENDS and op.type == "ok")
