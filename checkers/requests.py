"""Requests and their answers: each answer belongs to its request, and nobody makes one up.

**wrong_answer**: a requester was given the answer to another request. **answered_twice**: one request ended with two
answers. **made_up_answer**: an answer to a request that no listener had been given by then.

A request that is not answered is no anomaly: requesters give up in time, responders die. That the request itself is
consumed is a matter of loss.

Source: request-reply of Apache RocketMQ 4.9 (RequestResponseFuture, correlation ids).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from checkers.columns import Columns
from checkers.kernel import Checker, Context, all_rows
from checkers.promises import judge
from checkers.timeline import Exchange
from checkers.verdict import Finding, Tally, Verdict


def check_requests(columns: Columns, context: Context) -> Verdict:
    """Judge all answers of a run."""
    answers = context.timeline.answers
    findings = list(_judge(columns, context, answers))
    tally = Tally.of(findings, answered=len(answers), replies=len(context.timeline.replies))
    return Verdict(
        checker="requests", valid=not findings, counts=tally.counts, findings=tally.findings
    )


def _judge(columns: Columns, context: Context, answers: Sequence[Exchange]) -> Iterator[Finding]:
    given = _given_at(columns)
    answered: dict[str, Exchange] = {}
    for answer in answers:
        if answer.reply != answer.key:
            what = f"it is the answer to {answer.reply}"
            yield _finding(context, answer, "wrong_answer", what)
        if answer.key in answered:
            yield _finding(context, answer, "answered_twice", "it had been answered before")
        answered[answer.key] = answer
        if given.get(answer.reply, answer.op_index) >= answer.op_index:
            what = f"no listener had been given {answer.reply} by then"
            yield _finding(context, answer, "made_up_answer", what)


def _given_at(columns: Columns) -> dict[str, int]:
    """The op at which each message was first given to a listener, by key."""
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
        detail=f"{detail}, to process {answer.process}",
        key=answer.key,
    )


REQUESTS = Checker(
    name="requests",
    anomalies=("wrong_answer", "answered_twice", "made_up_answer"),
    check=check_requests,
    rows=all_rows,
    applies=lambda context: bool(context.timeline.answers),
)
