"""The retry ladder and dead letters: sent = consumed + dead letters + pending, and each step in its time.

**retry_unprovoked**: a message came from the retry topic for the nth time, and no listener of the group had failed for,
or not finished, its delivery before that. **retry_early**: it came before the delay of that step was over (level 3 for
the first retry, one more for each; allowed where a broker's clock was stepped). **retried_too_often**: more retries
than the group allows. **dead_too_early**: it became a dead letter although no delivery had used up the retries.

**consumed_too_long** (informational): it came again because the listener took so long that its client gave it up after
the consume timeout (15 minutes), and sent it back.

That nothing falls between (conservation) is a matter of loss: dead letters, which the harness reads at the end, count
as consumed there. Counts: `retried` messages, `dead_letters`, `dead_and_consumed` (a listener that failed at the last
try and another one that did not).

Cannot see: a retry that the client makes by itself when it cannot send back (its step has another delay, and it does
not come from the retry topic), and which step a delivery belongs to that was never written down.

Source: CONSUMER_SEND_MSG_BACK in Apache RocketMQ 4.9 (AbstractSendMessageProcessor.consumerSendMsgBack); bugs of other
clients that drop what they could not send back (client-cpp #208, client-go #797).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from checkers.columns import Columns, Ints, Outcome, Touches
from checkers.delays import CLOCK_ROUGHNESS_NS, clock_stepped
from checkers.kernel import Context, Kernel, finding_at, nothing_missing
from checkers.promises import NS_PER_S, Judgement, judge
from checkers.verdict import Finding, Tally

RETRY, DEAD = "%RETRY%", "%DLQ%"
FIRST_LEVEL = 3  # of the ladder
NS_PER_MS = 1_000_000
CONSUME_TIMEOUT_NS = 900 * NS_PER_S  # RocketMQ: consumeTimeout


@dataclass(slots=True)
class _Story:
    """What one group got of one message, in the order of calls: rows of deliveries."""

    first: list[int] = field(default_factory=list)  # from its own topic
    retried: list[int] = field(default_factory=list)
    dead: list[int] = field(default_factory=list)


def tally_retries(columns: Columns, context: Context) -> Tally:
    """Judge whole messages (partition key: message)."""
    kinds = _kinds(columns)
    findings: list[Finding] = []
    retried = dead = both = 0
    for group, story in _stories(columns, context, kinds):
        findings.extend(_judge(columns, context, group, story))
        retried += bool(story.retried)
        dead += bool(story.dead)
        consumed = columns.deliveries.outcome[[*story.first, *story.retried]] == Outcome.OK
        both += bool(story.dead) and bool(consumed.any())
    if not context.facts.retries_max:
        return Tally.of(findings)
    return Tally.of(findings, retried=retried, dead_letters=dead, dead_and_consumed=both)


def _kinds(columns: Columns) -> Ints:
    """Of each topic: 0 of its own, 1 a retry topic, 2 dead letters."""
    return np.array(
        [
            1 if topic.startswith(RETRY) else 2 if topic.startswith(DEAD) else 0
            for topic in columns.names.topics
        ],
        np.int64,
    )


def _stories(columns: Columns, context: Context, kinds: Ints) -> Iterator[tuple[str, _Story]]:
    """The messages that groups with dead letters got from elsewhere than their topic."""
    deliveries, groups = columns.deliveries, columns.names.groups
    for group in context.facts.retries_max:
        if group not in groups:
            continue
        rows = np.flatnonzero(deliveries.group == groups.index(group))
        kind = kinds[deliveries.topic[rows]]
        suspects = np.unique(deliveries.message[rows[kind > 0]])
        rows = rows[np.isin(deliveries.message[rows], suspects)]
        rows = rows[np.argsort(deliveries.invoke_index[rows], kind="stable")]
        stories: dict[int, _Story] = {}
        for row in rows.tolist():
            story = stories.setdefault(int(deliveries.message[row]), _Story())
            kind_of = int(kinds[deliveries.topic[row]])
            (story.first, story.retried, story.dead)[kind_of].append(row)
        for story in stories.values():
            yield group, story


def _judge(columns: Columns, context: Context, group: str, story: _Story) -> Iterator[Finding]:
    deliveries = columns.deliveries
    retries_max = context.facts.retries_max[group]
    retries_max = 16 if retries_max < 0 else retries_max
    lived = [*story.first, *story.retried]
    for row in story.retried:
        if any(_repeats(deliveries, r, row) for r in story.retried):
            continue
        tries = int(deliveries.tries[row])
        if tries > retries_max:
            what = f"retry {tries}, and the group allows {retries_max}"
            yield _finding(columns, context, row, "retried_too_often", what, group)
        before = [r for r in lived if _provokes(deliveries, r, row)]
        if not before:
            what = f"retry {tries} of what no listener had failed for"
            yield _finding(columns, context, row, "retry_unprovoked", what, group)
        else:
            yield from _judge_time(columns, context, group, row, before)
            if all(_is_overlong(deliveries, r) for r in before):
                yield _overlong(columns, context, group, row, before[0])
    for row in story.dead:
        if not any(_uses_up(deliveries, r, retries_max) for r in lived):
            what = f"a dead letter before {retries_max} retries were used up"
            yield _finding(columns, context, row, "dead_too_early", what, group)


def _uses_up(deliveries: Touches, row: int, retries_max: int) -> bool:
    return bool(deliveries.tries[row] >= retries_max and deliveries.outcome[row] != Outcome.OK)


def _repeats(deliveries: Touches, row: int, retry: int) -> bool:
    """Whether a client that could not send back tried again by itself: the same place, with fewer tries before."""
    return bool(
        deliveries.queue[row] == deliveries.queue[retry]
        and deliveries.queue_offset[row] == deliveries.queue_offset[retry]
        and deliveries.tries[row] < deliveries.tries[retry]
        and deliveries.invoke_index[row] < deliveries.invoke_index[retry]
    )


def _provokes(deliveries: Touches, row: int, retry: int) -> bool:
    """Whether a delivery may be why the retry came: one step before it, earlier, and not successful by then."""
    return bool(
        deliveries.tries[row] == deliveries.tries[retry] - 1
        and deliveries.invoke_index[row] < deliveries.invoke_index[retry]
        and (deliveries.outcome[row] != Outcome.OK or _is_overlong(deliveries, row))
    )


def _is_overlong(deliveries: Touches, row: int) -> bool:
    """Whether the listener was busy with a delivery for so long that its client gave it up."""
    return bool(deliveries.time_ns[row] - deliveries.invoke_ns[row] >= CONSUME_TIMEOUT_NS)


def _judge_time(
    columns: Columns, context: Context, group: str, row: int, before: list[int]
) -> Iterator[Finding]:
    deliveries, levels = columns.deliveries, context.facts.delay_levels_ms
    if not levels:
        return
    level = min(FIRST_LEVEL + int(deliveries.tries[row]) - 1, len(levels))
    ended = [r for r in before if not _is_overlong(deliveries, r)]
    if not ended:  # its client gave it up some time after the call
        return
    since = min(int(deliveries.time_ns[r]) for r in ended)
    early_ns = since + levels[level - 1] * NS_PER_MS - int(deliveries.invoke_ns[row])
    if early_ns > CLOCK_ROUGHNESS_NS:
        stepped = clock_stepped(context, since, int(deliveries.invoke_ns[row]))
        what = f"retry {deliveries.tries[row]} came {early_ns / NS_PER_S:.3f} s before its time"
        finding = _finding(columns, context, row, "retry_early", what, group, stepped)
        yield finding


def _overlong(columns: Columns, context: Context, group: str, row: int, before: int) -> Finding:
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
    return _finding(columns, context, row, "consumed_too_long", what, group)


def _finding(
    columns: Columns,
    context: Context,
    row: int,
    anomaly: str,
    detail: str,
    group: str,
    excuse: str | None = None,
) -> Finding:
    return finding_at(
        columns,
        columns.deliveries,
        row,
        anomaly=anomaly,
        judgement=Judgement.ALLOWED if excuse else judge(context.facts.mode, anomaly),
        detail=f"{detail}; {excuse}" if excuse else detail,
        group=group,
        at_invocation=True,
    )


RETRIES = Kernel(
    name="retries",
    partition_by="message",
    anomalies=(
        "retry_unprovoked",
        "retry_early",
        "retried_too_often",
        "dead_too_early",
        "consumed_too_long",
    ),
    partial=tally_retries,
    unknown_reason=nothing_missing,
)
