"""Retries and dead letters: each failed delivery leads to one retry after its delay, or to a dead letter.

**retry_unprovoked**: a retry has no cause. There are five cases.

* A message came from the retry topic for the nth time, and no listener of the group had failed for its previous
  delivery, or left it unfinished.
* None of the members that had received it before reported that it had sent it back (`send_back`), although they
  reported other events half a minute later. This also applies to dead letters, and only in groups that report
  send-backs: if a group reports none although the run had to record them, the verdict is unknown.
* It came from a broker to which no member had sent it back, and no member had sent a copy of its own, which may go to
  any broker, or had ended before it could report one. This also applies to dead letters.
* It came from its own topic with a retry count, which a client sets if it retries without the broker, and the group had
  not received it before with a lower count and without success.
* In a group that reports send-backs, more retries with the same count came from different positions than deliveries
  with the count below had failed. A client may repeat a delivery without the broker, with a count of its own. If that
  fails, the broker makes a copy with the count after that of the message that it holds. Allowed if an answer to a
  send-back was lost, or if a member ended before it could report one, because the client then sends copies of its own.
  Also allowed if a broker died between moving a retry and recording the move (`moved_copies.py`).

**retry_early**: a retry came before its delay was over (delay level 3 for the first retry, one more for each later
one). Allowed if a broker's clock was stepped. **retried_too_often**: a message had more retries than the group allows.
**premature_dead_letter**: a message became a dead letter although no delivery had used up the retries, or the dead
letter has a lower retry count. **duplicate_dead_letter**: a message became more dead letters than deliveries had used
up the retries. Allowed if an answer to a send-back was lost: the client then sends a copy, in at most three attempts,
and each attempt may leave one.

**consumed_too_long** (informational): a message came again because the listener took so long that its client gave up
after the consume timeout (15 minutes) and sent the message back.

`loss` judges whether a message disappears between these steps; it counts dead letters, which the harness reads at the
end, as consumed. Counts: `retried` messages, `dead_letters`, and `dead_and_consumed` (one listener failed at the last
try and another one did not).

Cannot see: a retry that the client makes without the broker because it cannot send back (it has another delay, and does
not come from the retry topic); the retry count of a delivery that was never recorded.

Source: CONSUMER_SEND_MSG_BACK in Apache RocketMQ 4.9 (AbstractSendMessageProcessor.consumerSendMsgBack); bugs of other
clients that drop messages that they could not send back (client-cpp #208, client-go #797).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from staticfire.checkers.derived.moved_copies import Copy, Kept, kept_messages
from staticfire.checkers.engine.kernel import Context, Kernel, finding_at, queue_of
from staticfire.checkers.features.delays import CLOCK_ROUGHNESS_NS, Stored, mistimed
from staticfire.checkers.guarantees.excuses.excuses import Window
from staticfire.checkers.guarantees.promises import NS_PER_S, Judgement, judge
from staticfire.checkers.guarantees.verdict import Finding, Tally
from staticfire.checkers.model.columns import UNKNOWN, Columns, Ints, Mask, MessageEvents, Outcome
from staticfire.checkers.model.event_times import began_latest, ended_earliest
from staticfire.checkers.model.timeline import SentBack

RETRY, DEAD = "%RETRY%", "%DLQ%"
# Attempts of a client to send a copy if its broker did not answer (RocketMQ: 1 + retryTimesWhenSendFailed).
COPY_ATTEMPTS = 3
FIRST_LEVEL = 3  # delay level of the first retry
NS_PER_MS = 1_000_000
# How late a harness outside the simulation may record an event that its client did not stamp; a busy one was 31 ms
# late. Delays of retries are at least 1 s, and a wrong delay differs by a whole level.
WRITTEN_LATE_NS = 100 * NS_PER_MS
# The most time until a member has reported a send-back, in ns for each second of `Timings.request_s`: ten requests. The
# member waits for the broker, then for other brokers to which it sends a copy of its own.
REPORTED_WITHIN_REQUESTS = 10 * NS_PER_S
SEND_BACK = "send_back"  # in RunFacts.due: members report the messages that they send back


@dataclass(slots=True)
class _DeliveriesOfMessage:
    """A group's deliveries of one message, as rows of deliveries in the order of calls."""

    first: list[int] = field(default_factory=list)  # from its own topic
    retried: list[int] = field(default_factory=list)  # from the retry topic
    dead: list[int] = field(default_factory=list)  # from the dead-letter topic


