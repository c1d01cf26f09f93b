"""Replicas after the run: the log of a follower is a prefix of its leader's log.

**replica_diverged**: the log of a follower differs from its leader's within the range that both have.
**replica_ahead**: a follower has more data than its leader, so its log is not a prefix.

A record that a fault has changed (`FaultFacts.records`) differs until a replica repairs it. The fault excuses
differences in this record and no others.

If the harness did not compare the replicas of a replica set, the verdict is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from staticfire.checkers.engine.kernel import Checker, Context, no_rows
from staticfire.checkers.engine.observed import NOT_OBSERVED, observed_verdict
from staticfire.checkers.guarantees.promises import judge
from staticfire.checkers.guarantees.verdict import Finding, Verdict
from staticfire.checkers.model.columns import Columns

# Bytes of a record that a fault changes. An observation lists more differences than any run has such faults.
_BYTES_PER_RECORD = 1


def check_replica_prefix(_columns: Columns, context: Context) -> Verdict:
    """Judge the last comparison of each pair of replicas."""
    last: dict[tuple[str, str, str], Mapping[str, object]] = {}
    for seen in context.observations:
        if seen["kind"] == "replica":
            last[seen["broker_name"], seen["master"], seen["slave"]] = seen
    findings = [finding for seen in last.values() for finding in _judge_replica(context, seen)]
    compared = {broker_name for broker_name, _, _ in last}
    missing = _comparable(context) - compared
    counts = {"replicas": len(last)}
    observed = bool(last) and not missing
    return observed_verdict("replica_prefix", findings, counts, None if observed else NOT_OBSERVED)


def _comparable(context: Context) -> set[str]:
    """Return the replica sets of which at least two nodes remain at the end of the run."""
    gone = {
        node
        for fault in context.facts.faults
        if fault.permanent and fault.fired_ns is not None
        for node in fault.targets
    }
    brokers = context.facts.replica_sets.items()
    return {name for name, nodes in brokers if len(set(nodes) - gone) > 1}


def _judge_replica(context: Context, seen: Mapping[str, Any]) -> Iterator[Finding]:
    difference = _unexplained_difference(context, seen)
    if difference is not None:
        detail = f"{seen['slave']} differs from {seen['master']} from {difference} on"
        yield _replica_finding(context, seen, "replica_diverged", detail, difference)
    elif seen["first_difference"] is None and seen["slave_end"] > seen["master_end"]:
        detail = f"{seen['slave']} ends at {seen['slave_end']}, {seen['master']} before that"
        yield _replica_finding(context, seen, "replica_ahead", detail, seen["master_end"])


def _unexplained_difference(context: Context, seen: Mapping[str, Any]) -> int | None:
    """Return the first offset at which the logs differ although no fault has changed the record there; None: none."""
    first: int | None = seen["first_difference"]
    listed = seen.get("differences")
    if first is None:
        return None
    differences = listed if isinstance(listed, list) and listed[:1] == [first] else [first]
    pair = {seen["master"], seen["slave"]}
    rotten = [
        record
        for fault in context.facts.faults
        if fault.bitten_ns is not None and not pair.isdisjoint(fault.targets)
        for record in fault.records
    ]
    if not rotten or len(differences) > _BYTES_PER_RECORD * len(rotten):
        return first
    for at in differences:
        if not any(record.start <= at < record.end for record in rotten):
            return int(at)
    return None


def _replica_finding(
    context: Context, seen: Mapping[str, Any], anomaly: str, detail: str, offset: int
) -> Finding:
    return Finding(
        anomaly=anomaly,
        judgement=judge(context.facts.mode, anomaly),
        op_index=-1,
        time_ns=seen["time_ns"],
        detail=detail,
        broker=seen["broker_name"],
        physical_offset=offset,
    )


REPLICA_PREFIX = Checker(
    name="replica_prefix",
    anomalies=("replica_diverged", "replica_ahead"),
    check=check_replica_prefix,
    rows=no_rows,
    applies=lambda context: context.facts.files_observed and bool(_comparable(context)),
    needs_observations=True,
)
