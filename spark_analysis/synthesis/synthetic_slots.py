"""One chunk of a synthetic history: positions of messages in queues, their sends and their deliveries.

A *slot* is one position of a queue. Slots are sorted by queue, then offset. Appending to a queue is linearizable: each
send begins before its message is appended, and ends afterwards. Anomalies are injected into slots and deliveries before
ops are numbered.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from staticfire.checkers.model.columns import UNKNOWN, Ints, Mask, Outcome
from staticfire.spark_analysis.synthesis.workload_profile import NS_PER_S, WorkloadProfile

SEND_LATENCY_NS = 400_000
DELIVERY_LATENCY_NS = 3_000_000
LISTENER_NS = 700_000
RECORD_BYTES = 300
WEAK_SHARE, RECOVERED_SHARE = 0.001, 0.0025
OUTAGE_NS = 5 * NS_PER_S
AFTERMATH_NS = 40 * NS_PER_S  # longer than the half minute for which a fault excuses anomalies
UNSTORED_IN_OUTAGE = 50  # sends that no broker stores
CONSUMERS_FROM = 1 << 20  # the first process that is a consumer


@dataclass(slots=True)
class Progress:
    """The state of the history between two chunks."""

    next_ns: int
    next_index: int
    next_offset: Ints  # of each queue, shape (queues,)
    sent: int  # messages so far
    physical: int
    calm_from_ns: int  # from here on, no fault excuses anything
    # Last committed offset of the group of each branch of the fan-out; shape (branches, queues).
    committed: Ints


@dataclass(slots=True)
class Deliveries:
    """The deliveries of one branch of the fan-out; arrays of shape (slots,)."""

    kept: Mask
    message: Ints
    offset: Ints
    body_ok: Mask
    outcome: Ints
    invoke_ns: Ints
    done_ns: Ints


@dataclass(slots=True)
class Redelivery:
    """One more delivery of some slots, as one op."""

    branch: int  # of the fan-out
    slots: Ints
    invoke_ns: int
    done_ns: int
    tries: int


@dataclass(slots=True)
class Slots:
    """The slots of a chunk; arrays of shape (slots,), sorted by queue, then offset."""

    queue: Ints
    offset: Ints
    append_ns: Ints
    process: Ints
    message: Ints
    sent: Mask
    invoke_ns: Ints
    done_ns: Ints
    outcome: Ints
    acked_queue: Ints
    acked_offset: Ints
    stored: Ints  # physical offset in the log
    physical: Ints  # acknowledged physical offset
    tries: Ints
    index_in_queue: Ints  # 0, 1, 2, ... in this chunk
    begin_ns: int
    calm_from_ns: int
    end_ns: int = 0
    deliveries: list[Deliveries] = field(default_factory=list)
    redeliveries: list[Redelivery] = field(default_factory=list)
    unstored_ns: Ints = field(
        default_factory=lambda: np.zeros(0, np.int64)
    )  # begin times of sends that no broker stores
    fresh: int = 0  # number of keys that injections have made
    # queues of which branch 0 commits too far
    commits_ahead: list[int] = field(default_factory=list)


def make_slots(profile: WorkloadProfile, progress: Progress, number: int, *, outage: bool) -> Slots:
    """Make the slots of chunk `number`, without anomalies; advance `progress`."""
    rng = np.random.default_rng([profile.seed, number])
    size = min(profile.sends_a_chunk, profile.sends - progress.sent)
    begin_ns = progress.next_ns
    first_ns = begin_ns + OUTAGE_NS if outage else begin_ns
    if outage:
        progress.calm_from_ns = first_ns + AFTERMATH_NS
    append_ns = first_ns + np.cumsum(rng.integers(1, 2 * profile.spacing_ns, size))
    queue = _draw_queues(rng, profile, size)
    order = np.argsort(queue, kind="stable")
    counts = np.bincount(queue, minlength=profile.queues)
    starts = np.cumsum(counts) - counts
    at = progress.sent + np.arange(size)
    process = at % profile.producers
    invoke_ns, done_ns = _send_times(rng, append_ns, profile.producers, first_ns)
    by_queue = queue[order].astype(np.int64)
    index = np.arange(size) - starts[by_queue]
    offset = progress.next_offset[by_queue] + index
    outcome, unknown = _outcomes(rng, size)
    stored = (progress.physical + RECORD_BYTES * at)[order]
    slots = Slots(
        queue=by_queue,
        offset=offset,
        append_ns=append_ns[order],
        process=process[order],
        message=((process << 40) | (at // profile.producers))[order],
        sent=np.ones(size, np.bool_),
        invoke_ns=invoke_ns[order],
        done_ns=done_ns[order],
        outcome=outcome,
        acked_queue=np.where(unknown, UNKNOWN, by_queue),
        acked_offset=np.where(unknown, UNKNOWN, offset),
        stored=stored,
        physical=np.where(unknown, UNKNOWN, stored),
        tries=np.ones(size, np.int64),
        index_in_queue=index,
        begin_ns=begin_ns,
        calm_from_ns=progress.calm_from_ns,
    )
    if outage:
        slots.unstored_ns = begin_ns + np.sort(rng.integers(0, OUTAGE_NS // 2, UNSTORED_IN_OUTAGE))
    for _ in range(profile.fan_out):
        slots.deliveries.append(_deliver(rng, profile, slots))
    last_ns = max(int(d.done_ns.max()) for d in slots.deliveries)
    slots.end_ns = max(last_ns, int(slots.done_ns.max())) + NS_PER_S
    progress.next_offset = progress.next_offset + counts
    progress.sent += size
    return slots


def _draw_queues(
    rng: np.random.Generator, profile: WorkloadProfile, size: int
) -> NDArray[np.uint16]:
    """Draw queues by their weights, from a table that is exact to 1 in 65536."""
    edges = np.cumsum(profile.queue_weights()) * 65536
    table = np.minimum(np.searchsorted(edges, np.arange(65536), side="right"), profile.queues - 1)
    return table.astype(np.uint16)[rng.integers(0, 65536, size, dtype=np.uint16)]


def _send_times(
    rng: np.random.Generator, append_ns: Ints, producers: int, first_ns: int
) -> tuple[Ints, Ints]:
    """Draw begin and end of sends around their appends; a process does one send at a time."""
    size = len(append_ns)
    before = rng.integers(1, SEND_LATENCY_NS, size)
    # One send in a hundred is slow.
    after = rng.integers(1, SEND_LATENCY_NS, size) * np.where(rng.random(size) < 0.01, 20, 1)
    next_append = np.full(size, np.iinfo(np.int64).max)
    next_append[:-producers] = append_ns[producers:] if size > producers else []
    done_ns = np.minimum(append_ns + after, next_append - 1)
    previous = np.full(size, first_ns)
    previous[producers:] = done_ns[:-producers] if size > producers else []
    return np.maximum(append_ns - before, np.minimum(previous + 1, append_ns)), done_ns


def _outcomes(rng: np.random.Generator, size: int) -> tuple[Ints, Mask]:
    drawn = rng.random(size)
    outcome = np.full(size, Outcome.OK, np.int64)
    outcome[drawn < WEAK_SHARE + RECOVERED_SHARE] = Outcome.WEAK
    unknown = drawn < RECOVERED_SHARE
    outcome[unknown] = Outcome.UNKNOWN
    return outcome, unknown


def _deliver(rng: np.random.Generator, profile: WorkloadProfile, slots: Slots) -> Deliveries:
    """Draw the deliveries of one branch: in batches, each queue in order."""
    size = len(slots.queue)
    heads = np.flatnonzero(slots.index_in_queue % profile.batch == 0)
    lengths = np.diff(heads, append=size)
    last = heads + lengths - 1
    ready_ns = slots.append_ns[last] + rng.integers(1, DELIVERY_LATENCY_NS, len(heads))
    invoke_ns = _in_turn(slots.queue[heads], ready_ns)
    done_ns = _in_turn(slots.queue[heads], invoke_ns + rng.integers(1, LISTENER_NS, len(heads)))
    return Deliveries(
        kept=np.ones(size, np.bool_),
        message=slots.message.copy(),
        offset=slots.offset.copy(),
        body_ok=np.ones(size, np.bool_),
        outcome=np.full(size, Outcome.OK, np.int64),
        invoke_ns=np.repeat(invoke_ns, lengths),
        done_ns=np.repeat(done_ns, lengths),
    )


def _in_turn(queue: Ints, time_ns: Ints) -> Ints:
    """Make times non-decreasing within each queue; `queue` must be ascending."""
    low = int(time_ns.min())
    lift = (int(time_ns.max()) - low + 1) * queue
    return np.maximum.accumulate(time_ns - low + lift) - lift + low