def tally_retries(columns: Columns, context: Context) -> Tally:
    """Judge whole messages (partition key: message)."""
    kinds = _kinds(columns)
    findings: list[Finding] = []
    retried = dead = both = unreported = 0
    for group, story in _stories(columns, context, kinds):
        findings.extend(_judge(columns, context, group, story))
        unreported += _unreported(columns, context, group, story)
        retried += bool(story.retried)
        dead += bool(story.dead)
        consumed = columns.deliveries.outcome[[*story.first, *story.retried]] == Outcome.OK
        both += bool(story.dead) and bool(consumed.any())
    findings.extend(_claimed(columns, context, kinds))
    if not context.facts.retries_max:
        return Tally.of(findings)
    counts = {"retried": retried, "dead_letters": dead, "dead_and_consumed": both}
    return Tally.of(findings, **counts, unreported=unreported)


def _kinds(columns: Columns) -> Ints:
    """Return the kind of each topic, shape (topics,): 0 a topic of the load, 1 a retry topic, 2 a dead-letter topic."""
    return np.array(
        [
            1 if topic.startswith(RETRY) else 2 if topic.startswith(DEAD) else 0
            for topic in columns.names.topics
        ],
        np.int64,
    )


def _stories(
    columns: Columns, context: Context, kinds: Ints
) -> Iterator[tuple[str, _DeliveriesOfMessage]]:
    """Yield the deliveries of each message that a group received from its retry or dead-letter topic."""
    deliveries, groups = columns.deliveries, columns.names.groups
    for group in context.facts.retries_max:
        if group not in groups:
            continue
        rows = np.flatnonzero(deliveries.group == groups.index(group))
        kind = kinds[deliveries.topic[rows]]
        candidates = np.unique(deliveries.message[rows[kind > 0]])
        rows = rows[np.isin(deliveries.message[rows], candidates)]
        rows = rows[np.argsort(deliveries.invoke_index[rows], kind="stable")]
        stories: dict[int, _DeliveriesOfMessage] = {}
        for row in rows.tolist():
            story = stories.setdefault(int(deliveries.message[row]), _DeliveriesOfMessage())
            kind_of = int(kinds[deliveries.topic[row]])
            (story.first, story.retried, story.dead)[kind_of].append(row)
        for story in stories.values():
            yield group, story


def _judge(
    columns: Columns, context: Context, group: str, story: _DeliveriesOfMessage
) -> Iterator[Finding]:
    deliveries = columns.deliveries
    retries_max = context.facts.retries_max[group]
    retries_max = 16 if retries_max < 0 else retries_max
    lived = [*story.first, *story.retried]
    tells = group in _heard(context).groups
    for row in story.retried:
        if any(_repeats(deliveries, r, row) for r in story.retried):
            continue
        tries = int(deliveries.tries[row])
        if tries > retries_max:
            what = f"retry {tries}, and the group allows {retries_max}"
            yield _finding(columns, context, row, "retried_too_often", what)
        before = [r for r in lived if _provokes(context, deliveries, r, row)]
        if not before:
            what = f"retry {tries} of what no listener had failed for"
            yield _finding(columns, context, row, "retry_unprovoked", what)
        else:
            if tells and (why := _not_sent_back(columns, context, group, row, before)):
                what = f"retry {tries} of what {why}"
                yield _finding(columns, context, row, "retry_unprovoked", what)
            yield from _judge_time(columns, context, row, before)
            if all(_is_overlong(context, deliveries, r) for r in before):
                yield _overlong(columns, context, row, before[0])
    for row in story.dead:
        if not any(_uses_up(deliveries, r, retries_max) for r in lived):
            last = max((int(deliveries.tries[r]) for r in lived), default=0)
            what = f"a dead letter after retry {last}, and the group allows {retries_max}"
            yield _finding(columns, context, row, "premature_dead_letter", what)
        elif deliveries.tries[row] < retries_max:
            what = f"a dead letter of try {deliveries.tries[row]}, and the group allows {retries_max} retries"
            yield _finding(columns, context, row, "premature_dead_letter", what)
        before = [r for r in lived if _provokes(context, deliveries, r, row)]
        if tells and before and (why := _not_sent_back(columns, context, group, row, before)):
            what = f"a dead letter of what {why}"
            yield _finding(columns, context, row, "retry_unprovoked", what)
    yield from _dead_twice(columns, context, group, story, retries_max)
    if tells:
        yield from _retried_twice(columns, context, group, story)


