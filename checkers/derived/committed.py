"""The offset that a group had certainly committed when a member took a queue.

A committed offset is a register, and where a member begins is a read of it. A client may say what it read and which
broker answered (`begin`), which broker it sends commits to, and whether earlier ones have arrived there (`commit_to`).
The leader knows every commit that reached it, so a commit before its answer counts unless the leader ended before it
had written the commit down (`offset_lost` in the table of excuses). It wrote down a commit that a fault held up once
the commit had arrived, which it had by the time at which the client says so. One that is not known to have arrived may
be lost on its way (`offset_on_its_way`), one that is not known to have been sent to the leader may be with a follower
(`offset_at_follower`), and one that is known to have been sent to a follower is there for as long as the member that
sent it need not know the leader (`offset_sent_to_follower`). A follower copies offsets of the leader now and then, so
what it may not have yet does not count either, nor what another follower was sent while the leader was away or after it
was gone for good, nor what the leader was sent by members that had not learned that yet. Neither does a commit that
brokers may have forgotten, where they answered or not (`offset_forgotten`): a fault of any replica that may not have
written or copied it yet, or between the replicas and the two members. Where a client does not say who answered, a
follower is thought of near such faults alone. No commit counts across a disk that was emptied or a reset of offsets; a
follower that is known to have answered keeps its offsets when the disk of another replica is gone for good. What was
committed after the last one that counts may have taken its place. So may an earlier one that was on its way when a
network or a broker failed, or that no broker has confirmed (`commit`, info): what a closed connection had still to send
arrives later, behind what its member commits on the next one. And so may what another member pulls with: each pull
commits how far its member is, and one that gained the queue before the commit arrived began below it. One that began
below it for a reason of its own, such as the answer of a follower, commits that, too; its own begin is judged.

A member of a broadcasting group commits to a file of its own, and says so when the file is written. Brokers cannot
forget that; only damage to the disk of the member's own node can, and an operator who resets the offsets.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise, zip_longest
from typing import NamedTuple

import numpy as np

from staticfire.checkers.derived.process_ends import ended_ns
from staticfire.checkers.derived.rebalances import leader_ended, leader_lost_ns, starts_ns
from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.excuses.excuse import ON_ITS_WAY_S, Since
from staticfire.checkers.guarantees.excuses.excuses import Window
from staticfire.checkers.guarantees.excuses.seconds import routes_known
from staticfire.checkers.guarantees.fault_effects import DISK, EMPTIES, ROLLS_BACK, WRITES_FAIL
from staticfire.checkers.guarantees.fault_times import FOREVER_NS, began_ns, healed_ns
from staticfire.checkers.guarantees.promises import NS_PER_S
from staticfire.checkers.model.columns import Columns, Commits, Ints, LogKey, Mask
from staticfire.checkers.model.intervals import Span, joined, shared, without
from staticfire.checkers.model.timeline import Begun, CommitTo, Ownership

# The time of the witness is that of the commit.
LOST = "offset_lost"  # by the leader, who answered
ON_ITS_WAY = "offset_on_its_way"  # the same, unless the commit is known to have arrived there
AT_FOLLOWER = "offset_at_follower"  # the same, unless the commit is known to have been sent there
# the same, if the commit is known to have been sent to one
SENT_TO_FOLLOWER = "offset_sent_to_follower"
FORGOTTEN = "offset_forgotten"  # by any broker
REPLACED = "offset_replaced"  # the time of the witness is that from the commit to its question
ON_ITS_WAY_NS = int(ON_ITS_WAY_S * NS_PER_S)  # and until a member has asked where to begin
# Linux sends again what a closed connection still had to send, for about 100 s (tcp_orphan_retries).
LATE_NS = 120 * NS_PER_S
LEADER_ID = 0
_HARMS_FILES = frozenset({DISK, EMPTIES, ROLLS_BACK, WRITES_FAIL})


def surely_committed(
    columns: Columns, context: Context, stream: tuple[int, int], gain: Ownership
) -> int:
    """The offset that a group had surely committed when the queue was gained; 0 if nothing is sure.

    `stream`: the numbers of the queue and of the group.
    """
    known = columns.cache.setdefault("surely committed", {})
    assert isinstance(known, dict)
    key = (*stream, gain.op_index, gain.process)
    if key not in known:
        commits = commits_of(columns, context, stream, gain.process)
        pair = columns.names.groups[stream[1]], columns.names.logs[stream[0]]
        known[key] = least_offset(context, commits, pair, gain)
    found: int = known[key]
    return found


def least_offset(
    context: Context, commits: Commits, pair: tuple[str, LogKey], gain: Ownership
) -> int:
    """The same from the commits of one stream, sorted by op; `pair` is its group and its queue."""
    earlier = commits.where(np.flatnonzero(commits.op_index < gain.op_index))
    if pair[0] in context.facts.broadcasting:
        return _saved_offset(context, earlier, pair[1].stream, gain)
    arrived = earlier.time_ns + ON_ITS_WAY_NS <= gain.time_ns
    unsure, on_its_way = _forgotten(context, earlier, pair, gain)
    pulled = _pulled_below(context, earlier, pair, gain) | _begun_below(
        context, earlier, pair, gain
    )
    sure = np.flatnonzero(arrived & ~unsure & ~pulled)
    if not len(sure):
        return 0
    late = on_its_way & (earlier.time_ns > gain.time_ns - LATE_NS)
    unclear = context.timeline.unclear_commits.get(pair, ())
    offsets = (
        *earlier.offset[sure[-1] :].tolist(),
        *earlier.offset[late].tolist(),
        *(of.offset for of in unclear if gain.time_ns - LATE_NS < of.time_ns < gain.time_ns),
    )
    return int(min(offsets))


def _saved_offset(context: Context, commits: Commits, broker: str, gain: Ownership) -> int:
    """The last offset that the member of a broadcasting group has surely in its file; 0 if there is none."""
    node, since_ns = context.timeline.nodes.get(gain.process), -1
    for fault in context.facts.faults:
        if fault.bitten_ns is None or began_ns(fault) > gain.time_ns:
            continue
        if node in fault.targets and not _HARMS_FILES.isdisjoint(fault.effects):
            since_ns = max(since_ns, healed_ns(fault))
    for window in context.excuses.windows(REPLACED, broker):
        if window.start_ns <= gain.time_ns:
            since_ns = max(since_ns, window.end_ns)
    kept = commits.offset[commits.time_ns > since_ns]
    return int(kept[-1]) if len(kept) else 0


def commits_of(
    columns: Columns, context: Context, stream: tuple[int, int], process: int
) -> Commits:
    """What a group committed for a queue, sorted by op; in a broadcasting group only what the process's node did."""
    known = columns.cache.setdefault("commits of streams", {})
    assert isinstance(known, dict)
    queue, group = stream
    reader = reader_of(context, columns.names.groups[group], process)
    if (stream, reader) not in known:
        commits = columns.commits
        mine = commits.where(np.flatnonzero((commits.log == queue) & (commits.group == group)))
        if reader is not None:
            nodes = context.timeline.nodes
            theirs = [p for p in np.unique(mine.process).tolist() if nodes.get(p, "") == reader]
            mine = mine.where(np.flatnonzero(np.isin(mine.process, theirs)))
        known[stream, reader] = mine.where(np.argsort(mine.op_index, kind="stable"))
    found: Commits = known[stream, reader]
    return found


