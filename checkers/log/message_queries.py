"""Queries by key, id and time find the messages that a queue holds.

**not_found_by_id**: an acknowledged message is in its queue after the drain, but a query by its id does not find it.
**not_found_by_key**: a query by its key does not find it, although the broker keeps an index. `loss` judges whether it
is in its queue at all. **wrong_time_search**: the harness searched for the store time of a message of the queue
(SEARCH_OFFSET_BY_TIMESTAMP), and the broker's answer is not the first message with that time. Allowed if a clock of the
broker was wrong, because store times then do not ascend. A faithful broker may answer with any of several messages with
that time. `reset_times.py` judges the searches of resets of offsets.

**torn_answer**: an answer of a broker held an invalid record: its sizes are inconsistent, or it ends too early. A
broker must not serve such a record, no matter whether the broker or its disk damaged it.

**refused_read**: a message is in its queue, and the broker repeatedly fails (SYSTEM_ERROR) to read it at its offset, or
to search for its store time. A group that reaches this offset cannot continue. A message that is missing from the queue
is not a finding: `loss` judges whether it may be missing.

The verdict is unknown if the harness did not query a broker, if a query failed, if answers to queries hold fewer
messages than requested, or if a broker does not answer searches by time or refuses them with another code.

Cannot see: searches for times at which no message was stored; searches for other messages than two of each queue.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from staticfire.checkers.engine.kernel import Checker, Context, some_rows
from staticfire.checkers.features.delays import clock_stepped
from staticfire.checkers.guarantees.promises import Judgement, judge
from staticfire.checkers.guarantees.verdict import Finding, Tally, Verdict
from staticfire.checkers.log.reset_times import answers, rows_at_answers, wrong_answers
from staticfire.checkers.model.columns import Columns, LogKey
from staticfire.checkers.model.timeline import Found, LookUp, RefusedRead, Searched, Torn

DUE = "look_up"  # the kind of op that such a run must record (checkers/engine/evidence.py)
# The beginning of the error of an older look-up, which ended at its first torn record instead of counting it (`torn`).
NOT_A_RECORD = "the answer makes no sense: RecordError"


def check_look_ups(columns: Columns, context: Context) -> Verdict:
    """Judge the answers of brokers to queries by key, by id and by time."""
    look_ups = context.timeline.look_ups
    findings = [
        finding
        for look_up in look_ups
        for finding in (
            *_missed(context, look_up),
            *_torn(context, look_up),
            *_refused(context, look_up),
            *_wrong_times(context, look_up),
        )
    ]
    findings += wrong_answers(columns, context)
    found = [found for look_up in look_ups for found in look_up.found]
    tally = Tally.of(
        findings,
        by_id=sum(f.by_id is True for f in found),
        by_key=sum(f.by_key for f in found),
        by_time=sum(len(look_up.searched) for look_up in look_ups),
        by_reset=sum(1 for _ in answers(context)),
    )
    reason = next((look_up.error for look_up in look_ups if look_up.error is not None), None)
    reason = reason or _not_asked(context) or _incomplete(look_ups)
    violated = any(finding.judgement is Judgement.VIOLATION for finding in findings)
    return Verdict(
        checker="look_ups",
        valid=False if violated else ("unknown" if reason is not None else True),
        counts=tally.counts,
        findings=tally.findings,
        reason=reason,
    )


def rows_of_searches(columns: Columns, context: Context) -> Columns:
    """Select the deliveries that are compared with the answers to resets of offsets."""
    return some_rows(columns, deliveries=rows_at_answers(columns, context))


def _not_asked(context: Context) -> str | None:
    """Return which brokers were not queried, in a run that queries all of them; None if all were."""
    facts = context.facts
    asked = {(look_up.topic, look_up.broker) for look_up in context.timeline.look_ups}
    due = ((topic, broker) for topic in facts.topics for broker in sorted(facts.replica_sets))
    missing = [f"{broker} for {topic}" for topic, broker in due if (topic, broker) not in asked]
    if DUE not in facts.due or not missing:
        return None
    return f"the history does not say what brokers hold after the run: {', '.join(missing)}"


def _incomplete(look_ups: Sequence[LookUp]) -> str | None:
    """Return the first broker that answered too few queries, as a text; None if all answers are there."""
    for one in look_ups:
        answered = len(one.found) + len(one.torn)
        if one.error is None and one.asked is not None and answered < one.asked:
            return f"{one.broker} was asked for {one.asked} messages of {one.topic}, and {answered} answers are there"
        if one.search_error is not None:
            return f"{one.broker} answered no search by time in {one.topic}: {one.search_error}"
    return None


def _missed(context: Context, look_up: LookUp) -> Iterator[Finding]:
    for found in look_up.found:
        if found.in_queue and found.by_id is False:
            yield _finding(
                context,
                look_up,
                found,
                "not_found_by_id",
                "in its queue, but its id leads to nothing",
            )
        if found.in_queue and look_up.is_indexed and not found.by_key:
            yield _finding(
                context,
                look_up,
                found,
                "not_found_by_key",
                "in its queue, but its key does not find it",
            )


def _torn(context: Context, look_up: LookUp) -> Iterator[Finding]:
    for torn in look_up.torn:
        detail = f"the answer of {look_up.node or look_up.broker} holds a torn record: {torn.error}"
        yield _finding(context, look_up, torn, "torn_answer", detail)
    error = look_up.error
    if error is not None and error.startswith(NOT_A_RECORD):
        detail = f"an answer of {look_up.node or look_up.broker} holds a torn record: {error}"
        yield Finding(
            anomaly="torn_answer",
            judgement=judge(context.facts.mode, "torn_answer"),
            op_index=look_up.op_index,
            time_ns=look_up.time_ns,
            detail=detail,
            topic=look_up.topic,
            broker=look_up.broker,
        )


def _refused(context: Context, look_up: LookUp) -> Iterator[Finding]:
    held = {(of.key, of.queue, of.queue_offset) for of in look_up.found if of.in_queue}
    for refused in look_up.refused:
        if (refused.key, refused.queue, refused.queue_offset) in held:
            detail = f"in its queue, and {look_up.node or look_up.broker} fails to read it: {refused.error}"
            yield _finding(context, look_up, refused, "refused_read", detail)


def _wrong_times(context: Context, look_up: LookUp) -> Iterator[Finding]:
    for one in look_up.searched:
        if one.answer_stored_ms != one.stored_ms:
            what = f"where what is stored is of {one.answer_stored_ms}"
        elif one.before_stored_ms == one.stored_ms and context.facts.mode == "hardened":
            what = "which is not the first with that time"
        else:
            continue
        log_key = LogKey(look_up.topic, look_up.broker, one.queue)
        why = clock_stepped(context, log_key, 0, look_up.time_ns)
        detail = f"the search for time {one.stored_ms} ms led to offset {one.answer}, {what}"
        finding = _finding(context, look_up, one, "wrong_time_search", detail)
        if why is not None:
            finding = replace(finding, judgement=Judgement.ALLOWED, detail=f"{detail}; {why}")
        yield finding


def _finding(
    context: Context,
    look_up: LookUp,
    found: Found | Torn | Searched | RefusedRead,
    anomaly: str,
    detail: str,
) -> Finding:
    return Finding(
        anomaly=anomaly,
        judgement=judge(context.facts.mode, anomaly),
        op_index=look_up.op_index,
        time_ns=look_up.time_ns,
        detail=detail,
        key=found.key,
        topic=look_up.topic,
        broker=look_up.broker,
        queue=found.queue,
        queue_offset=found.queue_offset,
    )


LOOK_UPS = Checker(
    name="look_ups",
    anomalies=(
        "not_found_by_id",
        "not_found_by_key",
        "torn_answer",
        "refused_read",
        "wrong_time_search",
    ),
    check=check_look_ups,
    rows=rows_of_searches,
    applies=lambda context: (
        DUE in context.facts.due
        or bool(context.timeline.look_ups)
        or any(True for _ in answers(context))
    ),
)