def _not_sent_back(
    columns: Columns, context: Context, group: str, row: int, before: list[int]
) -> str | None:
    """Return why no member can have sent the message back for a copy, as a text; None if one may have."""
    reports = _reports(columns, context, group, row)
    silent = _silent(columns, context, row, before)
    if not reports:
        return None if silent else "no member has sent back"
    broker = columns.names.logs[int(columns.deliveries.log[row])].stream
    if any(of.broker == broker or not of.by_broker for of in reports):
        return None
    reported = Counter(of.process for of in reports)
    if any(reported[process] < times for process, times in silent.items()):
        return None
    holders = " and ".join(sorted({of.broker for of in reports}))
    return f"was sent back to {holders} alone, and it came from {broker}"


def _reports(columns: Columns, context: Context, group: str, row: int) -> list[SentBack]:
    """Return the reports of members that sent back the delivery before this copy."""
    deliveries = columns.deliveries
    key = columns.names.key(int(deliveries.message[row])) or ""
    tries = int(deliveries.tries[row]) - 1
    reports = context.timeline.sent_back.get(key, ())
    return [of for of in reports if of.group == group and of.tries == tries]


def _silent(columns: Columns, context: Context, row: int, before: list[int]) -> Counter[int]:
    """Return, by process, the failed deliveries of members that may have ended before they could report a send-back."""
    deliveries, last_report_ns = columns.deliveries, _heard(context).last_ns
    said_by_ns = int(
        deliveries.invoke_ns[row] + context.facts.timings.request_s * REPORTED_WITHIN_REQUESTS
    )
    processes = (int(deliveries.process[r]) for r in before)
    return Counter(process for process in processes if last_report_ns.get(process, 0) < said_by_ns)


def _unreported(columns: Columns, context: Context, group: str, story: _DeliveriesOfMessage) -> int:
    """Return the number of copies that a member must have reported, in a group that reports no send-backs at all."""
    if SEND_BACK not in context.facts.due or group in _heard(context).groups:
        return 0
    deliveries, lived, count = columns.deliveries, [*story.first, *story.retried], 0
    for row in (*story.retried, *story.dead):
        before = [r for r in lived if _provokes(context, deliveries, r, row)]
        count += bool(before) and not _silent(columns, context, row, before)
    return count


class _Heard(NamedTuple):
    groups: frozenset[str]  # the groups that report send-backs
    last_ns: Mapping[int, int]  # process -> time of its last event


def _heard(context: Context) -> _Heard:
    found = context.cache.get("heard of consumers")
    if found is None:
        groups = {of.group for many in context.timeline.sent_back.values() for of in many}
        asked = groups or SEND_BACK in context.facts.due
        last_report_ns = context.timeline.last_report_ns() if asked else {}
        found = context.cache["heard of consumers"] = _Heard(frozenset(groups), last_report_ns)
    assert isinstance(found, _Heard)
    return found


def _not_reported(tally: Tally, _context: Context) -> str | None:
    if not (count := tally.counts.get("unreported", 0)):
        return None
    return f"{count} retries and dead letters are of groups whose members report no send_back"


