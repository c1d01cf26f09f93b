"""Queue entries: every queue has an entry for each of its messages in the log, in the order of the log.

**queue_hole**: a queue of a broker has no entry at an offset between two offsets that have one. A consumer stops there,
or skips messages that are in the log. **queue_entry_wrong**: an entry leads to no record, or to a record of another
queue or offset. **queue_entry_missing**: the log has more messages than the queues have entries, so consumers do not
receive some of them. Half messages and rolled-back messages have no entries and do not count.

The harness reads the files of brokers after the run. If it has no observation of a node, the verdict is unknown.

Cannot see: entries that were wrong and that the broker has rebuilt since; whether the topic of a record is that of its
queue; records without an entry, once retention has deleted log files.

Source: ReputMessageService and ConsumeQueue of Apache RocketMQ 4.9.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from staticfire.checkers.engine.kernel import Checker, Context, no_rows
from staticfire.checkers.engine.observed import NOT_OBSERVED, observed_verdict
from staticfire.checkers.guarantees.promises import judge
from staticfire.checkers.guarantees.verdict import Finding, Verdict
from staticfire.checkers.model.columns import Columns

NOWHERE = (None, None, None)  # topic, queue and offset if they are not known


def check_queue_entries(_columns: Columns, context: Context) -> Verdict:
    """Judge the last observation of each broker node."""
    last = {seen["node"]: seen for seen in context.observations if seen["kind"] == "queue_entries"}
    findings = [finding for seen in last.values() for finding in _judge(context, seen)]
    nodes = {node for of_name in context.facts.replica_sets.values() for node in of_name}
    counts = {"entries": sum(seen["entries"] for seen in last.values())}
    unseen = sorted(nodes - last.keys() - _lost_for_good(context))
    missing = f"{NOT_OBSERVED}: {', '.join(unseen)}" if unseen else None
    missing = missing if last else NOT_OBSERVED
    return observed_verdict("queue_entries", findings, counts, missing)


def _lost_for_good(context: Context) -> set[str]:
    """Return the nodes whose files are gone for good, so that the harness cannot read them."""
    return {
        node
        for fault in context.facts.faults
        if fault.permanent and fault.fired_ns is not None
        for node in fault.targets
    }


def _judge(context: Context, seen: Mapping[str, Any]) -> Iterator[Finding]:
    for position in seen["hole_at"] or [NOWHERE] * (seen["holes"] > 0):
        detail = f"{seen['node']} has no entry here, one of {seen['holes']}"
        yield _finding(context, seen, "queue_hole", detail, position)
    for position in seen["wrong_at"] or [NOWHERE] * (seen["wrong"] > 0):
        detail = f"the entry of {seen['node']} leads to no such message, one of {seen['wrong']}"
        yield _finding(context, seen, "queue_entry_wrong", detail, position)
    if seen["missing"] is not None and seen["missing"] > 0:
        detail = f"{seen['missing']} messages in the log of {seen['node']} are in no queue"
        yield _finding(context, seen, "queue_entry_missing", detail, NOWHERE)


def _finding(
    context: Context, seen: Mapping[str, Any], anomaly: str, detail: str, position: Any
) -> Finding:
    topic, queue, offset = position
    return Finding(
        anomaly=anomaly,
        judgement=judge(context.facts.mode, anomaly),
        op_index=-1,
        time_ns=seen["time_ns"],
        detail=detail,
        broker=seen["broker_name"],
        topic=topic,
        queue=queue,
        queue_offset=offset,
    )


QUEUE_ENTRIES = Checker(
    name="queue_entries",
    anomalies=("queue_hole", "queue_entry_wrong", "queue_entry_missing"),
    check=check_queue_entries,
    rows=no_rows,
    applies=lambda context: context.facts.files_observed,
    needs_observations=True,
)
