"""Requests and replies: a requester receives only replies to its own request, and replies are not lost.

**wrong_answer**: a requester received the reply to another request, or to a request of another process. Or the reply
that it received has other properties than the listeners set in their replies to that request, according to the digests
that both sides report. If a listener's reply has no digest, or no report, the properties are not judged.
**duplicate_reply**: one request ended with two replies, or a reply arrived after it had ended with one.
**phantom_reply**: a reply arrived to a request that no listener had received by then.
**lost_reply**: a living requester got no reply, although a listener had replied at least a second before the requester
gave up. A fault may lose a reply on its way, so the rule applies at rest, from the request to its end. It also applies
to each reply that ended as `ok`: a broker reports `ok` only after the requester has answered the push (code 326), so no
fault excuses the loss. A requester whose request was not acknowledged may accept the reply and discard it, because it
does not know the request. So in this case the request must have a position.

It is not an anomaly if no listener replied to a request in time, because responders may die. The verdict is unknown if
the history lacks replies that it must have: listeners replied, and no requester received any; a request ended with a
reply that the history does not have; or replies arrived, and no listener recorded one. `loss` judges whether the
request itself is consumed.

Source: request-reply of Apache RocketMQ 4.9 (RequestResponseFuture, correlation ids).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from staticfire.checkers.derived.process_ends import ended_ns
from staticfire.checkers.derived.rest import spans_at_rest
from staticfire.checkers.engine.kernel import Checker, Context, some_rows
from staticfire.checkers.engine.screening import is_among
from staticfire.checkers.guarantees.promises import FOREVER_NS, NS_PER_S, judge
from staticfire.checkers.guarantees.verdict import Finding, Tally, Verdict
from staticfire.checkers.model.columns import UNKNOWN, Columns, Ints, Outcome
from staticfire.checkers.model.message_ids import OTHER, MessageIds
from staticfire.checkers.model.timeline import Exchange

# time until the history has a reply after its request has ended with it
WRITTEN_WITHIN_NS = NS_PER_S
_GAVE_UP = (Outcome.UNKNOWN, Outcome.WEAK)  # outcomes of requests that got no reply in time


def answered_rows(columns: Columns, context: Context) -> Columns:
    """Select the deliveries of requests whose replies arrived, and the sends of all requests that got a reply."""
    replies = {of.reply for of in context.timeline.answers}
    given = is_among(columns.deliveries.message, _ids_of(columns, replies))
    replied = {of.key for of in (*context.timeline.replies, *context.timeline.answers)}
    sent = is_among(columns.sends.message, _ids_of(columns, replied))
    return some_rows(columns, sends=sent, deliveries=given)


def _ids_of(columns: Columns, keys: set[str]) -> Ints:
    """Return the ids of the messages with these keys, sorted."""
    follow = (MessageIds()[key] for key in keys)
    found = {message for message in follow if not message & OTHER}
    found |= {OTHER | number for number, key in enumerate(columns.names.other_keys) if key in keys}
    return np.array(sorted(found), np.int64)


def check_requests(columns: Columns, context: Context) -> Verdict:
    """Judge all replies of a run."""
    answers = context.timeline.answers
    findings = [*_judge(columns, context, answers), *_lost_replies(columns, context)]
    tally = Tally.of(findings, answered=len(answers), replies=len(context.timeline.replies))
    reason = _missing(columns, context)
    return Verdict(
        checker="requests",
        valid=False if findings else (True if reason is None else "unknown"),
        counts=tally.counts,
        findings=tally.findings,
        reason=reason,
    )


def _missing(columns: Columns, context: Context) -> str | None:
    """Return which replies the history lacks, as a text; None if it has all."""
    answers, replies = context.timeline.answers, context.timeline.replies
    if replies and not answers:
        return f"{len(replies)} replies were written, and no requester was given an answer"
    if answers and not replies:
        return f"{len(answers)} requests were answered, and no reply was written down"
    replied, answered = {of.key for of in replies}, {of.key for of in answers}
    sends = answered_rows(columns, context).sends
    ended = (
        columns.names.key(message)
        for message in sends.message[sends.outcome == Outcome.OK].tolist()
    )
    missing = sorted(key for key in ended if key in replied and key not in answered)
    if not missing:
        return None
    return f"{len(missing)} requests ended as answered without an answer, first key {missing[0]}"


def _judge(columns: Columns, context: Context, answers: Sequence[Exchange]) -> Iterator[Finding]:
    rows = answered_rows(columns, context)
    given, asked = _given_at(rows), _asked(rows)
    properties = _properties(context.timeline.replies)
    answered: dict[str, Exchange] = {}
    for answer in answers:
        process, ended_ns = asked.get(answer.key, (answer.process, FOREVER_NS))
        if process != answer.process:
            yield _finding(context, answer, "wrong_answer", f"process {process} had asked")
        if answer.time_ns > ended_ns + WRITTEN_WITHIN_NS and answer.key not in answered:
            what = f"its request had ended as answered at {ended_ns / NS_PER_S:.3f} s"
            yield _finding(context, answer, "duplicate_reply", what)
        if answer.reply != answer.key:
            what = f"it is the answer to {answer.reply}"
            yield _finding(context, answer, "wrong_answer", what)
        if _differ(answer.properties, properties.get(answer.reply)):
            what = "it has other properties than its listener set"
            yield _finding(context, answer, "wrong_answer", what)
        if answer.key in answered:
            yield _finding(context, answer, "duplicate_reply", "it had been answered before")
        answered[answer.key] = answer
        if given.get(answer.reply, answer.op_index) >= answer.op_index:
            what = f"no listener had been given {answer.reply} by then"
            yield _finding(context, answer, "phantom_reply", what)


def _lost_replies(columns: Columns, context: Context) -> Iterator[Finding]:
    """Yield findings for replies that a waiting requester did not get, at rest or in spite of a broker's report."""
    sends = answered_rows(columns, context).sends
    row_of = {columns.names.key(message): row for row, message in enumerate(sends.message.tolist())}
    answered = {of.key for of in context.timeline.answers}
    nodes = context.timeline.nodes
    for reply in context.timeline.replies:
        row = row_of.get(reply.key)
        if row is None or reply.key in answered or sends.outcome[row] not in _GAVE_UP:
            continue
        began_ns, gave_up_ns = int(sends.invoke_ns[row]), int(sends.time_ns[row])
        if reply.time_ns + WRITTEN_WITHIN_NS > gave_up_ns:
            continue
        process = int(sends.process[row])
        if ended_ns(context, process) <= gave_up_ns:
            continue
        had_taken = reply.is_taken and sends.log[row] != UNKNOWN
        rest = spans_at_rest(context, (nodes.get(process), nodes.get(reply.process)))
        at_rest = any(span.start_ns <= began_ns and gave_up_ns <= span.end_ns for span in rest)
        if had_taken or at_rest:
            what = f"process {process} waited until {gave_up_ns / NS_PER_S:.3f} s and got no answer"
            if had_taken:
                what += ", although the broker had reported that it took this one"
            yield _finding(context, reply, "lost_reply", what)


