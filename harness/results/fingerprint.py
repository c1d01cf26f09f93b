"""The fingerprint of a failure: its cause, the leading anomaly, and the fault that preceded it.

Anomalies that follow from each other are one cause: a lost message leaves a gap that another message fills, so its
offset held two messages. The leading anomaly is the one that affects users most directly; anomalies that only
observers of the nodes see come last. Two runs with the same fingerprint show the same failure, as far as verdicts tell.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from staticfire.checkers.guarantees.verdict import Finding
from staticfire.checkers.verdicts.compose import RunVerdict
from staticfire.faults.model.topology import Topology
from staticfire.faults.plans.catalogue import fault_named
from staticfire.harness.recording.nemesis import FaultRecord
from staticfire.harness.results.run_result import RunResult

# Anomalies by cause, the leading one first. An anomaly that is in none of these is a cause of its own.
CAUSES: dict[str, tuple[str, ...]] = {
    "loss": (
        "lost",
        "unseen",
        "lost_from_log",
        "log_hole",
        "inconsistent_offsets",
        "realtime_order",
        "acked_not_durable",
    ),
    "aborted": ("aborted_read", "rolled_back_visible"),
    "repetition": ("duplicate_unexplained", "nonmonotonic_poll", "commit_rewound"),
    "skipped offsets": ("commit_ahead", "poll_skip", "int_poll_skip", "commit_beyond_end"),
    "contents": ("corrupt", "size_changed", "properties_changed", "tag_changed"),
    "broken order": ("order_violated", "out_of_order", "int_nonmonotonic_poll"),
    "two owners": ("two_listeners", "overlapping_owners", "double_ownership", "unowned_delivery"),
    "queue without owner": ("queue_unowned", "not_drained", "delivery_gap"),
    "routes": (
        "wrong_route",
        "route_mismatch",
        "route_drift",
        "missing_route",
        "stale_route",
        "departed_route",
    ),
}
# These carry the time of the acknowledgement: the fault that broke the promise came later.
SHOWN_AT_ACK = frozenset({"lost", "unseen", "lost_from_log", "log_hole"})


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The cause of a failure, and the fault that preceded it.

    Attributes:
        cause: one of CAUSES, or an anomaly.
        leading: an anomaly.
        fault: kind of the last fault that bit before the failure; "" for none.
        role: of the node that the fault struck: leader, follower, coordinator, producer, consumer; cluster for several.
    """

    cause: str
    leading: str
    fault: str = ""
    role: str = ""

    def __str__(self) -> str:
        what = self.leading if self.cause == self.leading else f"{self.cause} ({self.leading})"
        return f"{what} after {self.fault} of {self.role}" if self.fault else what

    @property
    def without_fault(self) -> Fingerprint:
        return replace(self, fault="", role="")

    def is_shown_by(self, other: Fingerprint | None) -> bool:
        """Whether the other fingerprint is of the same failure.

        A loss after a destructive fault is the same failure only with that fault, or with none. For other failures the
        faults are not compared, since they may have no part in them.
        """
        if other is None or self.without_fault != other.without_fault:
            return False
        if (
            self.leading not in SHOWN_AT_ACK
            or not self.fault
            or not fault_named(self.fault).destructive
        ):
            return True
        return other in (self, self.without_fault)


def fingerprint_of(violated: Collection[str]) -> Fingerprint | None:
    """Return the fingerprint, without a fault, of a run with these violated anomalies; None without violations.

    An anomaly of no known cause is a cause of its own. The first of them by name counts if there is no known cause.
    """
    for cause, anomalies in CAUSES.items():
        for anomaly in anomalies:
            if anomaly in violated:
                return Fingerprint(cause, anomaly)
    return Fingerprint(min(violated), min(violated)) if violated else None


def fingerprint_of_run(result: RunResult) -> Fingerprint | None:
    """Return the whole fingerprint of a run; None without violations."""
    return full_fingerprint(result.verdict, result.faults, result.campaign.topology())


def full_fingerprint(
    verdict: RunVerdict, faults: Sequence[FaultRecord], topology: Topology
) -> Fingerprint | None:
    """Return the whole fingerprint of a verdict; None without violations."""
    found = fingerprint_of(verdict.violations())
    witness = witness_of(verdict, found)
    if found is None or witness is None:
        return found
    last = fault_of(witness, faults, topology)
    if last is None:
        return found
    return replace(found, fault=last.planned.kind, role=_role(last, witness, topology))


def witness_of(verdict: RunVerdict, fingerprint: Fingerprint | None) -> Finding | None:
    """Return the earliest violation of the leading anomaly; None where the verdict kept none."""
    if fingerprint is None:
        return None
    found = [
        finding
        for finding in verdict.findings()
        if finding.judgement == "violation" and finding.anomaly == fingerprint.leading
    ]
    return min(found, key=lambda one: (one.time_ns, one.sort_key()), default=None)


def fault_of(
    witness: Finding, faults: Sequence[FaultRecord], topology: Topology
) -> FaultRecord | None:
    """Return the fault that preceded the failure: the last one that had bitten by then.

    For a loss that carries the time of the acknowledgement, it is the first later fault that destroyed data, or else
    the first later one that bit. Faults of nodes that hold the message's queue take precedence.
    """
    bitten = sorted((one for one in faults if one.bitten), key=_struck_ns)
    near = [one for one in bitten if _strikes_queue(one, witness, topology)] or bitten
    before = [one for one in near if _struck_ns(one) <= witness.time_ns]
    if witness.anomaly in SHOWN_AT_ACK:
        after = [one for one in near if _struck_ns(one) > witness.time_ns]
        destroying = [one for one in after if fault_named(one.planned.kind).destructive]
        if after:
            return (destroying or after)[0]
    return before[-1] if before else None


def _struck_ns(record: FaultRecord) -> int:
    return record.struck_ns or 0


def _strikes_queue(record: FaultRecord, witness: Finding, topology: Topology) -> bool:
    nodes = {one.node for one in topology.replicas_of(witness.broker or "")}
    return not nodes.isdisjoint(record.planned.targets)


def _role(record: FaultRecord, witness: Finding, topology: Topology) -> str:
    """Return the one role of the struck nodes, or else of those with the message's queue; "cluster" for several."""
    targets = record.planned.targets
    holders = {one.node for one in topology.replicas_of(witness.broker or "")}
    for nodes in (targets, [node for node in targets if node in holders]):
        roles = {_role_of(node, topology) for node in nodes}
        if len(roles) == 1:
            return roles.pop()
    return "cluster"


def _role_of(node: str, topology: Topology) -> str:
    if node in topology.coordinators:
        return "coordinator"
    if node in topology.clients:
        return "producer" if node in topology.producers else "consumer"
    replica = next((one for one in topology.replicas if one.node == node), None)
    return "node" if replica is None else "leader" if replica.is_leader else "follower"
