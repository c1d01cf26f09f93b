"""Transactions: committed ones are seen, others never are, and brokers ask about those that they know nothing of.

**rolled_back_visible**: a message was delivered whose transaction was rolled back, or never decided.
**unresolved_transaction**: half of it was stored with SEND_OK, the producer left the end to the broker's question and
would have answered "commit", and a group has read everything without it. (A transaction that ended as `ok` and is never
seen is `lost`.) **check_too_early**: a broker asked before the time in which it must not (allowed where its clock was
stepped). **checked_too_often**: it asked more often than configured, for each half that the send may have stored
(allowed where a broker died meanwhile and may have forgotten, and where the producer died before it could say how
often it had sent it).

Cannot see: a transaction whose half message nobody acknowledged, unless it shows up; questions that never reached a
producer.

Source: TransactionalMessageServiceImpl of Apache RocketMQ 4.9; bug #544, a half message that was skipped in the time in
which it may not be asked for.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from checkers.columns import UNKNOWN, Columns, Ints, Mask, Outcome, Touches, Transaction
from checkers.delays import CLOCK_ROUGHNESS_NS, clock_stepped
from checkers.kernel import Context, Kernel, finding_at, nothing_missing, queue_of
from checkers.promises import DAMAGE_OF_FAULT, NS_PER_S, Judgement, judge
from checkers.screening import is_among
from checkers.timeline import CheckBack
from checkers.unrest import fault_active
from checkers.verdict import Finding, Tally


def tally_transactions(columns: Columns, context: Context) -> Tally:
    """Judge whole messages (partition key: message)."""
    sends = columns.sends
    halves = sends.where(sends.transaction != Transaction.NONE)
    if not len(halves):
        return Tally()
    checks = _checks_by_key(context)
    asked = {
        row: of_key
        for row, message in enumerate(halves.message.tolist())
        if (of_key := checks.get(columns.names.key(message) or ""))
    }
    findings = [
        *_visible(columns, context, halves),
        *_unresolved(columns, context, halves),
        *_checked(columns, context, halves, asked),
    ]
    return Tally.of(
        findings,
        transactions=len(halves),
        committed=int(np.count_nonzero(halves.transaction == Transaction.COMMIT)),
        rolled_back=int(np.count_nonzero(halves.transaction == Transaction.ROLLBACK)),
        checked_back=len(asked),
        checked_again=sum(len(checks) > 1 for checks in asked.values()),
    )


def _checks_by_key(context: Context) -> dict[str, list[CheckBack]]:
    checks: dict[str, list[CheckBack]] = {}
    for check in context.timeline.check_backs:
        checks.setdefault(check.key, []).append(check)
    return checks


def _visible(columns: Columns, context: Context, halves: Touches) -> Iterator[Finding]:
    hidden = halves.where(halves.transaction != Transaction.COMMIT)
    deliveries = columns.deliveries
    rows = np.flatnonzero(is_among(deliveries.message, np.unique(hidden.message)))
    _, first = np.unique(deliveries.message[rows], return_index=True)
    for row in rows[first].tolist():
        sent = np.flatnonzero(hidden.message == deliveries.message[row])[0]
        rolled_back = hidden.transaction[sent] == Transaction.ROLLBACK
        what = "its transaction was rolled back" if rolled_back else "nobody ever committed it"
        yield finding_at(
            columns,
            deliveries,
            row,
            anomaly="rolled_back_visible",
            judgement=judge(context.facts.mode, "rolled_back_visible"),
            detail=f"delivered, and {what}",
            group=columns.names.groups[deliveries.group[row]],
            at_invocation=True,
        )


def _unresolved(columns: Columns, context: Context, halves: Touches) -> Iterator[Finding]:
    """Halves that were stored for certain, and whose commit depends on the broker's question."""
    left = halves.where(
        (halves.transaction == Transaction.COMMIT)
        & (halves.outcome == Outcome.UNKNOWN)
        & (halves.queue != UNKNOWN)
    )
    seen = is_among(left.message, np.unique(columns.deliveries.message))
    passed = np.zeros(len(left), np.bool_)
    for group in context.facts.groups:
        passed |= context.wants(columns, left, group) & context.resolved(columns, left, group)
    for row in np.flatnonzero(passed & ~seen).tolist():
        queue = queue_of(columns, left, row)
        assert queue is not None
        rule = context.promises.rule(queue.broker, int(left.invoke_ns[row]))
        gone = queue.broker not in context.facts.living_brokers
        yield finding_at(
            columns,
            left,
            row,
            anomaly="unresolved_transaction",
            judgement=Judgement.ALLOWED if gone else rule.judgement,
            detail="half of it is stored, its producer would commit it, and nobody has seen it; "
            + ("its master is gone for good" if gone else context.promises.text(rule)),
        )