def reader_of(context: Context, group: str, process: int) -> str | None:
    """Whose offsets a process goes by: those of its node in a broadcasting group, else those of the group (None)."""
    if group not in context.facts.broadcasting:
        return None
    return context.timeline.nodes.get(process, "")


def answer_to(context: Context, pair: tuple[str, LogKey], gain: Ownership) -> Begun | None:
    """The offset that a broker gave a member that had gained a queue; None: not known."""
    begins = context.timeline.begins.get(pair, ())
    first = bisect_right(begins, gain.op_index, key=lambda begun: begun.op_index)
    changes = context.timeline.ownership_between(*pair, gain.op_index, FOREVER_NS)
    lost = next((of.op_index for of in changes if of.process == gain.process), FOREVER_NS)
    for begun in begins[first:]:
        if begun.op_index > lost:
            break
        if begun.process == gain.process:
            return begun
    return None


def names_brokers(context: Context, group: str) -> bool:
    """Whether members of the group report which broker gave them their first offset."""
    return any(
        begun.broker_id is not None
        for (name, _), begins in context.timeline.begins.items()
        if name == group
        for begun in begins
    )


def forgotten_spans(context: Context, group: str, broker: str, node: str | None) -> list[Span]:
    """When a member on a node committed what may not be known later.

    It is asked of the leader, if members of the group report which broker gave them their first offset, and of any
    replica where members do not say so or committed to a follower. Of each moment asked is the commit that the member
    sent next.
    """
    by_any = _by_any_spans(context, broker, (node,))
    if not names_brokers(context, group):
        return by_any
    key = "forgotten spans", group, broker, node
    if key not in context.cache:
        lost_spans = partial(_lost_spans, context, broker, node)
        lost_ns = leader_lost_ns(context, broker)
        to_follower, sent, arrived = _destinations(context, group, broker, node)
        by_leader = joined(
            [
                *lost_spans(LOST, FOREVER_NS),
                *without(lost_spans(ON_ITS_WAY, FOREVER_NS), arrived),
                *without(lost_spans(AT_FOLLOWER, FOREVER_NS), sent),
                *shared(lost_spans(SENT_TO_FOLLOWER, FOREVER_NS), to_follower),
            ]
        )
        elsewhere = [] if _has_one_follower(context, broker) else [Span(lost_ns, FOREVER_NS)]
        context.cache[key] = joined(
            [
                *shared([Span(0, lost_ns)], by_leader),
                *shared([*elsewhere, *by_any], to_follower),
            ]
        )
    found = context.cache[key]
    assert isinstance(found, list)
    return found


