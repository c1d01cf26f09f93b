"""Subscriptions of a group: all members must have the same, otherwise no member receives some of the messages.

**subscriptions_differ**: two members of one group subscribed at the same time to different topics or expressions, or
with different models or kinds of listener. In a group that changed its filter the last subscriptions of its members
count. The finding names the members and their subscriptions, the numbers of consumed messages, and the mechanism.
Messages that the group skipped are also `lost` or `unseen`, and queues that no member takes are also `queue_unowned`.

Cannot see: members that join a group from outside of the run; clients that do not report their configuration.

Source: "subscription consistency" in the documentation of Apache RocketMQ. ConsumerGroupInfo keeps one subscription for
a group and topic, and RebalanceImpl divides the queues of a topic among all members of the group, whether they
subscribe to it or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from staticfire.checkers.engine.kernel import Checker, Context, some_rows
from staticfire.checkers.guarantees.promises import judge
from staticfire.checkers.guarantees.verdict import Finding, Tally, Verdict
from staticfire.checkers.model.columns import UNKNOWN, Columns, Ints, Outcome
from staticfire.checkers.model.timeline import Subscribed


def check_subscriptions(columns: Columns, context: Context) -> Verdict:
    """Compare the configurations of the members of each group."""
    reported = sorted(context.timeline.subscriptions, key=lambda one: (one.group, one.op_index))
    findings: list[Finding] = []
    for group, of_group in groupby(reported, key=lambda one: one.group):
        findings.extend(_judge(columns, context, group, list(of_group)))
    tally = Tally.of(findings, members=len({one.node for one in reported}))
    return Verdict(
        checker="subscriptions", valid=not findings, counts=tally.counts, findings=tally.findings
    )


def rows_where_wishes_differ(columns: Columns, context: Context) -> Columns:
    """Select the deliveries to groups whose members differ, and the sends to their topics; findings count these."""
    reported, names = context.timeline.subscriptions, columns.names
    subscription_texts: dict[str, set[str]] = {}
    for one in reported:
        subscription_texts.setdefault(one.group, set()).add(_subscription_text(one))
    differ = {group for group, of_group in subscription_texts.items() if len(of_group) > 1}
    topics = {one.topic for one in reported if one.group in differ}
    sent = np.flatnonzero([topic in topics for topic in names.topics])
    given = np.flatnonzero([group in differ for group in names.groups])
    return some_rows(
        columns,
        sends=np.isin(columns.sends.topic, sent),
        deliveries=np.isin(columns.deliveries.group, given),
    )


def _judge(
    columns: Columns, context: Context, group: str, reported: Sequence[Subscribed]
) -> Iterator[Finding]:
    asked = _asked_at_once(context, group, reported)
    if not asked:
        return
    first = reported[0]
    other = next(
        (one for one in reported if _subscription_text(one) != _subscription_text(first)), first
    )
    who = "; ".join(f"{node} asks for {wish}" for node, wish in sorted(asked.items()))
    topics = {one.topic for one in reported}
    why = _DIFFERENT_TOPICS if len(topics) > 1 else _DIFFERENT_EXPRESSIONS
    yield Finding(
        anomaly="subscriptions_differ",
        judgement=judge(context.facts.mode, "subscriptions_differ"),
        op_index=other.op_index,
        time_ns=other.time_ns,
        detail=f"{who}. {why} {_what_became(columns, group, sorted(topics))}",
        group=group,
    )


def _asked_at_once(context: Context, group: str, reported: Sequence[Subscribed]) -> dict[str, str]:
    """Return the subscriptions of nodes at the first time at which they differ; empty if they never do.

    Members of a group that changed its filter restart one by one, so they are compared after the last restart. A member
    that started again without a report of its subscription is left out, because its subscription is not known.
    """
    reporting = {one.process for one in context.timeline.subscriptions}
    silent = [opened for opened in context.timeline.opens if opened.process not in reporting]
    events = sorted(
        [
            *((opened.time_ns, 0, opened.node, "") for opened in silent),
            *((one.time_ns, 1, one.node, _subscription_text(one)) for one in reported),
        ]
    )
    compared_from = len(events) - 1 if group in context.facts.filters_changed_ns else 0
    subscription_texts: dict[str, str] = {}
    for at, (_, _, node, wish) in enumerate(events):
        subscription_texts.pop(node, None)
        if wish:
            subscription_texts[node] = wish
        if at >= compared_from and len(set(subscription_texts.values())) > 1:
            return subscription_texts
    return {}


_DIFFERENT_TOPICS = (
    "Each member counts all members of the group when queues are shared out, and leaves the others' share of its topic "
    "to members that do not want it: those queues have no owner. Use a group for each topic, or subscribe all members "
    "to all topics."
)
_DIFFERENT_EXPRESSIONS = (
    "A queue has one owner, and what the owner does not ask for is passed over for the whole group (a broker moreover "
    "keeps one expression a group, the newest). Use a group for each expression."
)


def _subscription_text(one: Subscribed) -> str:
    listener = ", in order" if one.orderly else ""
    model = "" if one.model == "clustering" else f", {one.model}"
    return f"{one.expression!r} of {one.topic}{model}{listener}"


def _what_became(columns: Columns, group: str, topics: Sequence[str]) -> str:
    """Return, as a text, how many acknowledged messages of each topic and tag the group consumed."""
    parts = []
    for topic in topics:
        if topic not in columns.names.topics:
            continue
        sends = columns.sends
        of_topic = (sends.topic == columns.names.topics.index(topic)) & (
            sends.outcome == Outcome.OK
        )
        tags = np.unique(sends.tag[of_topic])
        for tag in (tags if len(tags) == 1 else tags[tags != UNKNOWN]).tolist():
            sent = np.unique(sends.message[of_topic & (sends.tag == tag)])
            parts.append(_share(columns, group, topic, tag, sent))
    return f"Consumed: {'; '.join(parts)}." if parts else ""


def _share(columns: Columns, group: str, topic: str, tag: int, sent: Ints) -> str:
    deliveries, groups = columns.deliveries, columns.names.groups
    mine = deliveries.group == (groups.index(group) if group in groups else UNKNOWN)
    consumed = mine & (deliveries.outcome == Outcome.OK) & np.isin(deliveries.message, sent)
    count = len(np.unique(deliveries.message[consumed]))
    name = "untagged" if tag == UNKNOWN else columns.names.tags[tag]
    return f"{count} of {len(sent)} {name} messages of {topic}"


SUBSCRIPTIONS = Checker(
    name="subscriptions",
    anomalies=("subscriptions_differ",),
    check=check_subscriptions,
    rows=rows_where_wishes_differ,
    applies=lambda context: bool(context.timeline.subscriptions),
)