def _dead_twice(
    columns: Columns, context: Context, group: str, story: _DeliveriesOfMessage, retries_max: int
) -> Iterator[Finding]:
    """Yield findings for dead letters at different positions, in excess of those that have a cause."""
    deliveries = columns.deliveries
    positions: dict[tuple[int, int], int] = {}
    for row in story.dead:
        positions.setdefault((int(deliveries.log[row]), int(deliveries.queue_offset[row])), row)
    lived = (*story.first, *story.retried)
    reasons = sum(_uses_up(deliveries, row, retries_max) for row in lived)
    extra = list(positions.values())[max(reasons, 1) :]
    if not extra:
        return
    key = columns.names.key(int(deliveries.message[extra[0]]))
    sent_back = context.timeline.sent_back.get(key or "", ())
    reports = [of for of in sent_back if of.group == group]
    unclear = [of for of in reports if not (of.is_clear and of.by_broker)]
    copies = sum(1 if of.by_broker else COPY_ATTEMPTS for of in unclear)
    excuse = None
    if copies >= len(extra):
        excuse = f"{len(unclear)} send-backs of it that may have left {copies} copies"
    for row in extra:
        what = f"{len(positions)} dead letters, and {reasons} deliveries used up the retries"
        yield _finding(columns, context, row, "duplicate_dead_letter", what, excuse)


def _retried_twice(
    columns: Columns, context: Context, group: str, story: _DeliveriesOfMessage
) -> Iterator[Finding]:
    """Yield findings for retries with the same count at different positions, in excess of the failures before them."""
    deliveries = columns.deliveries
    steps: dict[int, dict[tuple[int, int], int]] = {}
    for row in story.retried:
        if not any(_repeats(deliveries, r, row) for r in story.retried):
            position = int(deliveries.log[row]), int(deliveries.queue_offset[row])
            steps.setdefault(int(deliveries.tries[row]), {}).setdefault(position, row)
    for tries, positions in steps.items():
        rows = list(positions.values())
        lived = (*story.first, *story.retried)
        reasons = [
            r
            for r in lived
            if len(rows) > 1
            if _provokes(context, deliveries, r, rows[-1])
            or _provokes_again(deliveries, lived, r, rows[-1])
        ]
        extra = rows[len(reasons) :] if reasons else []
        if not extra:
            continue
        what = f"{len(rows)} retries {tries}, and {len(reasons)} deliveries had failed before"
        sent_back, death = _sent_back(columns, context, rows, reasons)
        excuse = None if death is None else death.words
        if sent_back > len(reasons):
            excuse = _unclear(columns, context, group, reasons, sent_back - len(reasons))
        for row in extra:
            yield _finding(columns, context, row, "retry_unprovoked", what, excuse)


def _sent_back(
    columns: Columns, context: Context, rows: list[int], reasons: list[int]
) -> tuple[int, Window | None]:
    """Return how often members must have sent the message back to explain these rows.

    Also return the window of a broker's death, if only with one this number suffices.
    """
    deliveries = columns.deliveries
    since_ns = min(int(deliveries.invoke_ns[r]) for r in reasons)
    copies: dict[str, list[Copy]] = {}
    for row in rows:
        copy = Copy(int(deliveries.invoke_ns[row]), int(deliveries.stored_ms[row]))
        copies.setdefault(columns.names.logs[int(deliveries.log[row])].stream, []).append(copy)
    count, death = 0, None
    for broker, of in sorted(copies.items()):
        messages, window = kept_messages(context, broker, of, Kept(since_ns, is_delayed=True))
        count, death = count + messages, death or window
    return count, death


