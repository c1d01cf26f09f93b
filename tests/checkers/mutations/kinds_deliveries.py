"""Wrongs of who gets a message, and how often."""

from __future__ import annotations

from tests.checkers.mutations.events import Delivery
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.model import CALM, MS, Member, NoSuchSite, S, without
from tests.checkers.mutations.pick import (
    following,
    is_normal,
    is_settled,
    keeps_queue,
    message_of,
    other_member,
)
from tests.checkers.mutations.planting import Planting

CLUSTERING = without("broadcast")


@KINDS.mutation(
    "duplicate_unexplained",
    "a member gets a message again a second later, and nothing had failed",
    workloads=CALM,
)
def again_to_same_member(draft: Planting) -> None:
    _again(draft, S)


@KINDS.mutation(
    "duplicate_unexplained",
    "a member gets a message again 15 s later, and nothing had failed",
    workloads=CALM,
)
def again_much_later(draft: Planting) -> None:
    _again(draft, 15 * S)


def _again(draft: Planting, later_ns: int) -> None:
    like = draft.pick_single(lambda d: is_settled(draft.run, d, d.time_ns + later_ns))
    draft.deliver(like, like.time_ns + later_ns, [message_of(draft.run, like)])


@KINDS.mutation(
    "duplicate_unexplained",
    "two calls of a listener are given the same messages at once",
    workloads=CALM,
)
def given_to_two_calls(draft: Planting) -> None:
    like = draft.pick_single(lambda d: d.alone and is_settled(draft.run, d, d.time_ns))
    for at in dict.fromkeys((like.begin, like.at)):
        draft.insert(draft[at], after=at)


@KINDS.mutation(
    "unowned_delivery",
    "one message is given to a second member that does not have the queue",
    workloads=CALM,
)
def again_to_other_member(draft: Planting) -> None:
    run = draft.run
    like = draft.pick_single(
        lambda d: (
            keeps_queue(run, d, d.time_ns + 2 * S)
            and other_member(run, d, d.begin_ns, d.time_ns + 3 * S) is not None
        )
    )
    other = other_member(run, like, like.begin_ns, like.time_ns + 3 * S)
    assert other is not None
    draft.deliver(
        like, like.time_ns + S, [message_of(run, like)], process=other.process, node=other.node
    )


def _with_other_member(draft: Planting, span_ns: int) -> tuple[Delivery, Member]:
    """A delivery to an owner that keeps its queue for so long, and a member that does not have it."""
    run = draft.run
    like = draft.pick_delivery(
        lambda d: (
            keeps_queue(run, d, d.time_ns + span_ns)
            and other_member(run, d, d.begin_ns, d.time_ns + span_ns) is not None
        )
    )
    other = other_member(run, like, like.begin_ns, like.time_ns + span_ns)
    assert other is not None
    return like, other


@KINDS.mutation(
    "unowned_delivery",
    "every message of a queue is consumed by two members for 10 s or longer",
    workloads=CALM,
)
def queue_consumed_twice(draft: Planting) -> None:
    run = draft.run
    span_ns = 10 * S
    like, other = _with_other_member(draft, span_ns)
    for d in following(run, like, span_ns):
        if d.process == like.process and d.type == "ok":
            message = message_of(run, d)
            draft.deliver(d, d.time_ns + MS, [message], process=other.process, node=other.node)


@KINDS.mutation(
    "unowned_delivery",
    "for 8 s the messages of a queue go to a member that does not have it",
    workloads=without("broadcast", "request-reply", "forwarded", "retry"),
)
def queue_to_wrong_member(draft: Planting) -> None:
    run = draft.run
    span_ns = 8 * S
    like, other = _with_other_member(draft, span_ns)
    for d in following(run, like, span_ns):
        if d.process == like.process:
            for at in {d.begin, d.at}:
                draft.replace(at, process=other.process, node=other.node)


@KINDS.mutation(
    "unowned_delivery",
    "all deliveries of the run go to members that have none of the queues",
    workloads=without("broadcast", "request-reply", "forwarded", "retry"),
)
def all_to_wrong_members(draft: Planting) -> None:
    run = draft.run
    if not draft.is_of_site():
        raise NoSuchSite
    moved = 0
    for d in run.deliveries:
        if d.slot or not is_normal(run, d):
            continue
        other = other_member(run, d, d.begin_ns, d.time_ns)
        if other is not None:
            moved += 1
            for at in {d.begin, d.at}:
                draft.replace(at, process=other.process, node=other.node)
    if moved <= 50:
        raise NoSuchSite


@KINDS.mutation(
    "unknown_consumer",
    "a message goes to a process that never opened",
    workloads=without("forwarded", "request-reply"),
)
def to_process_never_opened(draft: Planting) -> None:
    like = draft.pick_delivery(lambda d: d.alone)
    for at in {like.begin, like.at}:
        draft.replace(at, process=140_000 + draft.rng.randrange(1000), node=like.node)


@KINDS.mutation(
    "delivery_after_exit",
    "a message goes to a process whose node was killed and started again",
    workloads=without("forwarded", "request-reply"),
)
def to_process_of_restarted_node(draft: Planting) -> None:
    dead = [m for m in draft.run.members if m.end_ns < draft.run.end_ns - 5 * S]
    if not dead:
        raise NoSuchSite
    like = draft.pick_delivery(
        lambda d: (
            d.alone and any(m.end_ns + 2 * S < d.begin_ns and m.group == d.group for m in dead)
        )
    )
    member = next(m for m in dead if m.end_ns + 2 * S < like.begin_ns and m.group == like.group)
    for at in {like.begin, like.at}:
        draft.replace(at, process=member.process, node=member.node)


@KINDS.mutation("unknown_consumer", "a message goes to a group that is not one of the run")
def to_unknown_group(draft: Planting) -> None:
    like = draft.pick_delivery()
    draft.deliver(like, like.time_ns, [message_of(draft.run, like)], group="group-of-no-one")


@KINDS.mutation(
    "unknown_consumer", "a message goes to a member of another group", workloads=("filtered",)
)
def to_member_of_other_group(draft: Planting) -> None:
    like = draft.pick_delivery(lambda d: d.alone)
    other = next(
        (
            m
            for m in draft.run.members
            if m.group != like.group and m.begin_ns < like.begin_ns < m.end_ns
        ),
        None,
    )
    if other is None:
        raise NoSuchSite
    for at in {like.begin, like.at}:
        draft.replace(at, process=other.process, node=other.node)
