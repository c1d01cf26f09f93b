"""Send-backs that brokers decline: the part of **refused_at_rest** (stuck_producers.py) about consumers.

When a consumer sends a message back, the broker that holds it makes the copy for its retry. If it declines, the client
sends a copy of its own or keeps the message. The message still comes again, so no other rule reports the refusal.
Members of orderly groups send only copies of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from staticfire.checkers.derived.rest import WITHIN_S, often_at_rest
from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.promises import NS_PER_S, judge
from staticfire.checkers.guarantees.verdict import Finding
from staticfire.checkers.model.timeline import SentBack

REFUSED, IN_THE_WAY = "refused_at_rest", "producer_stuck"  # anomaly; row of the excuses


class _Declined(NamedTuple):
    key: str
    report: SentBack


def declined_send_backs(context: Context) -> Iterator[Finding]:
    """Yield a finding for each consumer whose send-backs brokers repeatedly decline, or do not answer at all."""
    for node, declined in sorted(_by_node(context).items()):
        found = _again_and_again(context, node, declined) or _unanswered(context, node, declined)
        if found is not None:
            yield found


def _by_node(context: Context) -> dict[str, list[_Declined]]:
    """Return the declined send-backs of each consumer, in the order of their reports."""
    orderly, nodes = context.facts.orderly, context.timeline.nodes
    found: dict[str, list[_Declined]] = {}
    for key, reports in context.timeline.sent_back.items():
        for report in reports:
            if report.is_declined and report.group not in orderly and report.process in nodes:
                found.setdefault(nodes[report.process], []).append(_Declined(key, report))
    for declined in found.values():
        declined.sort(key=lambda one: one.report.op_index)
    return found


def _again_and_again(context: Context, node: str, declined: list[_Declined]) -> Finding | None:
    reported_ns = np.array([one.report.time_ns for one in declined], np.int64)
    often = often_at_rest(context, node, reported_ns, reported_ns)
    if often is None:
        return None
    return _finding(
        context,
        declined[often.first],
        f"brokers made no copies of what {node} sent back in {often.seconds} seconds of the next "
        f"{WITHIN_S}, and no fault was near",
    )


def _unanswered(context: Context, node: str, declined: list[_Declined]) -> Finding | None:
    """Return a finding for the first send-back without an answer although no fault hindered it, in the simulation."""
    if not context.facts.disks_observed:
        return None
    waited_ns = round(context.facts.timings.send_back_s * NS_PER_S)
    for one in declined:
        report = one.report
        since_ns, broker = report.time_ns - waited_ns, report.broker
        if report.is_unanswered and not context.excuses.find(
            IN_THE_WAY, since_ns, report.time_ns, broker, (node,)
        ):
            detail = f"{broker} did not answer {node}, which sent a message back, and no fault was in the way"
            return _finding(context, one, detail)
    return None


def _finding(context: Context, one: _Declined, detail: str) -> Finding:
    return Finding(
        anomaly=REFUSED,
        judgement=judge(context.facts.mode, REFUSED),
        op_index=one.report.op_index,
        time_ns=one.report.time_ns,
        detail=detail,
        key=one.key,
        broker=one.report.broker,
        group=one.report.group,
    )