def _by_any_spans(context: Context, broker: str, nodes: tuple[str | None, ...]) -> list[Span]:
    """When a commit of a member may have been forgotten by whichever replica is asked later, by the table of excuses.

    A follower that is the only one left is sent all that is committed and is asked for it: that the leader is gone for
    good excuses nothing from then on.
    """
    lost_ns = leader_lost_ns(context, broker)
    if lost_ns == FOREVER_NS or not _has_one_follower(context, broker):
        return context.excuses.spans(FORGOTTEN, broker, nodes)
    return joined(
        Span(of.start_ns, min(of.end_ns, lost_ns) if of.fault.bitten_ns == lost_ns else of.end_ns)
        for of in context.excuses.windows(FORGOTTEN, broker, nodes)
    )


def _has_one_follower(context: Context, broker: str) -> bool:
    return len(context.facts.replica_sets.get(broker, ())) == 2


def _lost_spans(
    context: Context, broker: str, node: str | None, anomaly: str, until_ns: int
) -> list[Span]:
    """When a member on this node committed what the leader may have lost by then, by the rows of one name."""
    key = anomaly, broker, node
    if key not in context.cache:
        windows = context.excuses.windows(anomaly, broker, (node,))
        spans = ((began_ns(of.fault), _since(context, broker, of, node)) for of in windows)
        context.cache[key] = [(at_ns, span) for at_ns, span in spans if span is not None]
    found = context.cache[key]
    assert isinstance(found, list)
    return [span for at_ns, span in found if at_ns <= until_ns]


def _destinations(
    context: Context, group: str, broker: str, node: str | None
) -> tuple[list[Span], list[Span], list[Span]]:
    """The times that end with commits which members on this node sent to a follower, and to the leader.

    The third: with those of which it is known that they arrived at the leader.
    """
    to_follower: list[Span] = []
    sent: list[Span] = []
    arrived: list[Span] = []
    commit_ns = int(context.facts.timings.commit_s * NS_PER_S)
    for (name, broker_name, process), reported in context.timeline.commits_to.items():
        if (name, broker_name, context.timeline.nodes.get(process)) != (group, broker, node):
            continue
        since_ns = reported[0].time_ns - commit_ns
        for one, following in zip_longest(reported, reported[1:]):
            span = Span(since_ns, one.time_ns)
            since_ns = one.time_ns
            if one.broker_id != LEADER_ID:
                to_follower.append(span)
                continue
            sent.append(span)
            if following is not None and following.earlier_arrived:
                arrived.append(span)
    return joined(to_follower), joined(sent), joined(arrived)


