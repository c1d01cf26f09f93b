"""Errors inside nodes: a server or a client logs no error that only a bug in its program can raise.

**internal_error**: a node logged such an error, for example a missing attribute or an index out of range. The node may
have continued and answered with an error code, so that clients tried again and no message was lost. The system that
writes the logs declares these errors. Faults excuse none of them: faults of disks, networks and peers raise other
errors.

Cannot see: errors that a node does not log, or logs without their type; lines that its log no longer holds.

Source: Jepsen's `log-file-pattern` searches the logs of a database in the same way, with patterns from its user.
"""

from __future__ import annotations

from staticfire.checkers.engine.kernel import Checker, Context, no_rows
from staticfire.checkers.engine.observed import NOT_OBSERVED, observed_verdict
from staticfire.checkers.guarantees.promises import judge
from staticfire.checkers.guarantees.verdict import Finding, Verdict
from staticfire.checkers.model.columns import Columns

INTERNAL_ERROR = "internal_error"  # the kind of observation, and the anomaly


def check_internal_errors(_columns: Columns, context: Context) -> Verdict:
    """Report each kind of error of each node once."""
    sets = {node: name for name, nodes in context.facts.replica_sets.items() for node in nodes}
    findings = [
        Finding(
            anomaly=INTERNAL_ERROR,
            judgement=judge(context.facts.mode, INTERNAL_ERROR),
            op_index=-1,
            time_ns=seen["time_ns"],
            detail=f"{seen['node']} logged {seen['times']} times: {seen['event']}: {seen['error']}",
            broker=sets.get(seen["node"]),
        )
        for seen in context.observations
        if seen["kind"] == INTERNAL_ERROR
    ]
    # The harness records its counts of log events after it has read all logs.
    is_read = any(seen["kind"] == "events" for seen in context.observations)
    missing = None if is_read else f"{NOT_OBSERVED}: the logs of nodes"
    return observed_verdict("internal_errors", findings, {}, missing)


INTERNAL_ERRORS = Checker(
    name="internal_errors",
    anomalies=(INTERNAL_ERROR,),
    check=check_internal_errors,
    rows=no_rows,
    applies=lambda context: context.facts.errors_observed,
    needs_observations=True,
)
