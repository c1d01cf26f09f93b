"""Measures how long sends and deliveries took, second by second. It does not judge.

**send**: the time from the invocation of a send to its acknowledgement with SEND_OK, under the second in which it
began. **lag** of a group: the time from the acknowledgement to the first call of the group's listener with the message
(0 if that came before), under the second of the acknowledgement. Sends are also counted by outcome. Each second lists
the faults that were active in it. A history of more than 2048 s has longer slices (`time_series.py`).

Durations are counted in integer buckets (`histogram.py`), and maxima are exact. Merging is associative and commutative,
so the figures do not depend on the number of processes. Deliveries are joined by position, so a queue must be whole.

Cannot see: messages that were never acknowledged or never delivered (loss, availability), and the second copy of a
retried send. Source: the latency plots of Jepsen, the end-to-end lag of openchaos.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import numpy as np

from staticfire.checkers.derived.first_deliveries import NEVER_NS, first_deliveries
from staticfire.checkers.engine.kernel import Context, Kernel, nothing_missing
from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.guarantees.promises import FOREVER_NS, NS_PER_S
from staticfire.checkers.guarantees.verdict import Tally, Verdict
from staticfire.checkers.model.columns import Columns, Ints, MessageEvents, Outcome
from staticfire.checkers.model.histogram import NS_PER_US, buckets_of, percentile_us
from staticfire.checkers.model.time_series import Measured

SEND, ENDED = "send", "ended"
PERCENTILES = {"p50": 5000, "p99": 9900}  # hundredths of a percent


def tally_latency(columns: Columns, context: Context) -> Tally:
    """Measure whole queues (partition key: log)."""
    sends = columns.sends
    acked = sends.outcome == Outcome.OK
    invoke_ns, acked_ns = sends.invoke_ns[acked], sends.time_ns[acked]
    parts = [_ended(sends), _measured(SEND, invoke_ns // NS_PER_S, acked_ns - invoke_ns)]
    for group in context.facts.groups:
        given_ns = first_deliveries(columns, group)[acked]
        given = given_ns != NEVER_NS
        lag_ns = np.maximum(given_ns[given] - acked_ns[given], 0)
        parts.append(_measured(f"lag {group}", acked_ns[given] // NS_PER_S, lag_ns))
    return reduce(Tally.merge, parts)


def _measured(what: str, second: Ints, duration_ns: Ints) -> Tally:
    if not len(second):
        return Tally()
    return Tally(measured={what: Measured.of(second, buckets_of(duration_ns), duration_ns)})


def _ended(sends: MessageEvents) -> Tally:
    if not len(sends):
        return Tally()
    return Tally(measured={ENDED: Measured.of(sends.invoke_ns // NS_PER_S, sends.outcome)})


def finish_latency(tally: Tally, context: Context) -> Verdict:
    """Return percentiles of the whole run as counts, and those of each second (or longer slice) as series."""
    of_run = {what: of for what, of in sorted(tally.measured.items()) if what != ENDED}
    rows = [row for what, of in of_run.items() for row in _slices(what, of, context.facts)]
    ended = tally.measured.get(ENDED)
    return Verdict(
        checker="latency",
        valid=True,
        counts={
            f"{what.replace(' ', '_')}_{name}_us": value
            for what, of in of_run.items()
            for name, value in _figures(of.low, of.counts.sum(axis=0), of.longest.max()).items()
        },
        series={"seconds": rows, "ended": [] if ended is None else _by_outcome(ended)},
    )


def _slices(what: str, of: Measured, facts: RunFacts) -> Iterator[dict[str, object]]:
    active = _active(facts)
    for at in np.flatnonzero(of.counts.any(axis=1)).tolist():
        first, last = at * of.slice_s, (at + 1) * of.slice_s - 1
        yield {
            "what": what,
            "second": first,
            **({} if of.slice_s == 1 else {"seconds": of.slice_s}),
            "count": int(of.counts[at].sum()),
            **_figures(of.low, of.counts[at], of.longest[at]),
            "faults": [name for name, since, until in active if since <= last and first <= until],
        }


def _by_outcome(ended: Measured) -> list[dict[str, object]]:
    names = {Outcome(ended.low + at).name.lower(): at for at in range(ended.counts.shape[1])}
    return [
        {"outcome": name, "second": second * ended.slice_s, "sends": int(ended.counts[second, at])}
        for name, at in sorted(names.items())
        for second in np.flatnonzero(ended.counts[:, at]).tolist()
    ]


def _figures(low: int, counts: Ints, longest_ns: np.int64) -> dict[str, int]:
    """Return percentiles and maximum in microseconds; bucket `low` is the first of `counts`."""
    filled = np.flatnonzero(counts)
    latencies_us, numbers = (filled + low).tolist(), counts[filled].tolist()
    longest = int(longest_ns) // NS_PER_US
    found = {
        name: min(percentile_us(latencies_us, numbers, share), longest)
        for name, share in PERCENTILES.items()
    }
    return {**found, "max": longest}


def _active(facts: RunFacts) -> list[tuple[str, int, int]]:
    """Return the id and the first and last second of each fault that bit."""
    return [
        (
            fault.fault_id,
            fault.fired_ns // NS_PER_S,
            (FOREVER_NS if fault.healed_ns is None else fault.healed_ns) // NS_PER_S,
        )
        for fault in facts.faults
        if fault.bitten_ns is not None and fault.fired_ns is not None
    ]


LATENCY = Kernel(
    name="latency",
    partition_by="log",
    anomalies=(),
    partial=tally_latency,
    unknown_reason=nothing_missing,
    finished=finish_latency,
)