def _since(context: Context, broker: str, window: Window, node: str | None) -> Span | None:
    """The part of a window in which its row counts."""
    start_ns, end_ns = window.start_ns, window.end_ns
    match window.excuse.since:
        case Since.LEADER_ENDS:
            return (
                Span(start_ns, end_ns) if leader_ended(context, broker, start_ns, end_ns) else None
            )
        case Since.MEMBER_STARTS if node is not None:
            starts = starts_ns(context, frozenset({node}))
            first = min((at for at in starts if start_ns <= at <= end_ns), default=None)
            return None if first is None else Span(first, end_ns)
        case _:
            return Span(start_ns, end_ns)


def _forgotten(
    context: Context, commits: Commits, pair: tuple[str, LogKey], gain: Ownership
) -> tuple[Mask, Mask]:
    """Which commits may not be known where the queue is gained, and which may reach the leader later; (commits,)."""
    nodes, timings = context.timeline.nodes, context.facts.timings
    taker = nodes.get(gain.process)
    forgotten = np.zeros(len(commits), np.bool_)
    late = np.zeros(len(commits), np.bool_)
    answer = answer_to(context, pair, gain)
    asked = None if answer is None else answer.broker_id
    broker = pair[1].stream
    for process in np.unique(commits.process).tolist():
        mine = np.flatnonzero(commits.process == process)
        node, time_ns = nodes.get(process), commits.time_ns[mine]
        reported = context.timeline.commits_to.get((pair[0], broker, process), ())
        known = _known_destinations(reported, commits.op_index[mine], gain.op_index)
        if answer is None or asked != LEADER_ID:
            spans = _by_any_spans(context, broker, (node, taker))
            forgotten[mine] = _in_any(time_ns, spans)
            if asked is not None:
                away = _lost_spans(context, broker, node, SENT_TO_FOLLOWER, FOREVER_NS)
                lost_ns = leader_lost_ns(context, broker)
                away.append(Span(lost_ns, FOREVER_NS))
                known_ns = lost_ns + int(routes_known(timings) * NS_PER_S)
                forgotten[mine] |= known.at_leader & (time_ns > lost_ns) & (time_ns < known_ns)
                elsewhere = (known.follower != LEADER_ID) & (known.follower != asked)
                forgotten[mine] |= elsewhere & _in_any(time_ns, away)
            continue
        on_its_way, at_follower, sent_to_follower = (
            _in_any(time_ns, _lost_spans(context, broker, node, name, answer.time_ns))
            for name in (ON_ITS_WAY, AT_FOLLOWER, SENT_TO_FOLLOWER)
        )
        held_up = on_its_way & known.arrived
        arrived_ns = np.where(held_up, known.arrived_ns, time_ns)
        lost = _in_any(
            time_ns, _lost_spans(context, broker, node, LOST, answer.time_ns), arrived_ns
        )
        unknown = on_its_way & ~known.arrived
        late[mine] = unknown & (known.follower == LEADER_ID)  # a follower keeps what it was sent
        forgotten[mine] = (
            lost
            | unknown
            | (at_follower & ~known.at_leader)
            | (sent_to_follower & (known.follower != LEADER_ID))
        )
    if asked is not None and asked != LEADER_ID:
        copied_s = timings.follower_sync_s + 2 * timings.request_s
        forgotten |= commits.time_ns > gain.time_ns - int(copied_s * NS_PER_S)
    asked_ns = gain.time_ns if answer is None else answer.time_ns
    for window in context.excuses.windows(REPLACED, broker):
        if window.start_ns <= asked_ns and not _leaves_alone(context, window, broker, asked):
            forgotten |= commits.time_ns <= window.end_ns
    return forgotten, late


