"""The offset that a group had surely committed when a member gained a queue.

A committed offset is a register, and a member that begins in a queue reads it. A client may report the offset that it
read and the broker that answered (`begin`), the broker to which it sends commits, and whether earlier commits have
arrived there (`commit_to`). The names in parentheses below are rows of the table of excuses. If the leader answered,
every commit before its answer counts, because the leader knows all commits that reached it, except

* a commit that the leader may not have persisted before it ended (`offset_lost`). If a fault delayed a commit, the
  leader persisted it after its arrival, and the client reported the arrival after that;
* a commit without a report of its arrival that may be lost on its way (`offset_on_its_way`);
* a commit without a report that it was sent to the leader, which a follower may have got (`offset_at_follower`);
* a commit that was reportedly sent to a follower, while its member need not know the leader
  (`offset_sent_to_follower`).

Otherwise a commit does not count if brokers may have forgotten it (`offset_forgotten`), by a fault of any replica that
may not have persisted or copied it yet, or by a fault between the replicas and the two members. If the client does not
report which broker answered, a follower may have answered only near such faults. If it reports that a follower
answered, more commits do not count, because followers copy the offsets of their leader periodically: those that this
follower may not have copied yet, those that another follower got while the leader was away or gone for good, and those
that a member sent to a leader that was already gone for good.

No commit counts across a disk that was emptied or a reset of offsets (`offset_replaced`). But a follower that
reportedly answered keeps its offsets if the disk of another replica is gone for good.

A commit does not count either if a pull of another member may have replaced it, because each pull commits the position
of its member. A member that gained the queue before the commit arrived began below it. A member may also begin below a
commit for another reason, such as the answer of a follower; this begin is judged separately. The same member may have
done so when it had the queue before.

The last commit that counts may have been replaced by a later commit, and by an earlier one of another member in the
second before, because each member has a connection of its own. It may also have been replaced by an earlier one that
was on its way when a network or a broker failed, or that no broker has confirmed (`commit`, info): unsent data of a
closed connection may arrive after the commits on the next connection. The result is the lowest of these offsets.

A member of a broadcasting group commits to a file of its own, and reports the commit when the file is written. Only
damage to the disk of the member's own node, or an operator who resets the offsets, can remove it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
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

# Names of rows in the table of excuses. The time of the witness is that of the commit.
LOST = "offset_lost"  # by the leader, if the leader answered
# the same, unless the client reports that the commit arrived there
ON_ITS_WAY = "offset_on_its_way"
# the same, unless the client reports that it sent the commit there
AT_FOLLOWER = "offset_at_follower"
# the same, if the client reports that it sent the commit to a follower
SENT_TO_FOLLOWER = "offset_sent_to_follower"
FORGOTTEN = "offset_forgotten"  # by any broker
REPLACED = "offset_replaced"  # the time of the witness is that from the commit to the answer
# also the time until a member has asked for its offset
ON_ITS_WAY_NS = int(ON_ITS_WAY_S * NS_PER_S)
# Linux repeats the unsent data of a closed connection for about 100 s (tcp_orphan_retries).
LATE_NS = 120 * NS_PER_S
LEADER_ID = 0
_HARMS_FILES = frozenset({DISK, EMPTIES, ROLLS_BACK, WRITES_FAIL})


def surely_committed(
    columns: Columns, context: Context, stream: tuple[int, int], gain: Ownership
) -> int:
    """Return the offset that a group had surely committed when a member gained the queue; 0 if no commit is sure.

    `stream`: the ids of the queue and of the group. Results are cached.
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
    """Return the same from the commits of one stream, sorted by op; `pair` is its group and its queue."""
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
    last_ns, last_process = earlier.time_ns[sure[-1]], earlier.process[sure[-1]]
    late |= (earlier.process != last_process) & (earlier.time_ns > last_ns - ON_ITS_WAY_NS)
    unclear = context.timeline.unclear_commits.get(pair, ())
    offsets = (
        *earlier.offset[sure[-1] :].tolist(),
        *earlier.offset[late].tolist(),
        *(of.offset for of in unclear if gain.time_ns - LATE_NS < of.time_ns < gain.time_ns),
    )
    return int(min(offsets))


def _saved_offset(context: Context, commits: Commits, broker: str, gain: Ownership) -> int:
    """Return the last offset that is surely in the file of a member of a broadcasting group; 0 if there is none."""
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
    """Return the commits of a group for a queue, sorted by op; in a broadcasting group those of the process's node."""
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
    """Return the node whose offsets a process of a broadcasting group uses; None for other groups, which share them."""
    if group not in context.facts.broadcasting:
        return None
    return context.timeline.nodes.get(process, "")


def answer_to(context: Context, pair: tuple[str, LogKey], gain: Ownership) -> Begun | None:
    """Return the first answer of a broker to a member after it gained a queue; None if none is reported."""
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


def lowest_answer(
    context: Context, pair: tuple[str, LogKey], gain: Ownership, until_index: int
) -> int | None:
    """Return the lowest offset that brokers gave a member for a queue between its gain and an op.

    A member of an orderly group asks again when it has regained the lock of a queue. None: no broker has answered since
    the gain, or one of them knew no offset, so that the member began elsewhere.
    """
    begins = context.timeline.begins.get(pair, ())
    first = bisect_right(begins, gain.op_index, key=lambda begun: begun.op_index)
    last = bisect_left(begins, until_index, key=lambda begun: begun.op_index)
    offsets = [begun.offset for begun in begins[first:last] if begun.process == gain.process]
    known = [offset for offset in offsets if offset is not None]
    return min(known) if known and len(known) == len(offsets) else None


