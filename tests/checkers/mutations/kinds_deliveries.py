"""Wrongs of who gets a message, and how often."""

from __future__ import annotations

from random import Random

from tests.checkers.mutations.draft import Draft
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.model import CALM, MS, Run, S, Site, without
from tests.checkers.mutations.pick import (
    following,
    is_normal,
    is_settled,
    keeps_queue,
    message_of,
    other_member,
    pick_delivery,
    pick_single,
)

CLUSTERING = without("broadcast")


@KINDS.mutation(
    "duplicate_unexplained",
    "a member gets a message again a second later, and nothing had failed",
    workloads=CALM,
)
def again_to_same_member(run: Run, rng: Random, site: Site) -> Run:
    return _again(run, rng, site, S)


@KINDS.mutation(
    "duplicate_unexplained",
    "a member gets a message again 15 s later, and nothing had failed",
    workloads=CALM,
)
def again_much_later(run: Run, rng: Random, site: Site) -> Run:
    return _again(run, rng, site, 15 * S)


def _again(run: Run, rng: Random, site: Site, later_ns: int) -> Run:
    like = pick_single(run, rng, site, lambda d: is_settled(run, d, d.time_ns + later_ns))
    draft = Draft(run)
    draft.deliver(like, like.time_ns + later_ns, [message_of(run, like)])
    return draft.finish()


@KINDS.mutation(
    "duplicate_unexplained",
    "two calls of a listener are given the same messages at once",
    workloads=CALM,
)
def given_to_two_calls(run: Run, rng: Random, site: Site) -> Run:
    like = pick_single(run, rng, site, lambda d: d.alone and is_settled(run, d, d.time_ns))
    draft = Draft(run)
    for at in dict.fromkeys((like.begin, like.at)):
        draft.insert(draft[at], after=at)
    return draft.finish()


@KINDS.mutation(
    "unowned_delivery",
    "one message is given to a second member that does not have the queue",
    workloads=CALM,
)
def again_to_other_member(run: Run, rng: Random, site: Site) -> Run:
    like = pick_single(
        run,
        rng,
        site,
        lambda d: (
            keeps_queue(run, d, d.time_ns + 2 * S)
            and other_member(run, d, d.begin_ns, d.time_ns + 3 * S) is not None
        ),
    )
    other = other_member(run, like, like.begin_ns, like.time_ns + 3 * S)
    assert other is not None
    draft = Draft(run)
    draft.deliver(
        like, like.time_ns + S, [message_of(run, like)], process=other.process, node=other.node
    )
    return draft.finish()


@KINDS.mutation(
    "unowned_delivery",
    "every message of a queue is consumed by two members for 10 s or longer",
    workloads=CALM,
)
def queue_consumed_twice(run: Run, rng: Random, site: Site) -> Run:
    span_ns = 10 * S
    like = pick_delivery(
        run,
        rng,
        site,
        lambda d: (
            keeps_queue(run, d, d.time_ns + span_ns)
            and other_member(run, d, d.begin_ns, d.time_ns + span_ns) is not None
        ),
    )
    other = other_member(run, like, like.begin_ns, like.time_ns + span_ns)
    assert other is not None
    draft = Draft(run)
    for d in following(run, like, span_ns):
        if d.process == like.process and d.type == "ok":
            message = message_of(run, d)
            draft.deliver(d, d.time_ns + MS, [message], process=other.process, node=other.node)
    return draft.finish()


@KINDS.mutation(
    "unowned_delivery",
    "for 8 s the messages of a queue go to a member that does not have it",
    workloads=without("broadcast", "request-reply", "forwarded", "retry"),
)
def queue_to_wrong_member(run: Run, rng: Random, site: Site) -> Run:
    span_ns = 8 * S
    like = pick_delivery(
        run,
        rng,
        site,
        lambda d: (
            keeps_queue(run, d, d.time_ns + span_ns)
            and other_member(run, d, d.begin_ns, d.time_ns + span_ns) is not None
        ),
    )
    other = other_member(run, like, like.begin_ns, like.time_ns + span_ns)
    assert other is not None
    draft = Draft(run)
    for d in following(run, like, span_ns):
        if d.process == like.process:
            for at in {d.begin, d.at}:
                draft.replace(at, process=other.process, node=other.node)
    return draft.finish()


@KINDS.mutation(
    "unowned_delivery",
    "all deliveries of the run go to members that have none of the queues",
    workloads=without("broadcast", "request-reply", "forwarded", "retry"),
)
def all_to_wrong_members(run: Run, rng: Random, site: Site) -> Run | None:
    if (site == "fault") != bool(run.facts.faults):
        return None
    draft = Draft(run)
    moved = 0
    for d in run.deliveries:
        if d.slot or not is_normal(run, d):
            continue
        other = other_member(run, d, d.begin_ns, d.time_ns)
        if other is not None:
            moved += 1
            for at in {d.begin, d.at}:
                draft.replace(at, process=other.process, node=other.node)
    return draft.finish() if moved > 50 else None


@KINDS.mutation(
    "unknown_consumer",
    "a message goes to a process that never opened",
    workloads=without("forwarded", "request-reply"),
)
def to_process_never_opened(run: Run, rng: Random, site: Site) -> Run:
    like = pick_delivery(run, rng, site, lambda d: d.alone)
    draft = Draft(run)
    for at in {like.begin, like.at}:
        draft.replace(at, process=140_000 + rng.randrange(1000), node=like.node)
    return draft.finish()


@KINDS.mutation(
    "delivery_after_exit",
    "a message goes to a process whose node was killed and started again",
    workloads=without("forwarded", "request-reply"),
)
def to_process_of_restarted_node(run: Run, rng: Random, site: Site) -> Run | None:
    dead = [m for m in run.members if m.end_ns < run.end_ns - 5 * S]
    if not dead:
        return None
    like = pick_delivery(
        run,
        rng,
        site,
        lambda d: (
            d.alone and any(m.end_ns + 2 * S < d.begin_ns and m.group == d.group for m in dead)
        ),
    )
    member = next(m for m in dead if m.end_ns + 2 * S < like.begin_ns and m.group == like.group)
    draft = Draft(run)
    for at in {like.begin, like.at}:
        draft.replace(at, process=member.process, node=member.node)
    return draft.finish()


@KINDS.mutation("unknown_consumer", "a message goes to a group that is not one of the run")
def to_unknown_group(run: Run, rng: Random, site: Site) -> Run:
    like = pick_delivery(run, rng, site)
    draft = Draft(run)
    draft.deliver(like, like.time_ns, [message_of(run, like)], group="group-of-no-one")
    return draft.finish()


@KINDS.mutation(
    "unknown_consumer", "a message goes to a member of another group", workloads=("filtered",)
)
def to_member_of_other_group(run: Run, rng: Random, site: Site) -> Run | None:
    like = pick_delivery(run, rng, site, lambda d: d.alone)
    other = next(
        (m for m in run.members if m.group != like.group and m.begin_ns < like.begin_ns < m.end_ns),
        None,
    )
    if other is None:
        return None
    draft = Draft(run)
    for at in {like.begin, like.at}:
        draft.replace(at, process=other.process, node=other.node)
    return draft.finish()
