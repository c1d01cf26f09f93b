"""Wrongs of cause and effect: delivered before it was sent."""

from __future__ import annotations

from tests.checkers.mutations.events import Delivery
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.model import NoSuchSite, S, without
from tests.checkers.mutations.pick import is_normal
from tests.checkers.mutations.planting import Planting


@KINDS.mutation(
    "delivered_before_send",
    "one message is delivered before its send began",
    workloads=without("delayed", "transactional", "reservations", "ordered", "broadcast"),
)
def delivered_before_sent(draft: Planting) -> None:
    run = draft.run
    last: dict[tuple[str, str, str, int], Delivery] = {}
    free: list[tuple[Delivery, int]] = []
    for d in run.deliveries:
        before = last.get((d.group, *d.place))
        begin_ns = run.sends[d.key].begin_ns if d.key in run.sends else 0
        if (
            before is not None
            and d.alone
            and before.process == d.process
            and begin_ns - before.time_ns > S // 100
        ):
            free.append((d, (before.time_ns + begin_ns) // 2))
        last[d.group, *d.place] = d
    found = draft.choose(
        free,
        lambda pair: (
            is_normal(run, pair[0])
            and len(run.by_key[pair[0].key]) == 1
            and draft.is_here(pair[1], pair[0].time_ns)
        ),
    )
    draft.move_deliveries([found[0]], found[1])


@KINDS.mutation("delivered_before_send", "every message is delivered before its send began")
def all_delivered_before_sent(draft: Planting) -> None:
    if (draft.site == "fault" and not draft.run.facts.faults) or (
        draft.site == "rest" and draft.run.facts.faults
    ):
        raise NoSuchSite
    by_ns = draft.rng.choice((1, 2, 3)) * S
    for at, op in draft.ops():
        if op.f in ("send", "send_many") and op.process < 90_000:
            draft.replace(at, time_ns=op.time_ns + by_ns)
    draft.observations = [
        {**seen, "time_ns": seen["time_ns"] + by_ns} if seen["kind"] == "ack_durability" else seen
        for seen in draft.observations
    ]
