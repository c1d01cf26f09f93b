"""Measures how long a cluster needed to recover from each fault; `availability_gaps` has the bound.

**sends after**: the time from the heal of a fault to the first acknowledgement with SEND_OK of a send that had not been
acknowledged by then. If the fault struck brokers, only acknowledgements from these brokers count. **caught up after**:
the time from the heal until a group had received every wanted message that was acknowledged and due by the heal (0 if
it had received them by then). A fault that did not bite or was never healed has no such times. A fault after which no
send was acknowledged counts as `never_recovered`. A fault after which a group never received all these messages counts
as `never_caught_up`, once for each such group.

Deliveries of a message are found by the position of its acknowledgement. A message that a broker first kept elsewhere
(a delay, a transaction) had no position then, so its deliveries are found by id in the whole queue. Cannot see: data
that a cluster lost for good, and whether a later fault delayed the recovery from this one.
Source: RTO and recovery time of openchaos.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from staticfire.checkers.derived.first_deliveries import first_calls, first_deliveries
from staticfire.checkers.engine.kernel import Context, Kernel, nothing_missing
from staticfire.checkers.guarantees.facts import FaultFacts, RunFacts
from staticfire.checkers.guarantees.promises import FOREVER_NS
from staticfire.checkers.guarantees.verdict import Tally, Verdict
from staticfire.checkers.model.columns import UNKNOWN, Columns, Ints, Mask, Outcome

NS_PER_MS = 1_000_000
NEVER_RECOVERED, NEVER_CAUGHT_UP = "never_recovered", "never_caught_up"  # counts of faults
Healed = tuple[int, FaultFacts, int]  # number of a fault, the fault, the time of its heal
SENT, BEHIND = "sent", "behind "  # names of cells, followed by the number of the fault


def tally_recovery(columns: Columns, context: Context) -> Tally:
    """Measure whole queues (partition key: log)."""
    healed = _healed(context.facts)
    sends = columns.sends
    rows = np.flatnonzero(sends.outcome == Outcome.OK)
    if not len(rows) or not healed:
        return Tally()
    rows = _by_time(sends.time_ns, rows)
    brokers = columns.names.stream_of_log[sends.log[rows]]
    parts = [_sent(columns, context.facts, sends.time_ns[rows], brokers, healed)]
    ready_ns = np.maximum(sends.time_ns, sends.due_ns)
    rows = _by_time(ready_ns, rows)
    for group in context.facts.groups:
        wanted = context.wants(columns, sends, group)[rows]
        given_ns = np.where(wanted, _given_ns(columns, group, rows) if wanted.any() else 0, 0)
        parts.append(_behind(group, ready_ns[rows], np.maximum.accumulate(given_ns), healed))
    return reduce(Tally.merge, parts)


def _by_time(times_ns: Ints, rows: Ints) -> Ints:
    times_ns = times_ns[rows]
    if bool(np.all(times_ns[1:] >= times_ns[:-1])):
        return rows
    return rows[np.argsort(times_ns, kind="stable")]


def _given_ns(columns: Columns, group: str, rows: Ints) -> Ints:
    """Return the time of the first delivery of each send to the group, shape (rows,)."""
    sends = columns.sends
    given_ns = first_deliveries(columns, group)[rows]
    kept_back = np.flatnonzero(sends.queue_offset[rows] == UNKNOWN)
    if len(kept_back):
        given_ns[kept_back] = first_calls(columns, group, rows[kept_back])
    return given_ns


def _sent(
    columns: Columns, facts: RunFacts, acked_ns: Ints, brokers: Ints, healed: list[Healed]
) -> Tally:
    """Return the negated time from each heal to the first acknowledgement, because a merge keeps the largest value."""
    longest = {}
    for number, fault, healed_ns in healed:
        after = int(np.searchsorted(acked_ns, healed_ns, side="right"))
        struck = np.flatnonzero(_struck(columns, facts, fault)[brokers[after:]])
        if len(struck):
            longest[SENT, number] = -int(acked_ns[after + struck[0]] - healed_ns)
    return Tally(longest=longest)


def _healed(facts: RunFacts) -> list[Healed]:
    """Return the faults that bit and were healed."""
    return [
        (number, fault, fault.healed_ns)
        for number, fault in enumerate(facts.faults)
        if fault.bitten_ns is not None and fault.healed_ns is not None
    ]


def _struck(columns: Columns, facts: RunFacts, fault: FaultFacts) -> Mask:
    """Whether acknowledgements of each broker count, shape (brokers,): the targets of the fault, or all without any."""
    struck = {
        name
        for name in {*facts.replica_sets, *columns.names.streams}
        if not {name, *facts.replica_sets.get(name, ())}.isdisjoint(fault.targets)
    }
    return np.array([not struck or name in struck for name in columns.names.streams], np.bool_)


def _behind(group: str, ready_ns: Ints, given_ns: Ints, healed: list[Healed]) -> Tally:
    """Return the time from each heal until the group had all messages that were ready by the heal."""
    longest = {}
    for number, _, healed_ns in healed:
        before = int(np.searchsorted(ready_ns, healed_ns, side="right"))
        if before:
            late_ns = int(given_ns[before - 1])
            longest[BEHIND + group, number] = max(late_ns - healed_ns, 0)
    return Tally(longest=longest)


def finish_recovery(tally: Tally, context: Context) -> Verdict:
    """Return the worst times as counts, and each fault in `series`."""
    rows = [
        _row(tally, context.facts, number, fault) for number, fault, _ in _healed(context.facts)
    ]
    sent = [row["sends_after_ms"] for row in rows]
    caught_up = [late for row in rows for late in row["caught_up_after_ms"].values()]
    return Verdict(
        checker="recovery_times",
        valid=True,
        counts={
            "slowest_recovery_ms": max((of for of in sent if of is not None), default=0),
            "slowest_catch_up_ms": max((of for of in caught_up if of is not None), default=0),
            NEVER_RECOVERED: sent.count(None),
            NEVER_CAUGHT_UP: caught_up.count(None),
        },
        series={"faults": rows} if rows else {},
    )


def _row(tally: Tally, facts: RunFacts, number: int, fault: FaultFacts) -> dict[str, Any]:
    sent = tally.longest.get((SENT, number))
    late = {group: tally.longest.get((BEHIND + group, number), 0) for group in facts.groups}
    return {
        "fault_id": fault.fault_id,
        "kind": fault.kind,
        "sends_after_ms": None if sent is None else -sent // NS_PER_MS,
        "caught_up_after_ms": {
            group: None if ns > FOREVER_NS // 2 else ns // NS_PER_MS for group, ns in late.items()
        },
    }


RECOVERY_TIMES = Kernel(
    name="recovery_times",
    partition_by="log",
    anomalies=(),
    partial=tally_recovery,
    unknown_reason=nothing_missing,
    finished=finish_recovery,
)