def _checked(
    columns: Columns, context: Context, halves: Touches, asked: dict[int, list[CheckBack]]
) -> Iterator[Finding]:
    facts = context.facts
    for row, checks in asked.items():
        began = int(halves.invoke_ns[row])
        early_ns = began + round(facts.check_after_s * NS_PER_S) - checks[0].time_ns
        if early_ns > CLOCK_ROUGHNESS_NS:
            what = f"asked {early_ns / NS_PER_S:.3f} s before the time in which it may be"
            excuse = clock_stepped(context, began, checks[0].time_ns)
            yield _question(columns, context, halves, row, "check_too_early", what, excuse)
        attempts = max(int(halves.tries[row]), 1)  # each may have stored a half of its own
        if len(checks) > facts.check_max * attempts:
            what = f"asked {len(checks)} times; {facts.check_max} are allowed"
            if attempts > 1:
                what += f" for each of {attempts} attempts"
            excuse = _many_halves(halves, row) or _broker_died(context, began, checks[-1].time_ns)
            yield _question(columns, context, halves, row, "checked_too_often", what, excuse)


def _many_halves(halves: Touches, row: int) -> str | None:
    """Why there may be more halves than anybody has told of."""
    if halves.tries[row] == 0 and halves.queue[row] == UNKNOWN:
        return "the send ended without an answer: nobody knows how many attempts were stored"
    return None


def _broker_died(context: Context, first_ns: int, last_ns: int) -> str | None:
    """Why a broker may have asked again: what it had put back or passed lately was not durable."""
    facts = context.facts
    deadly = [fault for fault in facts.faults if fault.kind in DAMAGE_OF_FAULT]
    fault = fault_active(deadly, first_ns, last_ns)
    if fault is not None:
        return f"fault {fault.fault_id} ({fault.kind}): a broker may have forgotten that it asked"
    servers = {node for nodes in facts.brokers.values() for node in nodes}
    meanwhile = (of for of in facts.exits if first_ns <= of.time_ns <= last_ns)
    ended = next((of for of in meanwhile if of.node in servers), None)
    return None if ended is None else f"{ended.node} ended by itself: {ended.error}"


def _question(
    columns: Columns,
    context: Context,
    halves: Touches,
    row: int,
    anomaly: str,
    detail: str,
    excuse: str | None,
) -> Finding:
    return finding_at(
        columns,
        halves,
        row,
        anomaly=anomaly,
        judgement=Judgement.ALLOWED if excuse else judge(context.facts.mode, anomaly),
        detail=f"{detail}; {excuse}" if excuse else detail,
    )


def _suspects(columns: Columns, _context: Context, _cleared: Mask) -> Ints:
    """All transactions: what was rolled back is nowhere, and must be looked for everywhere."""
    return np.unique(columns.sends.message[columns.sends.transaction != Transaction.NONE])


TRANSACTIONS = Kernel(
    name="transactions",
    partition_by="message",
    anomalies=(
        "rolled_back_visible",
        "unresolved_transaction",
        "check_too_early",
        "checked_too_often",
    ),
    partial=tally_transactions,
    unknown_reason=nothing_missing,
    more_suspects=_suspects,
)
