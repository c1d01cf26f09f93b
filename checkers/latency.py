"""How long sends and deliveries took, second by second: measured, not judged.

**send**: from the invocation of a send to its acknowledgement with SEND_OK, under the second in which it began. **lag**
of a group: from the acknowledgement to the first time that the group's listener was called with the message (0 if that
was before), under the second of the acknowledgement. Sends are also counted by how they ended. Each second carries the
faults that were active in it.

Durations are counted in integer buckets (`histogram.py`), maxima are exact, and parts merge in any order: the same
figures from one process and from many. Deliveries are joined by place, so a queue must be whole.

Cannot see: messages that were never acknowledged or never delivered (loss, availability), and the second copy of a
retried send. Source: the latency plots of Jepsen, the end-to-end lag of openchaos.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce

import numpy as np

from checkers.columns import Columns, Ints, Outcome, Touches
from checkers.facts import RunFacts
from checkers.first_deliveries import NEVER_NS, first_deliveries
from checkers.histogram import BUCKETS, NS_PER_US, buckets_of, percentile_us
from checkers.kernel import Context, Kernel, nothing_missing
from checkers.promises import FOREVER_NS, NS_PER_S
from checkers.verdict import Tally, Verdict

SEND, ENDED = "send", "ended "
PERCENTILES = {"p50": 5000, "p99": 9900}  # hundredths of a percent
Buckets = dict[int, int]


def tally_latency(columns: Columns, context: Context) -> Tally:
    """Measure whole message queues (partition key: queue)."""
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
    cells, counts = np.unique(second * BUCKETS + buckets_of(duration_ns), return_counts=True)
    places = zip((cells // BUCKETS).tolist(), (cells % BUCKETS).tolist(), strict=True)
    seconds, number = np.unique(second, return_inverse=True)
    longest = np.zeros(len(seconds), np.int64)
    np.maximum.at(longest, number, duration_ns)
    return Tally(
        cells={(what, *place): n for place, n in zip(places, counts.tolist(), strict=True)},
        longest={
            (what, at, 0): value
            for at, value in zip(seconds.tolist(), longest.tolist(), strict=True)
        },
    )


def _ended(sends: Touches) -> Tally:
    size = len(Outcome)
    keys, counts = np.unique(sends.invoke_ns // NS_PER_S * size + sends.outcome, return_counts=True)
    return Tally(
        cells={
            (ENDED + Outcome(key % size).name.lower(), key // size, 0): count
            for key, count in zip(keys.tolist(), counts.tolist(), strict=True)
        }
    )


def finish_latency(tally: Tally, context: Context) -> Verdict:
    """Percentiles of the whole run as counts, those of each second as series."""
    of_run: dict[str, Buckets] = {}
    of_second: dict[tuple[str, int], Buckets] = {}
    ended = []
    for (what, second, bucket), count in sorted(tally.cells.items()):
        if what.startswith(ENDED):
            outcome = what.removeprefix(ENDED)
            ended.append({"outcome": outcome, "second": second, "sends": count})
            continue
        whole = of_run.setdefault(what, {})
        whole[bucket] = whole.get(bucket, 0) + count
        of_second.setdefault((what, second), {})[bucket] = count
    longest = _longest(tally)
    faults = _faults_by_second(context.facts, {second for _, second in of_second})
    return Verdict(
        checker="latency",
        valid=True,
        counts={
            f"{what.replace(' ', '_')}_{name}_us": value
            for what, buckets in of_run.items()
            for name, value in _figures(buckets, longest[what]).items()
        },
        series={
            "seconds": [
                {
                    "what": what,
                    "second": second,
                    "count": sum(buckets.values()),
                    **_figures(buckets, tally.longest[what, second, 0]),
                    "faults": faults[second],
                }
                for (what, second), buckets in of_second.items()
            ],
            "ended": ended,
        },
    )


def _longest(tally: Tally) -> dict[str, int]:
    longest: dict[str, int] = {}
    for (what, _, _), value in tally.longest.items():
        longest[what] = max(value, longest.get(what, 0))
    return longest


def _figures(buckets: Mapping[int, int], longest_ns: int) -> dict[str, int]:
    """Percentiles and maximum in microseconds."""
    places = sorted(buckets)
    counts = [buckets[place] for place in places]
    longest = longest_ns // NS_PER_US
    found = {
        name: min(percentile_us(places, counts, share), longest)
        for name, share in PERCENTILES.items()
    }
    return {**found, "max": longest}


def _faults_by_second(facts: RunFacts, seconds: Iterable[int]) -> dict[int, list[str]]:
    """The faults that bit and were active at some time in each of these seconds."""
    active = [
        (
            fault.fault_id,
            fault.fired_ns // NS_PER_S,
            (FOREVER_NS if fault.healed_ns is None else fault.healed_ns) // NS_PER_S,
        )
        for fault in facts.faults
        if fault.bitten_ns is not None and fault.fired_ns is not None
    ]
    return {
        second: [name for name, first, last in active if first <= second <= last]
        for second in seconds
    }


LATENCY = Kernel(
    name="latency",
    partition_by="queue",
    anomalies=(),
    partial=tally_latency,
    unknown_reason=nothing_missing,
    finished=finish_latency,
)
