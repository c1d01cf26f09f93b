"""Wrongs of delayed messages."""

from __future__ import annotations

from itertools import pairwise

from tests.checkers.mutations.events import Delivery, Sent
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.model import MS, NoSuchSite, Run, S
from tests.checkers.mutations.pick import (
    is_normal,
    keeps_queue,
    may_be_destroyed,
    nodes_of,
)
from tests.checkers.mutations.planting import Planting

DELAYED = ("delayed", "reservations")


def _delay_ns(run: Run, key: str) -> int:
    sent = run.sends.get(key)
    return int(run.ops[sent.begin].value.get("delay_ms", 0)) * MS if sent else 0


@KINDS.mutation(
    "early_delivery", "a delayed message is delivered half way to when it is due", workloads=DELAYED
)
def delivered_too_early(draft: Planting) -> None:
    like = draft.pick_single(lambda d: d.alone and _delay_ns(draft.run, d.key) >= S)
    sent = draft.run.sends[like.key]
    draft.move_deliveries([like], sent.time_ns + (like.time_ns - sent.time_ns) // 2)


@KINDS.mutation(
    "early_delivery", "a delayed message is delivered 0.3 s before it is due", workloads=DELAYED
)
def delivered_slightly_early(draft: Planting) -> None:
    run = draft.run
    like = draft.pick_single(lambda d: d.alone and _delay_ns(run, d.key) >= S)
    draft.move_deliveries(
        [like], run.sends[like.key].begin_ns + _delay_ns(run, like.key) - 300 * MS
    )


@KINDS.mutation(
    "early_delivery", "a delayed message is delivered 1 ms before it is due", workloads=DELAYED
)
def delivered_a_millisecond_early(draft: Planting) -> None:
    run = draft.run
    like = draft.pick_single(lambda d: d.alone and _delay_ns(run, d.key) >= S)
    draft.move_deliveries([like], run.sends[like.key].begin_ns + _delay_ns(run, like.key) - MS)


@KINDS.mutation("late_delivery", "a delayed message comes 12 s after it was due", workloads=DELAYED)
def delivered_late(draft: Planting) -> None:
    run = draft.run
    like = draft.pick_single(
        lambda d: (
            d.alone
            and _delay_ns(run, d.key) >= S
            and d.time_ns + 12 * S < run.end_ns
            and not run.is_explained(
                run.sends[d.key].begin_ns, d.time_ns + 12 * S, nodes_of(run, d), 20
            )
        )
    )
    draft.move_deliveries([like], like.time_ns + 12 * S)
    draft.clip_commits(like.group, like.place, like.offset, like.begin_ns, like.time_ns + 12 * S)


@KINDS.mutation(
    "late_delivery",
    "a delayed message comes 20 s after it was due, while others of its queue come at once",
    workloads=DELAYED,
)
def delivered_late_beside_others(draft: Planting) -> None:
    run = draft.run
    like = draft.pick_single(
        lambda d: (
            d.alone
            and _delay_ns(run, d.key) >= S
            and keeps_queue(run, d, d.time_ns + 20 * S)
            and _others_come(run, d, 20 * S)
        )
    )
    draft.move_deliveries([like], like.time_ns + 20 * S)
    draft.clip_commits(like.group, like.place, like.offset, like.begin_ns, like.time_ns + 20 * S)


def _others_come(run: Run, delivery: Delivery, span_ns: int) -> bool:
    """Whether every 2 s a message of the same queue comes to the same group within a second of its send."""
    begun_ns = sorted(
        run.sends[d.key].begin_ns
        for d in run.deliveries
        if (d.group, d.place) == (delivery.group, delivery.place) and is_normal(run, d)
        if _delay_ns(run, d.key) == 0 and d.begin_ns - run.sends[d.key].begin_ns < S
    )
    end_ns = delivery.begin_ns + span_ns
    within = [at_ns for at_ns in begun_ns if delivery.begin_ns <= at_ns <= end_ns]
    return all(b - a < 2 * S for a, b in pairwise([delivery.begin_ns, *within, end_ns]))


@KINDS.mutation("lost", "a delayed message never comes", workloads=DELAYED)
def delayed_never_comes(draft: Planting) -> None:
    run = draft.run
    like = draft.pick_single(
        lambda d: (
            _delay_ns(run, d.key) >= S
            and run.sends[d.key].type == "ok"
            and len(run.by_key[d.key]) == 1
            and not may_be_destroyed(run, d.broker, run.sends[d.key].begin_ns)
        )
    )
    draft.drop_deliveries([like])


@KINDS.mutation(
    "delayed_out_of_order",
    "two messages of one delay, one sent after the other was acknowledged, lie in the opposite order",
    workloads=DELAYED,
)
def delayed_exchanged(draft: Planting) -> None:
    run = draft.run

    def is_stored_once(sent: Sent) -> bool:
        return sent.status == "SEND_OK" and sent.attempts == 1 and _delay_ns(run, sent.key) >= S

    def place(sent: Sent) -> tuple[object, ...]:
        return sent.topic, sent.broker, sent.queue, _delay_ns(run, sent.key)

    low = draft.pick_sent(is_stored_once)
    high = draft.choose(
        [sent for sent in run.sends.values() if place(sent) == place(low)],
        lambda sent: is_stored_once(sent) and sent.begin_ns > low.time_ns,
    )
    if not draft.exchange(low, high):
        raise NoSuchSite
