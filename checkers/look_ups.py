"""Messages that a queue holds must be found in every other way, too.

**invisible**: an acknowledged message is in its queue after the drain, and its id leads to nothing. **unindexed**: its
key does not find it, although the broker keeps an index. Whether it is in its queue at all is the question of `loss`.
"""

from __future__ import annotations

from collections.abc import Iterator

from checkers.columns import Columns
from checkers.kernel import Checker, Context
from checkers.promises import judge
from checkers.timeline import Found, LookUp
from checkers.verdict import Finding, Tally, Verdict


def check_look_ups(_columns: Columns, context: Context) -> Verdict:
    """Judge what brokers found by key and by id."""
    look_ups = context.timeline.look_ups
    findings = [finding for look_up in look_ups for finding in _missed(context, look_up)]
    found = [found for look_up in look_ups for found in look_up.found]
    tally = Tally.of(
        findings, by_id=sum(f.by_id for f in found), by_key=sum(f.by_key for f in found)
    )
    reason = next((look_up.error for look_up in look_ups if look_up.error is not None), None)
    return Verdict(
        checker="look_ups",
        valid=False if findings else ("unknown" if reason is not None else True),
        counts=tally.counts,
        findings=tally.findings,
        reason=reason,
    )


def _missed(context: Context, look_up: LookUp) -> Iterator[Finding]:
    for found in look_up.found:
        if found.in_queue and not found.by_id:
            yield _finding(context, look_up, found, "invisible", "its id leads to nothing")
        if found.in_queue and look_up.is_indexed and not found.by_key:
            yield _finding(context, look_up, found, "unindexed", "its key does not find it")


def _finding(context: Context, look_up: LookUp, found: Found, anomaly: str, detail: str) -> Finding:
    return Finding(
        anomaly=anomaly,
        judgement=judge(context.facts.mode, anomaly),
        op_index=look_up.op_index,
        time_ns=look_up.time_ns,
        detail=f"in its queue, but {detail}",
        key=found.key,
        topic=look_up.topic,
        broker=look_up.broker,
        queue=found.queue,
        queue_offset=found.queue_offset,
    )


LOOK_UPS = Checker(
    name="look_ups",
    anomalies=("invisible", "unindexed"),
    check=check_look_ups,
    applies=lambda context: bool(context.timeline.look_ups),
)
