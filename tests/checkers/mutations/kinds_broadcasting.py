"""Wrongs of broadcasting: every member gets every message."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.checkers.mutations.draft import Draft
from tests.checkers.mutations.events import Delivery
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.kinds_order import next_of
from tests.checkers.mutations.model import MS, Run, S, Site, choose
from tests.checkers.mutations.pick import (
    is_normal,
    message_of,
    nodes_of,
    outcome_unknown,
    pick_delivery,
)


def _member_delivery(run: Run, rng: Random, site: Site) -> Delivery:
    return pick_delivery(
        run,
        rng,
        site,
        lambda d: (
            d.alone
            and sum(o.process == d.process for o in run.by_key[d.key]) == 1
            and len(run.by_key[d.key]) > 1
        ),
    )


@KINDS.mutation(
    "member_missed",
    "one member of a broadcasting group misses an acknowledged message",
    workloads=("broadcast",),
)
def member_misses_acked(run: Run, rng: Random, site: Site) -> Run:
    return _member_misses(run, rng, site, lambda d: run.sends[d.key].type == "ok")


@KINDS.mutation(
    "member_missed",
    "one member of a broadcasting group misses a message of a weak status",
    workloads=("broadcast",),
)
def member_misses_weak(run: Run, rng: Random, site: Site) -> Run:
    return _member_misses(
        run,
        rng,
        site,
        lambda d: (
            run.sends[d.key].type == "info" and run.sends[d.key].status not in ("", "SEND_OK")
        ),
    )


@KINDS.mutation(
    "member_missed",
    "one member of a broadcasting group misses a message of an unknown send",
    workloads=("broadcast",),
)
def member_misses_unknown(run: Run, rng: Random, site: Site) -> Run | None:
    like = _member_delivery(run, rng, site)
    if run.sends[like.key].type != "ok":
        return None
    draft = Draft(run)
    outcome_unknown(draft, run.sends[like.key])
    draft.drop_deliveries([like])
    return draft.finish()


def _member_misses(run: Run, rng: Random, site: Site, fits: Any) -> Run:
    like = pick_delivery(
        run,
        rng,
        site,
        lambda d: (
            fits(d)
            and sum(o.process == d.process for o in run.by_key[d.key]) == 1
            and any(o.process != d.process for o in run.by_key[d.key])
        ),
    )
    draft = Draft(run)
    draft.drop_deliveries([like])
    return draft.finish()


@KINDS.mutation(
    "out_of_order",
    "one broadcast member is given two messages in the wrong order",
    workloads=("broadcast",),
)
def broadcast_order_exchanged(run: Run, rng: Random, site: Site) -> Run | None:
    pair = _broadcast_pair(run, rng, site)
    if pair is None:
        return None
    draft = Draft(run)
    if run.sends[pair[1].key].begin_ns > pair[0].begin_ns:
        draft.move_deliveries([pair[0]], pair[1].time_ns + MS)
        return draft.finish()
    first, second = draft.messages(pair[0]), draft.messages(pair[1])
    draft.set_messages(pair[0], second)
    draft.set_messages(pair[1], first)
    return draft.finish()


@KINDS.mutation(
    "misrouted",
    "one broadcast member is given two messages each in the place of the other",
    workloads=("broadcast",),
)
def broadcast_contents_exchanged(run: Run, rng: Random, site: Site) -> Run | None:
    pair = _broadcast_pair(run, rng, site)
    if pair is None:
        return None
    draft = Draft(run)
    draft.set_field(pair[0], 0, pair[1].key)
    draft.set_field(pair[1], 0, pair[0].key)
    return draft.finish()


def _broadcast_pair(run: Run, rng: Random, site: Site) -> tuple[Delivery, Delivery] | None:
    like = _member_delivery(run, rng, site)
    other = next_of(run, like)
    return (like, other) if other and other.alone and is_normal(run, other) else None


@KINDS.mutation(
    "duplicate_unexplained",
    "one broadcast member is given a message twice",
    workloads=("broadcast",),
)
def broadcast_again(run: Run, rng: Random, site: Site) -> Run:
    like = choose(
        rng,
        run.deliveries,
        lambda d: (
            is_normal(run, d)
            and run.is_at(site, d.time_ns)
            and sum(o.process == d.process for o in run.by_key[d.key]) == 1
            and not run.is_explained(d.time_ns - S, d.time_ns + 5 * S, nodes_of(run, d), 20)
        ),
    )
    draft = Draft(run)
    draft.deliver(like, like.time_ns + 3 * S, [message_of(run, like)])
    return draft.finish()
