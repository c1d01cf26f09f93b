"""Wrongs of broadcasting: every member gets every message."""

from __future__ import annotations

from typing import Any

from tests.checkers.mutations.events import Delivery
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.kinds_order import next_of
from tests.checkers.mutations.model import MS, NoSuchSite, S
from tests.checkers.mutations.pick import (
    is_normal,
    message_of,
    nodes_of,
    outcome_unknown,
)
from tests.checkers.mutations.planting import Planting


def _member_delivery(draft: Planting) -> Delivery:
    return draft.pick_delivery(
        lambda d: (
            d.alone
            and sum(o.process == d.process for o in draft.run.by_key[d.key]) == 1
            and len(draft.run.by_key[d.key]) > 1
        )
    )


@KINDS.mutation(
    "member_missed",
    "one member of a broadcasting group misses an acknowledged message",
    workloads=("broadcast",),
)
def member_misses_acked(draft: Planting) -> None:
    _member_misses(draft, lambda d: draft.run.sends[d.key].type == "ok")


@KINDS.mutation(
    "member_missed",
    "one member of a broadcasting group misses a message of a weak status",
    workloads=("broadcast",),
)
def member_misses_weak(draft: Planting) -> None:
    _member_misses(
        draft,
        lambda d: (
            draft.run.sends[d.key].type == "info"
            and draft.run.sends[d.key].status not in ("", "SEND_OK")
        ),
    )


@KINDS.mutation(
    "member_missed",
    "one member of a broadcasting group misses a message of an unknown send",
    workloads=("broadcast",),
)
def member_misses_unknown(draft: Planting) -> None:
    like = _member_delivery(draft)
    if draft.run.sends[like.key].type != "ok":
        raise NoSuchSite
    outcome_unknown(draft, draft.run.sends[like.key])
    draft.drop_deliveries([like])


def _member_misses(draft: Planting, fits: Any) -> None:
    like = draft.pick_delivery(
        lambda d: (
            fits(d)
            and sum(o.process == d.process for o in draft.run.by_key[d.key]) == 1
            and any(o.process != d.process for o in draft.run.by_key[d.key])
        )
    )
    draft.drop_deliveries([like])


@KINDS.mutation(
    "out_of_order",
    "one broadcast member is given two messages in the wrong order",
    workloads=("broadcast",),
)
def broadcast_order_exchanged(draft: Planting) -> None:
    pair = _broadcast_pair(draft)
    if pair is None:
        raise NoSuchSite
    if draft.run.sends[pair[1].key].begin_ns > pair[0].begin_ns:
        draft.move_deliveries([pair[0]], pair[1].time_ns + MS)
        return
    first, second = draft.messages(pair[0]), draft.messages(pair[1])
    draft.set_messages(pair[0], second)
    draft.set_messages(pair[1], first)


@KINDS.mutation(
    "misrouted",
    "one broadcast member is given two messages each in the place of the other",
    workloads=("broadcast",),
)
def broadcast_contents_exchanged(draft: Planting) -> None:
    pair = _broadcast_pair(draft)
    if pair is None:
        raise NoSuchSite
    draft.set_field(pair[0], 0, pair[1].key)
    draft.set_field(pair[1], 0, pair[0].key)


def _broadcast_pair(draft: Planting) -> tuple[Delivery, Delivery] | None:
    like = _member_delivery(draft)
    other = next_of(draft.run, like)
    return (like, other) if other and other.alone and is_normal(draft.run, other) else None


@KINDS.mutation(
    "duplicate_unexplained",
    "one broadcast member is given a message twice",
    workloads=("broadcast",),
)
def broadcast_again(draft: Planting) -> None:
    run = draft.run
    like = draft.choose(
        run.deliveries,
        lambda d: (
            is_normal(run, d)
            and draft.is_here(d.time_ns)
            and sum(o.process == d.process for o in run.by_key[d.key]) == 1
            and not run.is_explained(d.time_ns - S, d.time_ns + 5 * S, nodes_of(run, d), 20)
        ),
    )
    draft.deliver(like, like.time_ns + 3 * S, [message_of(run, like)])