def _leaves_alone(context: Context, window: Window, broker: str, asked: int | None) -> bool:
    """Whether the follower that was asked keeps its offsets, because the disk of another replica is gone for good."""
    if not asked or not window.fault.permanent:
        return False
    replicas = context.facts.replica_sets.get(broker, ())
    return asked < len(replicas) and replicas[asked] not in window.fault.targets


class _Known(NamedTuple):
    """What is known of the commits of one process, each of shape (commits,)."""

    at_leader: Mask  # sent to the leader
    arrived: Mask  # and there
    arrived_ns: Ints  # by when, if it is there
    follower: Ints  # the id of the follower that it was sent to, or LEADER_ID


def _known_destinations(reported: Sequence[CommitTo], op_index: Ints, until_index: int) -> _Known:
    """Where one process's commits were surely sent, and which have arrived at the leader by an op.

    `reported`: the report of the process about these commits and their replica set.
    """
    reported = [one for one in reported if one.op_index < until_index]
    arrived = [
        one.broker_id == LEADER_ID and after.earlier_arrived for one, after in pairwise(reported)
    ]
    arrived_ns = [after.time_ns for _, after in pairwise(reported)]
    sent = [one.broker_id == LEADER_ID for one in reported]
    last = np.searchsorted([one.op_index for one in reported], op_index)  # 0: nothing was reported
    return _Known(
        at_leader=np.array([False, *sent])[last],
        arrived=np.array([False, *arrived, False])[: len(reported) + 1][last],
        arrived_ns=np.array([0, *arrived_ns, 0])[: len(reported) + 1][last],
        follower=np.array([LEADER_ID, *(one.broker_id for one in reported)])[last],
    )


def _pulled_below(
    context: Context, commits: Commits, pair: tuple[str, LogKey], gain: Ownership
) -> Mask:
    """Which commits came when another member had the queue already, and may have begun before them."""
    below = np.zeros(len(commits), np.bool_)
    gained: dict[int, int] = {}
    changes = (of for of in context.timeline.ownership[pair] if of.op_index < gain.op_index)
    for change in changes:
        if change.change == "gained":
            gained[change.process] = change.time_ns
        elif change.process in gained:
            since_ns = gained.pop(change.process)
            below |= _while(commits, change.process, since_ns, change.time_ns)
    for process, since_ns in gained.items():  # a process that has ended pulls no more
        until_ns = min(gain.time_ns, ended_ns(context, process))
        below |= _while(commits, process, since_ns, until_ns)
    return below


def _begun_below(
    context: Context, commits: Commits, pair: tuple[str, LogKey], gain: Ownership
) -> Mask:
    """Which commits another member began below, before the queue was gained or answered for."""
    below = np.zeros(len(commits), np.bool_)
    answer = answer_to(context, pair, gain)
    until_index = gain.op_index if answer is None else answer.op_index
    for begun in context.timeline.begins.get(pair, ()):
        if begun.broker_id is None or begun.process == gain.process:
            continue
        if begun.op_index < until_index:
            offset = begun.offset or 0  # none: that broker knew of no commit
            below |= (commits.op_index < begun.op_index) & (commits.offset > offset)
    return below


def _while(commits: Commits, process: int, since_ns: int, until_ns: int) -> Mask:
    """Which commits of others came between two times, or were on their way at the first."""
    within = (commits.time_ns >= since_ns - ON_ITS_WAY_NS) & (commits.time_ns <= until_ns)
    found: Mask = within & (commits.process != process)
    return found


def _in_any(time_ns: Ints, spans: Iterable[Span], until_ns: Ints | None = None) -> Mask:
    """Which times lie in one of some spans; with `until_ns`: which times from `time_ns` to there share a moment."""
    within = np.zeros(len(time_ns), np.bool_)
    for span in spans:
        within |= ((time_ns if until_ns is None else until_ns) >= span.start_ns) & (
            time_ns <= span.end_ns
        )
    return within