def _properties(replies: Sequence[Exchange]) -> dict[str, set[int | None]]:
    """Return, by key, the digests of the properties of all replies to each request; None for a reply without one."""
    found: dict[str, set[int | None]] = {}
    for reply in replies:
        found.setdefault(reply.key, set()).add(reply.properties)
    return found


def _differ(got: int | None, set_by_listeners: set[int | None] | None) -> bool:
    """Whether a reply arrived with properties that no listener set; False if a digest is not reported."""
    if got is None or set_by_listeners is None or None in set_by_listeners:
        return False
    return got not in set_by_listeners


def _asked(columns: Columns) -> dict[str, tuple[int, int]]:
    """Return, by key, the process that sent each request, and when it ended with a reply in ns (FOREVER_NS: never)."""
    sends = columns.sends
    ended = np.where(sends.outcome == Outcome.OK, sends.time_ns, FOREVER_NS)
    rows = zip(sends.message.tolist(), sends.process.tolist(), ended.tolist(), strict=True)
    return {
        key: (process, ended_ns)
        for message, process, ended_ns in rows
        if (key := columns.names.key(message)) is not None
    }


def _given_at(columns: Columns) -> dict[str, int]:
    """Return, by key, the index of the op with which a listener first received each message."""
    deliveries = columns.deliveries
    order = np.argsort(deliveries.invoke_index, kind="stable")
    messages, first = np.unique(deliveries.message[order], return_index=True)
    return {
        key: int(deliveries.invoke_index[order[at]])
        for message, at in zip(messages.tolist(), first.tolist(), strict=True)
        if (key := columns.names.key(message)) is not None
    }


def _finding(context: Context, answer: Exchange, anomaly: str, detail: str) -> Finding:
    return Finding(
        anomaly=anomaly,
        judgement=judge(context.facts.mode, anomaly),
        op_index=answer.op_index,
        time_ns=answer.time_ns,
        detail=f"{detail}, {'by' if anomaly == 'lost_reply' else 'to'} process {answer.process}",
        key=answer.key,
    )


REQUESTS = Checker(
    name="requests",
    anomalies=("wrong_answer", "duplicate_reply", "phantom_reply", "lost_reply"),
    check=check_requests,
    rows=answered_rows,
    applies=lambda context: bool(context.timeline.answers or context.timeline.replies),
)