def _unclear(
    columns: Columns, context: Context, group: str, reasons: list[int], extra: int
) -> str | None:
    """Return why failed deliveries may have left more than one copy each; None if reports show that they have not."""
    deliveries = columns.deliveries
    key = columns.names.key(int(deliveries.message[reasons[0]]))
    tries = int(deliveries.tries[reasons[0]])
    reports = context.timeline.sent_back.get(key or "", ())
    mine = [of for of in reports if of.group == group and of.tries == tries]
    unclear = [of for of in mine if not (of.is_clear and of.by_broker)]
    copies = sum(1 if of.by_broker else COPY_ATTEMPTS for of in unclear)
    if copies >= extra:
        return f"{len(unclear)} send-backs of it that may have left {copies} copies"
    last_report_ns, within_ns = (
        _heard(context).last_ns,
        context.facts.timings.request_s * REPORTED_WITHIN_REQUESTS,
    )
    reported = {of.process for of in mine}
    silent = {
        process
        for row in reasons
        if (process := int(deliveries.process[row])) not in reported
        if last_report_ns.get(process, 0) < int(deliveries.invoke_ns[row]) + within_ns
    }
    if copies + COPY_ATTEMPTS * len(silent) >= extra:
        return f"{len(silent)} members that had failed for it ended before they could report that they sent it back"
    return None


def _claimed(columns: Columns, context: Context, kinds: Ints) -> Iterator[Finding]:
    """Yield findings for deliveries from a message's own topic with a retry count that no earlier delivery explains."""
    deliveries = columns.deliveries
    claims = _claims(deliveries, kinds)
    rows = np.flatnonzero(np.isin(deliveries.message, deliveries.message[claims]))
    rows = rows[np.argsort(deliveries.invoke_index[rows], kind="stable")]
    claimed = set(claims.tolist())
    had: dict[tuple[int, int], list[int]] = {}
    for row in rows.tolist():
        earlier = had.setdefault((int(deliveries.group[row]), int(deliveries.message[row])), [])
        if row in claimed and not any(_explains(deliveries, before, row) for before in earlier):
            what = f"reconsume times {deliveries.tries[row]} of what no listener had failed for"
            yield _finding(columns, context, row, "retry_unprovoked", what)
        earlier.append(row)


def _claims(deliveries: MessageEvents, kinds: Ints) -> Ints:
    """Return the rows of deliveries from a message's own topic with a retry count."""
    retried = np.flatnonzero((deliveries.tries > 0) & (deliveries.message != UNKNOWN))
    found: Ints = retried[kinds[deliveries.topic[retried]] == 0]
    return found


def _explains(deliveries: MessageEvents, before: int, row: int) -> bool:
    return bool(
        deliveries.tries[before] < deliveries.tries[row]
        and deliveries.outcome[before] != Outcome.OK
    )


def claiming(columns: Columns, _context: Context, _cleared: Mask) -> Ints:
    """Select messages that came from their own topic with a retry count."""
    rows = _claims(columns.deliveries, _kinds(columns))
    return np.unique(columns.deliveries.message[rows])


def _uses_up(deliveries: MessageEvents, row: int, retries_max: int) -> bool:
    return bool(deliveries.tries[row] >= retries_max and deliveries.outcome[row] != Outcome.OK)


def _repeats(deliveries: MessageEvents, row: int, retry: int) -> bool:
    """Whether `retry` is a repetition by a client that could not send back: its position came with a lower count."""
    return bool(
        deliveries.log[row] == deliveries.log[retry]
        and deliveries.queue_offset[row] == deliveries.queue_offset[retry]
        and deliveries.tries[row] < deliveries.tries[retry]
        and deliveries.invoke_index[row] < deliveries.invoke_index[retry]
    )


def _provokes(context: Context, deliveries: MessageEvents, row: int, retry: int) -> bool:
    """Whether a delivery may be the cause of a retry: it began earlier, with a count one lower, and failed."""
    return bool(
        deliveries.tries[row] == deliveries.tries[retry] - 1
        and deliveries.invoke_index[row] < deliveries.invoke_index[retry]
        and (deliveries.outcome[row] != Outcome.OK or _is_overlong(context, deliveries, row))
    )


