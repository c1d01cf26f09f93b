"""Wrongs of the time that messages wait while nothing is broken."""

from __future__ import annotations

from dataclasses import replace

from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.model import NoSuchSite, S, without
from tests.checkers.mutations.pick import following, is_settled
from tests.checkers.mutations.planting import Planting


def _delayed_queue(draft: Planting, span_ns: int) -> None:
    """Nothing of a queue is delivered for a while; then all of it, in order. No other member has the queue, too."""
    like = draft.pick_single(
        lambda d: is_settled(draft.run, d, d.time_ns + span_ns, any_fault=True, after_s=15)
    )
    waiting = [d for d in following(draft.run, like, span_ns) if d.process == like.process]
    end_ns = like.begin_ns + span_ns
    draft.move_deliveries(waiting, end_ns)
    draft.clip_commits(like.group, like.place, like.offset, like.begin_ns, end_ns)


@KINDS.mutation(
    "slow_delivery",
    "a held pull is not woken: a queue is not delivered from for 10 s, and nothing is broken",
    workloads=without("broadcast", "forwarded", "request-reply", "retry"),
)
def queue_stalls_for_10_s(draft: Planting) -> None:
    _delayed_queue(draft, 10 * S)


@KINDS.mutation(
    "slow_delivery",
    "a queue is not delivered from for 18 s, and nothing is broken",
    workloads=without("broadcast", "forwarded", "request-reply", "retry"),
)
def queue_stalls_for_18_s(draft: Planting) -> None:
    _delayed_queue(draft, 18 * S)


@KINDS.mutation(
    "slow_delivery",
    "every delivery of the run comes 4 s late, and nothing is broken",
    workloads=("queue", "filtered", "batch", "bulk"),
)
def everything_late(draft: Planting) -> None:
    if draft.run.facts.faults or draft.site == "fault":
        raise NoSuchSite
    for at, op in draft.ops():
        if op.f in ("consume", "consume_many", "commit") and op.process != 99_999:
            draft.replace(at, time_ns=op.time_ns + 4 * S)
        elif op.time_ns >= draft.run.end_ns - S:
            draft.replace(at, time_ns=op.time_ns + 5 * S)


@KINDS.mutation(
    "delivery_gap",
    "an acknowledged message waits 12 s for its delivery where 5 s are promised",
    workloads=without("broadcast", "forwarded", "request-reply", "retry"),
)
def waits_longer_than_promised(draft: Planting) -> None:
    _delayed_queue(draft, 12 * S)
    draft.facts = replace(draft.facts, gap_max_s=5.0)
