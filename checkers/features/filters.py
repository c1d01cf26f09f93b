"""Filters: a group receives the messages that its expression matches, and no others.

**unwanted_delivery**: a group that subscribes to some tags received a message with another tag, or with no tag. `loss`
judges whether it receives every message that it wants (`Context.wants`).

A group may change its filter. Either filter may apply to a message that was sent before all members had the new one:
the message is required if both filters accept it, and unwanted if neither does. Before the first member can have
subscribed with the new filter (fault `filter_change`), messages that the first filter excludes are unwanted.

The facts of the run define the meaning of an expression by a set of tags, for SQL92 expressions too. In workloads that
filter by SQL92 the properties of a message follow from its tag.

Cannot see: a message whose tag is not known (no producer sent it: `phantom`); filters that the broker skips and the
client applies instead, as RocketMQ does for tags whose hashes collide.

Source: FilterAPI, PullMessageProcessor and the exact comparison in PullAPIWrapper of Apache RocketMQ 4.9.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from staticfire.checkers.engine.kernel import Context, Kernel, finding_at, nothing_missing
from staticfire.checkers.engine.screening import is_among
from staticfire.checkers.guarantees.promises import judge
from staticfire.checkers.guarantees.verdict import Finding, Tally
from staticfire.checkers.model.columns import UNKNOWN, Columns, Ints, Mask


def tally_filters(columns: Columns, context: Context) -> Tally:
    """Judge the deliveries of whole messages (partition key: message)."""
    return Tally.of(_unwanted(columns, context))


def _unwanted(columns: Columns, context: Context) -> Iterator[Finding]:
    facts = context.facts
    for group, rows in _unwanted_rows(columns, context):
        for row in rows.tolist():
            is_first = context.is_unchanged(group, int(columns.deliveries.invoke_ns[row]))
            wanted = (facts.wanted_before if is_first else facts.wanted_tags)[group]
            yield finding_at(
                columns,
                columns.deliveries,
                row,
                anomaly="unwanted_delivery",
                judgement=judge(facts.mode, "unwanted_delivery"),
                detail=f"it has {_tag_of(columns, row)}, and the group asks for {' or '.join(wanted)}",
                group=group,
                at_invocation=True,
            )


def _unwanted_rows(columns: Columns, context: Context) -> Iterator[tuple[str, Ints]]:
    """Yield each group with a filter, and the rows of its unwanted deliveries."""
    deliveries, sends, groups = columns.deliveries, columns.sends, columns.names.groups
    for group in context.facts.wanted_tags:
        if group in groups:
            unasked = np.unique(sends.message[~context.may_match(columns, sends, group)])
            unwanted = is_among(deliveries.message, unasked)
            begins_ns = context.facts.filter_change_begins_ns
            if begins_ns is not None and group in context.facts.filters_changed_ns:
                at_first = context.matched_at_first(columns, sends, group)
                not_yet = np.unique(sends.message[~at_first])
                early = deliveries.invoke_ns < begins_ns
                unwanted |= early & is_among(deliveries.message, not_yet)
            given = deliveries.group == groups.index(group)
            yield group, np.flatnonzero(given & unwanted)


def _tag_of(columns: Columns, row: int) -> str:
    sent = np.flatnonzero(columns.sends.message == columns.deliveries.message[row])
    tag = int(columns.sends.tag[sent[0]])
    return "no tag" if tag == UNKNOWN else f"the tag {columns.names.tags[tag]}"


def _candidates(columns: Columns, context: Context, _cleared: Mask) -> Ints:
    """Select messages that a group received although its filter excludes them."""
    rows = [rows for _, rows in _unwanted_rows(columns, context)]
    return np.unique(columns.deliveries.message[np.concatenate(rows)]) if rows else _NO_MESSAGES


_NO_MESSAGES: Ints = np.zeros(0, np.int64)

FILTERS = Kernel(
    name="filters",
    partition_by="message",
    screened=True,
    anomalies=("unwanted_delivery",),
    partial=tally_filters,
    unknown_reason=nothing_missing,
    more_candidates=_candidates,
)