def names_brokers(context: Context, group: str) -> bool:
    """Whether members of the group report which broker gave them their first offset."""
    return any(
        begun.broker_id is not None
        for (name, _), begins in context.timeline.begins.items()
        if name == group
        for begun in begins
    )


def forgotten_spans(context: Context, group: str, broker: str, node: str | None) -> list[Span]:
    """Return the times such that brokers may forget the next commit of a member on a node.

    If members of the group report which broker gave them their first offset, these are the times in which the leader
    may lose commits, and any replica those to a follower. Otherwise they are the times in which any replica may.
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
    """Return the times in which any replica may have forgotten a commit of a member, by the table of excuses.

    If the leader is gone for good, and only one follower remains, it gets every commit and every request for an offset.
    So the loss of the leader excuses nothing after it.
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
    """Return the times of commits from a node that the leader may lose by faults until `until_ns` (row `anomaly`)."""
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
    """Return the times of commits from this node: to a follower, to the leader, and with a report of their arrival.

    Each span ends with the report about the commits in it.
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
    """Return the part of a window in which its row counts; None if there is none."""
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
    """Return which commits the answer may lack, and which may reach the leader later; both of shape (commits,)."""
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
        # a commit to a follower never reaches the leader
        late[mine] = unknown & (known.follower == LEADER_ID)
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
    """Whether the follower that answered keeps its offsets, because the disk of another replica is gone for good."""
    if not asked or not window.fault.permanent:
        return False
    replicas = context.facts.replica_sets.get(broker, ())
    return asked < len(replicas) and replicas[asked] not in window.fault.targets


class _Known(NamedTuple):
    """The reported destinations of the commits of one process; arrays have shape (commits,)."""

    at_leader: Mask  # sent to the leader
    arrived: Mask  # sent to the leader, and arrived there
    arrived_ns: Ints  # the time by which it had arrived
    follower: Ints  # the id of the follower to which it was sent, or LEADER_ID


def _known_destinations(reported: Sequence[CommitTo], op_index: Ints, until_index: int) -> _Known:
    """Return where a process sent its commits, and which had arrived at the leader by an op, as it reports.

    `reported`: the reports of the process about these commits and their replica set.
    """
    reported = [one for one in reported if one.op_index < until_index]
    arrived = [
        one.broker_id == LEADER_ID and after.earlier_arrived for one, after in pairwise(reported)
    ]
    arrived_ns = [after.time_ns for _, after in pairwise(reported)]
    sent = [one.broker_id == LEADER_ID for one in reported]
    last = np.searchsorted([one.op_index for one in reported], op_index)  # 0: no report
    return _Known(
        at_leader=np.array([False, *sent])[last],
        arrived=np.array([False, *arrived, False])[: len(reported) + 1][last],
        arrived_ns=np.array([0, *arrived_ns, 0])[: len(reported) + 1][last],
        follower=np.array([LEADER_ID, *(one.broker_id for one in reported)])[last],
    )


def _pulled_below(
    context: Context, commits: Commits, pair: tuple[str, LogKey], gain: Ownership
) -> Mask:
    """Whether another member had the queue at the time of each commit, so that it may have begun below it."""
    below = np.zeros(len(commits), np.bool_)
    gained: dict[int, int] = {}
    changes = (of for of in context.timeline.ownership[pair] if of.op_index < gain.op_index)
    for change in changes:
        if change.change == "gained":
            gained[change.process] = change.time_ns
        elif change.process in gained:
            since_ns = gained.pop(change.process)
            below |= _while(commits, change.process, since_ns, change.time_ns)
    for process, since_ns in gained.items():  # a process that has ended does not pull
        until_ns = min(gain.time_ns, ended_ns(context, process))
        below |= _while(commits, process, since_ns, until_ns)
    return below


def _begun_below(
    context: Context, commits: Commits, pair: tuple[str, LogKey], gain: Ownership
) -> Mask:
    """Whether a member began below each commit before the answer to this gain (without an answer: before the gain).

    This is another member, or the same one when it had the queue before.
    """
    below = np.zeros(len(commits), np.bool_)
    answer = answer_to(context, pair, gain)
    until_index = gain.op_index if answer is None else answer.op_index
    for begun in context.timeline.begins.get(pair, ()):
        is_own = begun.process == gain.process and begun.op_index > gain.op_index
        if begun.broker_id is None or is_own:
            continue
        if begun.op_index < until_index:
            offset = begun.offset or 0  # None: that broker knew of no commit
            below |= (commits.op_index < begun.op_index) & (commits.offset > offset)
    return below


def _while(commits: Commits, process: int, since_ns: int, until_ns: int) -> Mask:
    """Whether each commit is of another process, and came between two times or was on its way at the first."""
    within = (commits.time_ns >= since_ns - ON_ITS_WAY_NS) & (commits.time_ns <= until_ns)
    found: Mask = within & (commits.process != process)
    return found


def _in_any(time_ns: Ints, spans: Iterable[Span], until_ns: Ints | None = None) -> Mask:
    """Whether each time is in one of the spans; with `until_ns`, whether [time_ns, until_ns] overlaps one of them."""
    within = np.zeros(len(time_ns), np.bool_)
    for span in spans:
        within |= ((time_ns if until_ns is None else until_ns) >= span.start_ns) & (
            time_ns <= span.end_ns
        )
    return within
