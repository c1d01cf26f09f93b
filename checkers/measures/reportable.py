"""The score of excuses: the share of a run in which each anomaly could have been reported.

The score covers every queue of every group at every moment, from the first assignment to the last drain. A moment is
excused for an anomaly if a window of the table of excuses covers it for the member that had the queue then. For
`double_ownership` and anomalies of locks each pair of members counts, for `queue_unowned` the whole group.
If other evidence shows that a fault no longer explains an anomaly, its window ends there. For anomalies of an owner
that is set back, that evidence is a message acknowledged then (`settled.py`). Two checkers have evidence of their own
and measure the share themselves (`share_of`). For `late_deliveries.py`, a fault excuses no delay while other delayed
messages are delivered. For `send_status.py`, each weak status counts only while a broker could have given it. Bounds
(an overlap may last as long as a rebalance takes) are no excuses, because they belong to the definition of the anomaly.

A share below the floor is no evidence about the anomaly, so the verdict of the checker is unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import product

from staticfire.checkers.derived.committed import FORGOTTEN, forgotten_spans
from staticfire.checkers.derived.rebalances import excused_spans
from staticfire.checkers.derived.settled import SET_BACK, settled_spans
from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.groups.groups import owned_while_watched, watched_until_ns
from staticfire.checkers.guarantees.verdict import Verdict
from staticfire.checkers.model.columns import LogKey
from staticfire.checkers.model.intervals import Span, joined, without

LATE = "late_delivery"
# Anomalies of the member that has a queue, of each pair of members, of the whole group. `offset_forgotten` stands for
# a member that takes a queue over below the committed offset. If members report which broker answered them, it stands
# for one that does so although the leader answered.
OF_OWNER = (
    "commit_rewound",
    "duplicate_unexplained",
    "nonmonotonic_poll",
    FORGOTTEN,
)
OF_PAIR = ("double_ownership",)
OF_LOCK = ("two_listeners", "overlapping_owners")
OF_GROUP = ("queue_unowned",)
OF_SHARING = (*OF_PAIR, *OF_GROUP)
FLOOR = 0.002  # of the time; a campaign with one long fault proves nothing

# A broker gives weak statuses only near faults, so no run could reach a floor.
WITHOUT_FLOOR = frozenset({"spurious_weak_status"})
# The count of a checker that shows whether the anomaly could occur.
ASKED_OF = {LATE: "late"}


def reportable(context: Context) -> dict[str, float]:
    """Return the share, 0 to 1, of each anomaly with an excuse that could occur in this run."""
    spans_of = cache(_Excused(context))
    asked: Counter[str] = Counter()
    open_: Counter[str] = Counter()
    for anomaly, group, broker, nodes, span in _questions(context):
        asked[anomaly] += span.length_ns
        open_[anomaly] += _open_ns(span, spans_of(anomaly, group, broker, nodes))
    return {name: round(open_[name] / asked[name], 4) for name in sorted(asked) if asked[name]}


def share_of(context: Context, excused: Callable[[str, LogKey], list[Span]]) -> float | None:
    """Return the share, 0 to 1, of an anomaly that each queue with an owner may have; None: no queue had an owner.

    `excused`: the spans that excuse it for a group and a queue, none of which overlap.
    """
    asked = open_ = 0
    for pair, owned in _owned(context):
        found = excused(*pair)
        for _, span in owned:
            asked += span.length_ns
            open_ += _open_ns(span, found)
    return round(open_ / asked, 4) if asked else None


def _open_ns(span: Span, excused: Iterable[Span]) -> int:
    """Return how much of a span lies outside others, which do not overlap."""
    taken = (min(span.end_ns, of.end_ns) - max(span.start_ns, of.start_ns) for of in excused)
    return span.length_ns - sum(taken_ns for taken_ns in taken if taken_ns > 0)


def with_share(
    verdict: Verdict,
    anomaly: str,
    context: Context,
    *excused: Callable[[str, LogKey], list[Span]],
) -> Verdict:
    """Return a verdict with the share that the checker measured: the mean, if it passes several functions."""
    shares = [share for of in excused if (share := share_of(context, of)) is not None]
    if not shares:
        return verdict
    return replace(verdict, reportable={anomaly: round(sum(shares) / len(shares), 4)})


class _Excused:
    """The spans of the table of excuses, without settled times for anomalies of an owner that is set back."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._settled: dict[str, list[Span]] = {}

    def __call__(
        self, anomaly: str, group: str, broker: str, nodes: tuple[str | None, ...]
    ) -> list[Span]:
        """Return spans of which none overlap."""
        if anomaly in OF_SHARING:
            return excused_spans(self._context, anomaly, group, broker, nodes)
        if anomaly == FORGOTTEN:
            [owner] = nodes
            return forgotten_spans(self._context, group, broker, owner)
        found = self._context.excuses.spans(anomaly, broker, nodes)
        if anomaly not in SET_BACK:
            return found
        if broker not in self._settled:
            self._settled[broker] = settled_spans(self._context, broker)
        always = self._context.excuses.spans("sent_back", broker, nodes)
        return joined([*without(found, self._settled[broker]), *always])


def has_floor(anomaly: str, counts: Mapping[str, int]) -> bool:
    """Whether the share of an anomaly must reach FLOOR, given the counts of its checker."""
    if anomaly in WITHOUT_FLOOR:
        return False
    return anomaly not in ASKED_OF or counts.get(ASKED_OF[anomaly], 0) > 0


def below_floor(anomalies: Iterable[str], shares: Mapping[str, float]) -> str | None:
    """Return a reason that lists the anomalies with a share below FLOOR; None if there are none."""
    low = [f"{name} ({shares[name]:.1%})" for name in anomalies if shares.get(name, 1.0) < FLOOR]
    return f"faults excuse nearly all of the run for {', '.join(low)}" if low else None


_Question = tuple[str, str, str, tuple[str | None, ...], Span]


def _questions(context: Context) -> Iterator[_Question]:
    end_ns = watched_until_ns(context)
    members_of = cache(lambda group: tuple(sorted(context.timeline.members(group))))
    for (group, queue), spans in _owned(context):
        members = members_of(group)
        start_ns = min((span.start_ns for _, span in spans), default=end_ns)
        for anomaly in OF_GROUP:
            yield anomaly, group, queue.stream, members, Span(start_ns, end_ns)
        shares = () if group in context.facts.broadcasting else OF_PAIR
        pairs = (*shares, *(OF_LOCK if group in context.facts.orderly else ()))
        for node, span in spans:
            for anomaly in OF_OWNER:
                yield anomaly, group, queue.stream, (node,), span
            others = [other for other in members if other != node]
            for anomaly, other in product(pairs, others):
                yield anomaly, group, queue.stream, (node, other), span


def _owned(
    context: Context,
) -> Iterator[tuple[tuple[str, LogKey], list[tuple[str | None, Span]]]]:
    """Yield each queue of each group, with its owners: their nodes and spans of ownership."""
    node_of = context.timeline.nodes.get
    for pair, owned in owned_while_watched(context).items():
        yield pair, [(node_of(one.process), one.span) for one in owned if one.span.length_ns]
