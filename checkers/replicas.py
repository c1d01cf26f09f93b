"""What the harness saw inside nodes: copies at the moment of the acknowledgement, and replicas at the end.

**acked_not_durable**: when SEND_OK reached the producer, fewer nodes held the message safely than the
profile promises, even if every node that could not be observed held it. **replica_diverged**: after the
run a slave's log differs from its master's within what both have. **replica_ahead**: a slave has more
than its master; then it is no prefix.

An observation that nobody made is 'not observed': unknown, never green.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from checkers.columns import Columns, Outcome
from checkers.facts import Keeping, Mode, Replication
from checkers.kernel import Checker, Context, finding_at
from checkers.message_ids import key_of
from checkers.promises import judge
from checkers.verdict import Finding, Tally, Verdict

NOT_OBSERVED = "not observed"
# (on disk, at least in memory): how many nodes must hold a message that is acknowledged with SEND_OK.
COPIES_PROMISED: Mapping[tuple[Keeping, Replication], tuple[int, int]] = {
    ("sync", "none"): (1, 1),
    ("sync", "async"): (1, 1),
    ("sync", "sync"): (2, 2),
    ("async", "none"): (0, 1),
    ("async", "async"): (0, 1),
    ("async", "sync"): (0, 2),
    ("pool", "none"): (0, 0),  # in the memory of the process
    ("pool", "async"): (0, 0),
    ("pool", "sync"): (0, 2),  # what is not committed is not replicated
}
# A slave of Apache RocketMQ 4.9 acknowledges before its own fsync (HAService).
SLAVE_DISK_COUNTS: Mapping[Mode, bool] = {"hardened": True, "faithful": False}


def check_durable_before_ack(columns: Columns, context: Context) -> Verdict:
    """Compare each observed acknowledgement with the copies that the profile promises."""
    rows = _acked_rows(columns)
    findings, proven, unclear = [], 0, 0
    unobserved = dict(rows)
    for seen in context.observations:
        if seen["kind"] != "ack_durability" or seen["key"] not in rows:
            continue
        row = rows[seen["key"]]
        unobserved.pop(seen["key"], None)
        hidden = _hidden_nodes(columns, context, row, seen)
        missing = _missing_copies(columns, context, row, seen, hidden)
        if missing is not None:
            findings.append(_not_durable(columns, context, row, missing))
        elif _missing_copies(columns, context, row, seen, set()) is None:
            proven += 1
        else:
            unclear += 1
    counts = {"acks": len(rows), "acks_proven": proven, "acks_unclear": unclear}
    missing = NOT_OBSERVED if proven == 0 else None
    if proven and unobserved:
        missing = f"{len(unobserved)} of {len(rows)} acknowledgements were {NOT_OBSERVED}"
    return _verdict("durable_before_ack", findings, counts, missing)


def _acked_rows(columns: Columns) -> dict[str, int]:
    names, sends = columns.names, columns.sends
    acked = (sends.outcome == Outcome.OK).nonzero()[0]
    messages = sends.message[acked].tolist()
    return {
        key_of(message, names.other_keys): row
        for message, row in zip(messages, acked.tolist(), strict=True)
    }


def _hidden_nodes(
    columns: Columns, context: Context, row: int, seen: Mapping[str, Any]
) -> set[str]:
    """Nodes that may have held the message safely when the broker acknowledged it.

    Nobody could look at them, or a fault took their copy while the acknowledgement was on its way.
    """
    broker = columns.names.queues[columns.sends.queue[row]].broker
    since_ns, until_ns = int(columns.sends.invoke_ns[row]), int(columns.sends.time_ns[row])
    robbed = context.promises.robbed_nodes(broker, since_ns=since_ns, until_ns=until_ns)
    return robbed | set(seen["unobserved"])


def _missing_copies(
    columns: Columns, context: Context, row: int, seen: Mapping[str, Any], hidden: set[str]
) -> str | None:
    """Say which copies are missing if all `hidden` nodes hold the message; None: enough."""
    facts = context.facts
    broker = columns.names.queues[columns.sends.queue[row]].broker
    replicas = len(facts.brokers.get(broker, ()))
    on_disk, held = COPIES_PROMISED[facts.masters_keeping, facts.replication]
    if not SLAVE_DISK_COUNTS[facts.mode]:
        on_disk = min(on_disk, 1)
    durable = set(seen["durable_on"])
    cached = durable | set(seen["cached_on"])
    if len(durable | hidden) < min(on_disk, max(replicas, 1)):
        return f"on disk of {_nodes(durable)}, promised on {min(on_disk, replicas)}"
    if len(cached | hidden) < min(held, max(replicas, 1)):
        return f"held by {_nodes(cached)}, promised on {min(held, replicas)}"
    return None


def _nodes(nodes: set[str]) -> str:
    return ", ".join(sorted(nodes)) or "no node"


def _not_durable(columns: Columns, context: Context, row: int, missing: str) -> Finding:
    facts = context.facts
    return finding_at(
        columns,
        columns.sends,
        row,
        anomaly="acked_not_durable",
        judgement=judge(facts.mode, "acked_not_durable"),
        detail=f"{facts.flush} flush, {facts.replication} replication: {missing} when acknowledged",
    )


def check_replica_prefix(_columns: Columns, context: Context) -> Verdict:
    """Judge the last comparison of each pair of replicas."""
    last: dict[tuple[str, str, str], Mapping[str, Any]] = {}
    for seen in context.observations:
        if seen["kind"] == "replica":
            last[seen["broker_name"], seen["master"], seen["slave"]] = seen
    findings = [finding for seen in last.values() for finding in _judge_replica(context, seen)]
    compared = {broker_name for broker_name, _, _ in last}
    missing = _comparable(context) - compared
    counts = {"replicas": len(last)}
    observed = bool(last) and not missing
    return _verdict("replica_prefix", findings, counts, None if observed else NOT_OBSERVED)


def _comparable(context: Context) -> set[str]:
    """The broker names of which two nodes are left when the run ends."""
    gone = {
        node
        for fault in context.facts.faults
        if fault.permanent and fault.fired_ns is not None
        for node in fault.targets
    }
    brokers = context.facts.brokers.items()
    return {name for name, nodes in brokers if len(set(nodes) - gone) > 1}


def _judge_replica(context: Context, seen: Mapping[str, Any]) -> Iterator[Finding]:
    if seen["first_difference"] is not None:
        detail = f"{seen['slave']} differs from {seen['master']} from {seen['first_difference']} on"
        yield _replica_finding(context, seen, "replica_diverged", detail, seen["first_difference"])
    elif seen["slave_end"] > seen["master_end"]:
        detail = f"{seen['slave']} ends at {seen['slave_end']}, {seen['master']} before that"
        yield _replica_finding(context, seen, "replica_ahead", detail, seen["master_end"])


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


def _verdict(
    checker: str, findings: list[Finding], counts: Mapping[str, int], missing: str | None
) -> Verdict:
    """`missing` says what was not observed: then the answer is unknown, unless there are violations."""
    tally = Tally.of(findings, **counts)
    violated = any(finding.judgement == "violation" for finding in findings)
    return Verdict(
        checker=checker,
        valid=False if violated else (True if missing is None else "unknown"),
        counts=tally.counts,
        findings=tally.findings,
        reason=missing,
    )


DURABLE_BEFORE_ACK = Checker(
    name="durable_before_ack",
    anomalies=("acked_not_durable",),
    check=check_durable_before_ack,
    applies=lambda context: context.facts.disks_observed,
    needs_observations=True,
)

REPLICA_PREFIX = Checker(
    name="replica_prefix",
    anomalies=("replica_diverged", "replica_ahead"),
    check=check_replica_prefix,
    applies=lambda context: context.facts.files_observed and bool(_comparable(context)),
    needs_observations=True,
)
