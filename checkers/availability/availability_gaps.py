"""Gaps: a client under load is never without success for longer than the bound of the campaign (`gap_max_s`).

Waiting counts, think time does not. Only the time of the load counts, from the start of the first producer or consumer
to the last send that a producer began. Time in which a fault has stopped a client (such as client_crash, from fired to
healed) does not count.

**send_gap**: a producer node had begun a send, and for too long no send of it was acknowledged with SEND_OK. The gap
begins with the first send after the last acknowledgement (or after the start of the node); other outcomes do not end
it. **start_gap**: a consumer node had started, and got no queue for too long. Not judged if there are fewer queues than
consumers. **delivery_gap**: an acknowledged message waited too long for its first successful delivery in a group. This
is judged for the group as a whole: a consumer whose queues receive no messages has no gap, and a member that takes over
the queues of a dead member must do so in time.

Cannot see: a client that never started, because the history does not name it; whether a plan that left a group without
any member caused a delivery gap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from staticfire.checkers.availability.gap_rows import decisive_rows, first_rows, longest_waits
from staticfire.checkers.derived.client_lifetimes import lives, load_end_ns, sends_by
from staticfire.checkers.engine.kernel import Checker, Context, finding_at
from staticfire.checkers.guarantees.promises import NS_PER_S, judge
from staticfire.checkers.guarantees.verdict import Finding, Tally, Verdict, seconds
from staticfire.checkers.model.columns import Columns, Ints, Outcome

NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """One interval of waiting, and its finding if it is too long."""

    length_ns: int
    finding: Finding


def check_availability_gaps(columns: Columns, context: Context) -> Verdict:
    facts = context.facts
    end_ns = load_end_ns(columns.sends, context)
    gaps = {
        "send_gap": list(_send_gaps(columns, context, end_ns)),
        "start_gap": list(_start_gaps(columns, context, end_ns)),
        "delivery_gap": list(_delivery_gaps(columns, context, end_ns)),
    }
    assert facts.gap_max_s is not None
    bound_ns = int(facts.gap_max_s * NS_PER_S)
    findings = [gap.finding for of in gaps.values() for gap in of if gap.length_ns > bound_ns]
    longest = {
        f"longest_{anomaly}_ms": max((gap.length_ns for gap in of), default=0) // NS_PER_MS
        for anomaly, of in gaps.items()
    }
    missing = None if context.timeline.opens else "no client is known to have started"
    tally = Tally.of(findings, **longest)
    return Verdict(
        checker="availability_gaps",
        valid=False if findings else ("unknown" if missing else True),
        counts=tally.counts,
        findings=tally.findings,
        reason=missing,
    )


def _send_gaps(columns: Columns, context: Context, load_end: int) -> Iterator[Gap]:
    sends = columns.sends
    for node in context.facts.producers:
        rows = sends_by(sends, context, (node,))
        for start_ns, end_ns in lives(context, node, load_end):
            begun = sends.invoke_ns[rows]
            yield from _waits(
                columns, context, node, rows[(begun >= start_ns) & (begun < end_ns)], end_ns
            )


def _waits(columns: Columns, context: Context, node: str, rows: Ints, end_ns: int) -> Iterator[Gap]:
    """Yield the waits of one life of a producer; `rows` are its sends in order."""
    sends = columns.sends
    first: int | None = None  # row of the first send since the last acknowledgement
    for row in rows.tolist():
        first = row if first is None else first
        if sends.outcome[row] == Outcome.OK:
            yield _send_gap(columns, context, node, first, int(sends.time_ns[row]))
            first = None
    if first is not None:
        yield _send_gap(columns, context, node, first, end_ns)


def _send_gap(columns: Columns, context: Context, node: str, row: int, until_ns: int) -> Gap:
    began_ns = int(columns.sends.invoke_ns[row])
    finding = finding_at(
        columns,
        columns.sends,
        row,
        anomaly="send_gap",
        judgement=judge(context.facts.mode, "send_gap"),
        detail=f"nothing of {node} was acknowledged for {seconds(until_ns - began_ns)}, {_bound(context)}",
        at_invocation=True,
    )
    return Gap(length_ns=until_ns - began_ns, finding=finding)


def _bound(context: Context) -> str:
    return f"at most {context.facts.gap_max_s:g} s are promised"


def _start_gaps(columns: Columns, context: Context, load_end: int) -> Iterator[Gap]:
    if len(columns.names.logs) < len(context.facts.consumers):
        return
    node_of = context.timeline.nodes
    gained = [
        (change.time_ns, node_of.get(change.process))
        for changes in context.timeline.ownership.values()
        for change in changes
        if change.change == "gained"
    ]
    for node in context.facts.consumers:
        times = sorted(time_ns for time_ns, owner in gained if owner == node)
        for start_ns, end_ns in lives(context, node, load_end):
            first_ns = next((at_ns for at_ns in times if start_ns <= at_ns <= end_ns), end_ns)
            yield _start_gap(context, node, start_ns, first_ns)


def _start_gap(context: Context, node: str, start_ns: int, until_ns: int) -> Gap:
    finding = Finding(
        anomaly="start_gap",
        judgement=judge(context.facts.mode, "start_gap"),
        op_index=-1,
        time_ns=start_ns,
        detail=f"{node} had no queue for {seconds(until_ns - start_ns)}, {_bound(context)}",
    )
    return Gap(length_ns=until_ns - start_ns, finding=finding)


def _delivery_gaps(columns: Columns, context: Context, end_ns: int) -> Iterator[Gap]:
    """Yield the longest wait in each queue, for each group that reads its topic."""
    for group in sorted(context.facts.groups):
        for row, waited_ns in longest_waits(columns, context, group, end_ns):
            yield _delivery_gap(columns, context, group, row, waited_ns)


def _delivery_gap(columns: Columns, context: Context, group: str, row: int, waited_ns: int) -> Gap:
    finding = finding_at(
        columns,
        columns.sends,
        row,
        anomaly="delivery_gap",
        judgement=judge(context.facts.mode, "delivery_gap"),
        detail=f"it waited {seconds(waited_ns)} for its delivery, {_bound(context)}",
        group=group,
    )
    return Gap(length_ns=waited_ns, finding=finding)


AVAILABILITY_GAPS = Checker(
    name="availability_gaps",
    anomalies=("send_gap", "start_gap", "delivery_gap"),
    check=check_availability_gaps,
    rows=first_rows,
    rows_again=decisive_rows,
    applies=lambda context: context.facts.gap_max_s is not None,
)
