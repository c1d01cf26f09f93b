"""Readability of retry and dead-letter topics: consumers can read the messages that brokers store there.

**unreadable_topic**: at the end of the run a broker refuses to serve a retry topic or a dead-letter topic of a group.
The harness tries to read each of them (`try_read`), because no consumer reads dead letters, and to consumers a refused
retry topic appears empty. A topic that does not exist is not a finding: `loss` judges whether messages are missing. The
verdict is unknown if the history lacks a try, a try had no answer, or dead letters were not read to their end.

Cannot see: topics that were unreadable only during the run; queues other than the first.

Source: AbstractSendMessageProcessor.createTopicInSendMessageBackMethod of Apache RocketMQ; older versions created
dead-letter topics with the permission to write and not to read (PermName.PERM_WRITE).
"""

from __future__ import annotations

from collections.abc import Iterator

from staticfire.checkers.engine.evidence import TRY_READ
from staticfire.checkers.engine.kernel import Checker, Context, no_rows
from staticfire.checkers.features.retries import DEAD, RETRY
from staticfire.checkers.guarantees.promises import judge
from staticfire.checkers.guarantees.verdict import Finding, Tally, Verdict
from staticfire.checkers.model.columns import Columns
from staticfire.checkers.model.timeline import TriedRead


def check_readability(_columns: Columns, context: Context) -> Verdict:
    """Judge the answers of brokers to reads of retry and dead-letter topics."""
    tried = context.timeline.tried_reads
    tally = Tally.of(
        (_finding(context, one) for one in tried if one.type == "fail"),
        read=sum(one.type == "ok" for one in tried),
    )
    silent = next((one for one in tried if one.type == "info"), None)
    reason = next(_untried(context), None)
    if silent is not None:
        reason = f"{silent.topic} of {silent.broker} was not read to its end: {silent.error}"
    return Verdict(
        checker="readability",
        valid=False if tally.findings else ("unknown" if reason is not None else True),
        counts=tally.counts,
        findings=tally.findings,
        reason=reason,
    )


def _untried(context: Context) -> Iterator[str]:
    """Yield a sentence for each topic that the harness had to read and whose try the history lacks."""
    if TRY_READ not in context.facts.due:
        return
    tried = {(one.topic, one.broker) for one in context.timeline.tried_reads}
    for group in context.facts.retries_max:
        for topic in (f"{RETRY}{group}", f"{DEAD}{group}"):
            for broker in context.facts.replica_sets:
                if (topic, broker) not in tried:
                    yield f"nothing says whether {topic} of {broker} can be read"


def _finding(context: Context, tried: TriedRead) -> Finding:
    return Finding(
        anomaly="unreadable_topic",
        judgement=judge(context.facts.mode, "unreadable_topic"),
        op_index=tried.op_index,
        time_ns=tried.time_ns,
        detail=f"{tried.broker} refuses to give out {tried.topic}: {tried.error}",
        topic=tried.topic,
        broker=tried.broker,
        group=tried.group,
    )


READABILITY = Checker(
    name="readability",
    anomalies=("unreadable_topic",),
    check=check_readability,
    applies=lambda context: bool(context.timeline.tried_reads),
    rows=no_rows,
)
