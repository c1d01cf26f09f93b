"""Send statuses: SEND_OK and the weaker ones match the copies that the harness observed at that moment.

**acked_not_durable**: when SEND_OK reached the producer, fewer nodes held the message safely than the profile promises,
even if every unobserved node held it. The leader that acknowledged it must be one of these nodes.
**spurious_weak_status**: the broker gave a weaker status (FLUSH_DISK_TIMEOUT, FLUSH_SLAVE_TIMEOUT, SLAVE_NOT_AVAILABLE)
although as many nodes held the message as SEND_OK promises, and no fault that leads to this status was near
(excuse_table.py has a row for each status). Near such a fault the last copy may have come just after the broker had
given up, so the finding is informational. It is also informational if followers may have been haSlaveFallbehindMax
behind when the message was stored, and had copied it before the answer arrived (follower_lag.py).

Some statuses are wrong even near a fault:

* After the broker has answered SEND_OK to a send that began after the fault, the fault explains no later status.
* If a message that was sent after the end of a fault has as many copies as SEND_OK promises, then 10 s later, when its
  followers must have reported them, the fault explains no SLAVE_NOT_AVAILABLE, for any status of that message.
* A fault explains no timeout that came too early.
* It explains no timeout while the broker answered other sends. A broker answers in the order of its log, so every
  message stored before a message with SEND_OK is as safe as that message. After that the broker must not answer a send
  that had waited for the whole timeout with a timeout.
* A status about followers is always wrong if the profile makes no send wait for a follower.

If an acknowledgement was not observed, the verdict is unknown. It is also unknown if an acknowledgement is true only if
an unobservable node held the message (`acks_unclear`). A node whose disk was destroyed before the send began held
nothing. A fault may destroy a copy while the acknowledgement is on its way. Then the harness observes the node without
the copy, and the fault excuses the missing copy like a loss. The checker counts such acknowledgements (`acks_excused`)
and judges the others; if none of those is proven, the verdict is unknown.

Cannot see: copies that appeared and disappeared before the status arrived; the contents of a real disk (only the
simulation can observe one).

Source: PutMessageStatus and SendStatus of Apache RocketMQ 4.9; openchaos counts weak statuses as success.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from staticfire.checkers.derived.covers import covering, merged_spans
from staticfire.checkers.derived.follower_lag import NOT_AVAILABLE, HeldSends, rows_left_behind
from staticfire.checkers.engine.kernel import Checker, Context, Kernel, finding_at, some_rows
from staticfire.checkers.engine.observed import NOT_OBSERVED, observed_verdict
from staticfire.checkers.engine.screening import is_among
from staticfire.checkers.guarantees.excuses.excuses import Window
from staticfire.checkers.guarantees.facts import (
    FaultFacts,
    Keeping,
    Mode,
    Replication,
    RunFacts,
    Timings,
)
from staticfire.checkers.guarantees.fault_effects import (
    AGAIN,
    CUTS,
    FORGETS,
    IN_TURN,
    STALLS,
    STOPS,
    WRITES_FAIL,
)
from staticfire.checkers.guarantees.fault_times import FOREVER_NS, NS_PER_S, healed_ns
from staticfire.checkers.guarantees.promises import Judgement, judge
from staticfire.checkers.guarantees.verdict import Finding, Tally, Verdict
from staticfire.checkers.measures.reportable import with_share
from staticfire.checkers.model.building.column_builder import WEAK_STATUSES as WEAKER
from staticfire.checkers.model.columns import UNKNOWN, Columns, Ints, LogKey, Outcome
from staticfire.checkers.model.intervals import Span, joined, without
from staticfire.checkers.model.message_ids import MessageIds

# (on disk, at least in memory): the number of nodes that must hold a message acknowledged with SEND_OK.
COPIES_PROMISED: Mapping[tuple[Keeping, Replication], tuple[int, int]] = {
    ("sync", "none"): (1, 1),
    ("sync", "async"): (1, 1),
    ("sync", "sync"): (2, 2),
    ("async", "none"): (0, 1),
    ("async", "async"): (0, 1),
    ("async", "sync"): (0, 2),
    ("pool", "none"): (0, 0),  # in the memory of the process
    ("pool", "async"): (0, 0),
    ("pool", "sync"): (0, 2),  # uncommitted messages are not replicated
}
# A follower of Apache RocketMQ 4.9 acknowledges before its own fsync (HAService).
FOLLOWER_DISK_COUNTS: Mapping[Mode, bool] = {"hardened": True, "faithful": False}


class _Copies:
    """The number of promised copies by replica set, cached because most observations are alike."""

    __slots__ = ("_answers", "_facts")

    def __init__(self, facts: RunFacts) -> None:
        self._facts = facts
        self._answers: dict[tuple[Any, ...], str | None] = {}

    def missing(self, broker: str, seen: Mapping[str, Any], hidden: frozenset[str]) -> str | None:
        """Return which copies are missing even if all `hidden` nodes hold the message, as a text; None: enough."""
        case = (broker, *seen["durable_on"], 0, *seen["cached_on"], 0, hidden)
        if case not in self._answers:
            self._answers[case] = self._missing(broker, seen, hidden)
        return self._answers[case]

    def _missing(self, broker: str, seen: Mapping[str, Any], hidden: frozenset[str]) -> str | None:
        facts = self._facts
        replicas = facts.replica_sets.get(broker, ())
        on_disk, held = COPIES_PROMISED[facts.leaders_keeping, facts.replication]
        if not FOLLOWER_DISK_COUNTS[facts.mode]:
            on_disk = min(on_disk, 1)
        durable = set(seen["durable_on"])
        cached = durable | set(seen["cached_on"])
        nodes = set(facts.replica_sets.get(broker, cached))  # copies on other nodes do not count
        durable, cached = durable & nodes, cached & nodes
        leader = frozenset(replicas[:1])
        for what, found, promised in (("on disk of", durable, on_disk), ("held by", cached, held)):
            if len(found | hidden) < min(promised, max(len(replicas), 1)):
                return f"{what} {_nodes(found)}, promised on {min(promised, len(replicas))}"
            if promised and not leader <= found | hidden:
                return f"{what} {_nodes(found)}, which leaves out its leader {_nodes(leader)}"
        return None


def _nodes(nodes: Iterable[str]) -> str:
    return ", ".join(sorted(nodes)) or "no node"


FOLLOWER_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
NO_NODES: frozenset[str] = frozenset()
NEVER = np.zeros(0, np.int64)
WEAK = "spurious_weak_status"
# How long a broker waits before it answers with such a status, except after a failure of its disk.
WAITS: Mapping[str, Callable[[Timings], float]] = {
    "FLUSH_DISK_TIMEOUT": lambda timings: timings.flush_timeout_s,
    FOLLOWER_TIMEOUT: lambda timings: timings.follower_timeout_s,
}
OF_FOLLOWERS = (FOLLOWER_TIMEOUT, NOT_AVAILABLE)
# Effects that begin when the fault begins; a disk may fill up, or fail, later.
AT_ONCE_ONLY = frozenset({STOPS, FORGETS, STALLS, CUTS})


def tally_durable_before_ack(columns: Columns, context: Context) -> Tally:
    """Judge each observed acknowledgement by the copies that the profile promises (partition key: log)."""
    sends = columns.sends
    acked = np.flatnonzero((sends.outcome == Outcome.OK) & (sends.log != UNKNOWN))
    copies = _Copies(context.facts)
    gone = _gone(context.facts)
    findings, proven, excused, unclear = [], 0, 0, 0
    observed = list(sends_seen(columns, context, acked))
    rows = [row for _, row, _ in observed]
    nodes_with_possible_loss = _robbed(columns, context, np.array(rows, np.int64))
    for broker, row, seen in observed:
        robbed_of = hidden = nodes_with_possible_loss.get(row, NO_NODES)
        if seen["unobserved"]:
            began_ns = int(sends.invoke_ns[row])
            hidden |= {node for node in seen["unobserved"] if began_ns <= gone.get(node, began_ns)}
        missing = copies.missing(broker, seen, hidden)
        if missing is not None:
            findings.append(_not_durable(columns, context, row, missing))
        elif not hidden or copies.missing(broker, seen, NO_NODES) is None:
            proven += 1
        elif copies.missing(broker, seen, robbed_of) is None:
            excused += 1
        else:
            unclear += 1
    counts = {
        "acks": len(acked),
        "acks_observed": len(set(rows)),
        "acks_proven": proven,
        "acks_excused": excused,
        "acks_unclear": unclear,
    }
    return Tally.of(findings, **counts)


def _gone(facts: RunFacts) -> Mapping[str, int]:
    """Return, by node, when a disk that was destroyed for good may have held data for the last time, in ns."""
    gone: dict[str, int] = {}
    for fault in facts.faults:
        if fault.permanent and fault.bitten_ns is not None:
            last_ns = max(fault.bitten_ns, fault.fired_ns or 0)
            gone.update({node: min(last_ns, gone.get(node, last_ns)) for node in fault.targets})
    return gone


def _not_all_proven(tally: Tally, _context: Context) -> str | None:
    count = tally.counts.get
    acks, observed = count("acks", 0), count("acks_observed", 0)
    if observed == 0:
        return NOT_OBSERVED
    if observed < acks:
        return f"{acks - observed} of {acks} acknowledgements were {NOT_OBSERVED}"
    if unclear := count("acks_unclear", 0):
        return f"{unclear} of {acks} acknowledgements rest on nodes that were {NOT_OBSERVED}"
    if count("acks_proven", 0) == 0 and count("acks_excused", 0) > 0:
        return f"none of {acks} acknowledgements is proven: faults took the copies first"
    return None


def check_weak_statuses(columns: Columns, context: Context) -> Verdict:
    """Judge each observed weak status by the copies that SEND_OK would have promised."""
    sends = columns.sends
    weak = np.flatnonzero((sends.outcome == Outcome.WEAK) & (sends.log != UNKNOWN))
    copies = _Copies(context.facts)
    observed = list(sends_seen(columns, context, weak))
    held = (
        seen
        for seen in sightings(columns, context)[0]
        if copies.missing(seen["broker_name"], seen, NO_NODES) is None
    )
    behind_max = context.facts.follower_behind_max_bytes
    behind = rows_left_behind(sends, observed, held, behind_max)
    on_followers = HeldSends(
        (broker, int(sends.invoke_ns[row]), int(sends.time_ns[row]))
        for broker, row, seen in observed
        if copies.missing(broker, seen, NO_NODES) is None
    )
    findings = [
        _blames_followers(columns, context, row, seen["status"])
        if _needs_no_followers(context, seen["status"])
        else _safe(columns, context, row, seen["status"], on_followers, is_behind=row in behind)
        for broker, row, seen in observed
        if copies.missing(broker, seen, NO_NODES) is None
        or _needs_no_followers(context, seen["status"])
    ]
    unseen = len(weak) - len({row for _, row, _ in observed})
    counts = {"weak": len(weak), "weak_observed": len(weak) - unseen}
    reason = f"{unseen} {NOT_OBSERVED}" if unseen else None
    verdict = observed_verdict("weak_statuses", findings, counts, reason)
    asked = (_excused_by(columns, context, status, on_followers) for status in sorted(WEAKER))
    return with_share(verdict, WEAK, context, *asked)


def weak_rows(columns: Columns, context: Context) -> Columns:
    """Select sends with a weaker status, and for each queue the acknowledgements that give the same result as all.

    These are the first acknowledgement; before each weaker status, the acknowledged send that began last; after the end
    of each fault, the first acknowledged send that began then; and the fewest acknowledgements that refute the same
    timeouts as all of them.
    """
    sends = columns.sends
    placed = np.flatnonzero((sends.outcome == Outcome.OK) & (sends.log != UNKNOWN))
    placed = placed[np.argsort(sends.op_index[placed], kind="stable")]
    weak = np.flatnonzero(sends.outcome == Outcome.WEAK)
    kept = [weak, placed[np.unique(sends.log[placed], return_index=True)[1]]]
    for queue in np.unique(sends.log[placed]).tolist():
        mine = placed[sends.log[placed] == queue]
        latest = mine[_where_highest(sends.invoke_ns[mine])]
        known = np.searchsorted(sends.op_index[mine], sends.invoke_index[weak]) - 1
        kept.append(latest[known[known >= 0]])
        highest_ns = sends.invoke_ns[latest]
        after = np.searchsorted(highest_ns, _over_times(context), side="right")
        kept.append(latest[after[after < len(latest)]])
        for status in WAITS if context.excuses.has_faults else ():
            rows, starts_ns, ends_ns = _answered_within(columns, context, status, mine)
            kept.extend(rows[chosen] for chosen in covering(starts_ns, ends_ns, 1))
    return some_rows(columns, sends=np.unique(np.concatenate(kept)))


def _over_times(context: Context) -> Ints:
    """Return, for all faults, the result of `_over_ns`, sorted."""
    windows = (
        _windows(context, name, status) for name in context.facts.replica_sets for status in WEAKER
    )
    return np.array(sorted({_over_ns(of.fault) for found in windows for of in found}), np.int64)


def _where_highest(values: Ints) -> Ints:
    """Return, for each index, the index of the highest value up to it, shape (values,)."""
    is_highest = values == np.maximum.accumulate(values)
    found: Ints = np.maximum.accumulate(np.where(is_highest, np.arange(len(values)), 0))
    return found


def sends_seen(
    columns: Columns, context: Context, rows: Ints
) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
    """Yield the observations of the sends `rows`: replica set, row, observation."""
    observations, messages = sightings(columns, context)
    sends = columns.sends
    rows = rows[is_among(sends.message[rows], np.unique(messages))]
    rows = rows[np.argsort(sends.message[rows], kind="stable")]
    of_row = sends.message[rows]
    first, last = (np.searchsorted(of_row, messages, side=side) for side in ("left", "right"))
    brokers = [queue.stream for queue in columns.names.logs]
    broker_of = [brokers[queue] for queue in sends.log[rows].tolist()]
    numbers = rows.tolist()
    for at in np.flatnonzero(last > first).tolist():
        for at_send in range(first[at], last[at]):
            yield broker_of[at_send], numbers[at_send], observations[at]


def sightings(columns: Columns, context: Context) -> tuple[list[Mapping[str, Any]], Ints]:
    """Return the observations of acknowledged messages, and their ids, shape (observations,); cached."""
    known = columns.cache.get("sightings")
    if known is None:
        ids = MessageIds(columns.names.other_keys)
        seen = [of for of in context.observations if of["kind"] == "ack_durability"]
        known = seen, np.array([ids[of["key"]] for of in seen], np.int64)
        columns.cache["sightings"] = known
    assert isinstance(known, tuple)
    return known


def _robbed(columns: Columns, context: Context, rows: Ints) -> dict[int, frozenset[str]]:
    """Return, by row, the nodes whose copy a fault may have destroyed while the acknowledgement was on its way."""
    sends, names = columns.sends, columns.names
    broker = names.stream_of_log[sends.log[rows]]
    since_ns, until_ns = sends.invoke_ns[rows], sends.time_ns[rows]
    found = {}
    for number, name in enumerate(names.streams):
        near = np.zeros(len(rows), np.bool_)
        for start_ns, end_ns in context.promises.hit_times(name):
            near |= (end_ns >= since_ns) & (start_ns <= until_ns)
        for at in np.flatnonzero(near & (broker == number)).tolist():
            times = {"since_ns": int(since_ns[at]), "until_ns": int(until_ns[at])}
            found[int(rows[at])] = frozenset(context.promises.robbed_nodes(name, **times))
    return found


def _not_durable(columns: Columns, context: Context, row: int, missing: str) -> Finding:
    facts = context.facts
    return finding_at(
        columns,
        columns.sends,
        row,
        anomaly="acked_not_durable",
        judgement=judge(facts.mode, "acked_not_durable"),
        detail=f"{facts.flush} flush, {facts.replication} replication: {missing} when acknowledged",
    )


def _safe(
    columns: Columns,
    context: Context,
    row: int,
    status: str,
    on_followers: HeldSends,
    *,
    is_behind: bool,
) -> Finding:
    # In an observation without a known status, it may be any of them.
    statuses = [status] if status in WEAKER else sorted(WEAKER)
    explained = (_explained(columns, context, row, of, on_followers) for of in statuses)
    near = next((window for window in explained if window is not None), None)
    quiet = judge(context.facts.mode, "spurious_weak_status")
    excuse = "" if near is None else f"; {near.words}"
    if near is None and _is_first_of_broker(columns, row):
        excuse = (
            "; the broker had acknowledged nothing as safe by then: its followers were coming up"
        )
    elif near is None and is_behind:
        excuse = "; its followers may have been too far behind when it was stored"
    return finding_at(
        columns,
        columns.sends,
        row,
        anomaly="spurious_weak_status",
        judgement=Judgement.INFORMATIONAL if excuse else quiet,
        detail=f"a weaker status than SEND_OK, although as many nodes held it as SEND_OK promises{excuse}",
    )


def _needs_no_followers(context: Context, status: str) -> bool:
    """Whether the status is about followers although no send waits for a follower."""
    return status in OF_FOLLOWERS and context.facts.replication != "sync"


def _blames_followers(columns: Columns, context: Context, row: int, status: str) -> Finding:
    replication = context.facts.replication
    return finding_at(
        columns,
        columns.sends,
        row,
        anomaly="spurious_weak_status",
        judgement=judge(context.facts.mode, "spurious_weak_status"),
        detail=f"{status}, and with {replication} replication no send waits for a follower",
    )


def _explained(
    columns: Columns,
    context: Context,
    row: int,
    status: str,
    on_followers: HeldSends,
) -> Window | None:
    """Return the window of a fault that explains a weak status; None without one.

    A fault does not count if it ended before the begin of an earlier send with SEND_OK, or of one in `on_followers`.
    """
    sends, broker = columns.sends, _broker(columns, row)
    invoke_ns, time_ns = int(sends.invoke_ns[row]), int(sends.time_ns[row])
    served_ns = _served(columns, row)
    copied_ns = on_followers.latest_ns(broker, invoke_ns) if status == NOT_AVAILABLE else None
    can_have_waited = status not in WAITS
    if not can_have_waited:
        answered = Span(invoke_ns + _wait_ns(context, status), time_ns + 1)
        can_have_waited = bool(without([answered], _refuted(columns, context, broker, status)))
    return next(
        (
            window
            for window in _windows(context, broker, status)
            if window.start_ns <= time_ns and window.end_ns >= invoke_ns
            if served_ns is None or _over_ns(window.fault) >= served_ns
            if copied_ns is None or healed_ns(window.fault) >= copied_ns
            if can_have_waited or _waits_for_none(window)
        ),
        None,
    )


def _windows(context: Context, broker: str, status: str) -> tuple[Window, ...]:
    return context.excuses.windows(f"{WEAK} {status}", broker)


def _waits_for_none(window: Window) -> bool:
    return WRITES_FAIL in window.excuse.effects


def _wait_ns(context: Context, status: str) -> int:
    return int(WAITS[status](context.facts.timings) * NS_PER_S)


def _refuted(columns: Columns, context: Context, broker: str, status: str) -> list[Span]:
    """Return the times in which no timeout is possible, because the broker answered a later send with SEND_OK."""
    name = f"refuted {status} of {broker}"
    known = columns.cache.get(name)
    if known is None:
        sends, names = columns.sends, columns.names
        rows = np.flatnonzero((sends.outcome == Outcome.OK) & (sends.log != UNKNOWN))
        number = names.streams.index(broker) if broker in names.streams else UNKNOWN
        rows = rows[names.stream_of_log[sends.log[rows]] == number]
        _, starts_ns, ends_ns = _answered_within(columns, context, status, rows)
        known = columns.cache[name] = merged_spans(starts_ns, ends_ns, 1)
    assert isinstance(known, list)
    return known


def _answered_within(
    columns: Columns, context: Context, status: str, rows: Ints
) -> tuple[Ints, Ints, Ints]:
    """Return the rows of sends with SEND_OK within a timeout, and begin and end of the times that each refutes."""
    sends, wait_ns = columns.sends, _wait_ns(context, status)
    rows = rows[sends.time_ns[rows] - sends.invoke_ns[rows] < wait_ns]
    return rows, sends.time_ns[rows] + 1, sends.invoke_ns[rows] + wait_ns + 1


def _over_ns(fault: FaultFacts) -> int:
    """Return the time in ns from which on SEND_OK for a new send shows that the fault no longer hinders a follower."""
    strikes_once = fault.strikes_when not in (IN_TURN, AGAIN) and set(fault.effects) <= AT_ONCE_ONLY
    over_ns = fault.bitten_ns if strikes_once else fault.healed_ns
    return FOREVER_NS if over_ns is None else over_ns


def _excused_by(
    columns: Columns, context: Context, status: str, on_followers: HeldSends
) -> Callable[[str, LogKey], list[Span]]:
    """Return a function of group and queue that returns the times in which faults explain a weak status."""
    of_broker = cache(partial(_excused, columns, context, status, on_followers))
    return lambda _group, queue: of_broker(queue.stream)


def _excused(
    columns: Columns, context: Context, status: str, on_followers: HeldSends, broker: str
) -> list[Span]:
    """Return the intervals in which faults explain a weak status of a broker."""
    _, latest_ns = _acknowledged(columns).get(broker, (NEVER, NEVER))
    at_once: list[Span] = []
    spans: list[Span] = []
    for window in _windows(context, broker, status):
        after = int(np.searchsorted(latest_ns, _over_ns(window.fault), side="right"))
        served_ns = int(latest_ns[after]) if after < len(latest_ns) else FOREVER_NS
        known_ns = (
            on_followers.known_ns(broker, healed_ns(window.fault))
            if status == NOT_AVAILABLE
            else FOREVER_NS
        )
        span = Span(window.start_ns, min(window.end_ns, served_ns, known_ns))
        (at_once if _waits_for_none(window) else spans).append(span)
    if status in WAITS and spans:
        spans = without(spans, _refuted(columns, context, broker, status))
    return joined([*at_once, *spans])


def _broker(columns: Columns, row: int) -> str:
    return columns.names.logs[int(columns.sends.log[row])].stream


def _served(columns: Columns, row: int) -> int | None:
    """Return the begin in ns of the latest send that the broker had answered with SEND_OK before this one; or None."""
    sends, (ended, latest_ns) = columns.sends, _acknowledged(columns)[_broker(columns, row)]
    before = int(np.searchsorted(ended, sends.invoke_index[row]))
    return int(latest_ns[before - 1]) if before else None


def _is_first_of_broker(columns: Columns, row: int) -> bool:
    """Whether the broker answered other sends with SEND_OK later, and none before this send began."""
    ended, _ = _acknowledged(columns)[_broker(columns, row)]
    return len(ended) > 0 and _served(columns, row) is None


def _acknowledged(columns: Columns) -> dict[str, tuple[Ints, Ints]]:
    """Return, by broker, the ops at which SEND_OK arrived, ascending, and the latest begin of a send up to each."""
    known = columns.cache.get("acknowledged by broker")
    if known is None:
        sends, names = columns.sends, columns.names
        rows = np.flatnonzero((sends.outcome == Outcome.OK) & (sends.log != UNKNOWN))
        rows = rows[np.argsort(sends.op_index[rows], kind="stable")]
        of_broker = names.stream_of_log[sends.log[rows]]
        mine = {broker: rows[of_broker == n] for n, broker in enumerate(names.streams)}
        known = columns.cache["acknowledged by broker"] = {
            broker: (sends.op_index[of], np.maximum.accumulate(sends.invoke_ns[of]))
            for broker, of in mine.items()
        }
    assert isinstance(known, dict)
    return known


DURABLE_BEFORE_ACK = replace(
    Kernel(
        name="durable_before_ack",
        partition_by="log",
        anomalies=("acked_not_durable",),
        partial=tally_durable_before_ack,
        unknown_reason=_not_all_proven,
    ).as_checker(),
    applies=lambda context: context.facts.disks_observed,
    needs_observations=True,
)

WEAK_STATUSES = Checker(
    name="weak_statuses",
    anomalies=("spurious_weak_status",),
    check=check_weak_statuses,
    rows=weak_rows,
    applies=lambda context: context.facts.disks_observed,
    needs_observations=True,
)