def _provokes_again(deliveries: MessageEvents, lived: Sequence[int], row: int, retry: int) -> bool:
    """Whether a failed repetition by a client may be the cause of a retry: its position came with the count below."""
    return bool(
        deliveries.invoke_index[row] < deliveries.invoke_index[retry]
        and deliveries.outcome[row] != Outcome.OK
        and any(
            _repeats(deliveries, r, row) and deliveries.tries[r] == deliveries.tries[retry] - 1
            for r in lived
        )
    )


def _is_overlong(context: Context, deliveries: MessageEvents, row: int) -> bool:
    """Whether the listener took at least the consume timeout, so that its client gave up."""
    timeout_ns = int(context.facts.timings.consume_timeout_s * NS_PER_S)
    return bool(deliveries.time_ns[row] - deliveries.invoke_ns[row] >= timeout_ns)


def retry_delay_ns(context: Context, tries: int) -> int | None:
    """Return the delay of a retry in ns, by its number (1 is the first); None if levels are not known."""
    levels = context.facts.delay_levels_ms
    return levels[min(FIRST_LEVEL + tries - 1, len(levels)) - 1] * NS_PER_MS if levels else None


def _judge_time(
    columns: Columns, context: Context, row: int, before: list[int]
) -> Iterator[Finding]:
    deliveries = columns.deliveries
    delay_ns = retry_delay_ns(context, int(deliveries.tries[row]))
    if delay_ns is None:
        return
    ended = [r for r in before if not _is_overlong(context, deliveries, r)]
    if not ended:  # the client gave the message up at an unknown time after the call
        return
    since = min(int(ended_earliest(deliveries, r)) for r in ended)
    early_ns = since + delay_ns - int(began_latest(deliveries, row))
    is_exact = context.facts.disks_observed or deliveries.at_ns[row] != UNKNOWN
    if early_ns > CLOCK_ROUGHNESS_NS + (0 if is_exact else WRITTEN_LATE_NS):
        queue = queue_of(columns, deliveries, before[0])
        latest = since + int(context.facts.timings.request_s * REPORTED_WITHIN_REQUESTS)
        stepped = mistimed(columns, context, row, Stored(queue, since, latest), early_ns)
        what = f"retry {deliveries.tries[row]} came {early_ns / NS_PER_S:.3f} s before its time"
        yield _finding(columns, context, row, "retry_early", what, stepped)


def _overlong(columns: Columns, context: Context, row: int, before: int) -> Finding:
    deliveries = columns.deliveries
    since_s = (int(deliveries.invoke_ns[row]) - int(deliveries.invoke_ns[before])) / NS_PER_S
    took_s = int(deliveries.time_ns[before] - deliveries.invoke_ns[before]) / NS_PER_S
    key = columns.names.key(int(deliveries.message[row]))
    what = (
        f"the listener took {took_s:.0f} s for key {key}, and its client did not wait so long: after its consume "
        f"timeout it sent the message back, and {since_s:.0f} s after the call it came again (try "
        f"{deliveries.tries[row] + 1}), although nothing had failed. Each call does the work once more, and so "
        "it goes on until the retries are used up. Make the listener faster than consumeTimeout, or hand the work over"
    )
    return _finding(columns, context, row, "consumed_too_long", what)


def _finding(
    columns: Columns,
    context: Context,
    row: int,
    anomaly: str,
    detail: str,
    excuse: str | None = None,
) -> Finding:
    return finding_at(
        columns,
        columns.deliveries,
        row,
        anomaly=anomaly,
        judgement=Judgement.ALLOWED if excuse else judge(context.facts.mode, anomaly),
        detail=f"{detail}; {excuse}" if excuse else detail,
        group=columns.names.groups[columns.deliveries.group[row]],
        at_invocation=True,
    )


RETRIES = Kernel(
    name="retries",
    partition_by="message",
    screened=True,
    anomalies=(
        "retry_unprovoked",
        "retry_early",
        "retried_too_often",
        "premature_dead_letter",
        "duplicate_dead_letter",
        "consumed_too_long",
    ),
    partial=tally_retries,
    unknown_reason=_not_reported,
    more_candidates=claiming,
)
