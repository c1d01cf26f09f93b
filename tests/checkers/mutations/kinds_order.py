"""Wrongs of the order in which a member gets messages: exchanged, held back, skipped, again."""

from __future__ import annotations

from tests.checkers.mutations.events import Delivery
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.model import CALM, MS, NoSuchSite, Run, S, without
from tests.checkers.mutations.pick import (
    following,
    is_delivered_once,
    is_settled,
    may_be_destroyed,
    message_of,
    only_delivery,
)
from tests.checkers.mutations.planting import Planting


def next_of(run: Run, d: Delivery) -> Delivery | None:
    """The delivery of the next offset, to the same member."""
    return next(
        (
            other
            for other in following(run, d, 5 * S)
            if other.process == d.process
            and other.offset == d.offset + 1
            and other.type == "ok"
            and other.at != d.at
        ),
        None,
    )


@KINDS.mutation(
    "out_of_order",
    "a member is given two messages of its queue in the wrong order",
    workloads=without("forwarded", "request-reply"),
)
def order_of_two_exchanged(draft: Planting) -> None:
    run = draft.run

    def fits(d: Delivery) -> bool:
        other = next_of(run, d) if d.alone and is_settled(run, d, d.time_ns + 5 * S) else None
        return (
            other is not None
            and other.alone
            and only_delivery(run, other.key, other.group) is not None
        )

    like = draft.pick_single(fits) if run.workload != "broadcast" else None
    if like is None:
        raise NoSuchSite
    other = next_of(run, like)
    assert other is not None
    first, second = draft.messages(like), draft.messages(other)
    sent = run.sends.get(other.key)
    if sent is None or sent.begin_ns > like.begin_ns:
        # The later message was not sent yet when the earlier one came: the earlier one comes later.
        draft.move_deliveries([like], other.time_ns + MS)
    else:
        draft.set_messages(like, second)
        draft.set_messages(other, first)
    draft.clip_commits(like.group, like.place, like.offset, like.begin_ns, other.time_ns + MS)


@KINDS.mutation(
    "out_of_order",
    "a message is held back 10 s behind an assignment that changed nothing",
    workloads=without("broadcast", "forwarded", "request-reply", "ordered"),
)
def held_back_behind_same_assignment(draft: Planting) -> None:
    _held_back(draft, "same")


@KINDS.mutation(
    "out_of_order",
    "a message is held back 10 s behind an assignment of another topic",
    workloads=without("broadcast", "forwarded", "request-reply", "ordered"),
)
def held_back_behind_other_topic(draft: Planting) -> None:
    _held_back(draft, "topic")


@KINDS.mutation(
    "out_of_order",
    "a message is held back 10 s, and its successors are not",
    workloads=without("broadcast", "forwarded", "request-reply", "ordered"),
)
def held_back(draft: Planting) -> None:
    _held_back(draft, "")


def _held_back(draft: Planting, behind: str) -> None:
    run = draft.run

    def fits(d: Delivery) -> bool:
        order_violated = any(
            o.process == d.process and o.offset > d.offset and o.at != d.at
            for o in following(run, d, 9 * S)
        )
        return order_violated and d.alone and is_settled(run, d, d.time_ns + 10 * S)

    like = draft.pick_single(fits)
    later_ns = like.time_ns + 10 * S
    draft.move_deliveries([like], later_ns)
    draft.clip_commits(like.group, like.place, like.offset, like.begin_ns, later_ns)
    if behind:
        topic = like.topic if behind == "same" else "%RETRY%" + like.group
        queues = sorted(
            [t.broker, t.queue]
            for t in run.tenures
            if t.process == like.process
            and t.topic == topic
            and t.begin_ns <= like.time_ns < t.end_ns - 6 * S
        )
        # One before the next message comes, one before this one does.
        for time_ns in (like.time_ns, later_ns - MS):
            draft.event(
                time_ns,
                like.process,
                "assign",
                like.node,
                group=like.group,
                topic=topic,
                queues=queues if behind == "same" else queues or [[like.broker, 0]],
            )


@KINDS.mutation(
    "poll_skip",
    "an owner is not given a message and goes on behind it; the offset is committed",
    workloads=CALM,
)
def owner_skips(draft: Planting) -> None:
    run = draft.run
    like = draft.pick_single(
        lambda d: (
            d.alone
            and run.sends[d.key].type == "ok"
            and is_delivered_once(run, d.key)
            and is_settled(run, d, d.time_ns + 5 * S)
        )
    )
    draft.drop_deliveries([like])


@KINDS.mutation(
    "int_poll_skip", "one call of a listener lacks a message between two others", workloads=CALM
)
def call_skips(draft: Planting) -> None:
    run = draft.run
    sizes: dict[int, int] = {}
    for d in run.deliveries:
        sizes[d.at] = max(sizes.get(d.at, 0), d.slot + 1)

    def fits(d: Delivery) -> bool:
        return (
            0 < d.slot < sizes[d.at] - 1
            and is_delivered_once(run, d.key)
            and run.sends[d.key].type == "ok"
            and not may_be_destroyed(run, d.broker, d.time_ns)
        )

    like = draft.pick_single(fits)
    draft.drop_deliveries([like])


@KINDS.mutation(
    "int_nonmonotonic_poll",
    "one call of a listener holds two messages in the wrong order",
    workloads=without("forwarded"),
)
def call_out_of_order(draft: Planting) -> None:
    like = draft.pick_delivery(lambda d: d.slot > 0)
    messages = draft.messages(like)
    messages[like.slot - 1 : like.slot + 1] = reversed(messages[like.slot - 1 : like.slot + 1])
    draft.set_messages(like, messages)


@KINDS.mutation(
    "nonmonotonic_poll",
    "an owner goes back by three messages that it had consumed and committed",
    workloads=CALM,
)
def owner_goes_back(draft: Planting) -> None:
    run = draft.run
    like = draft.pick_single(lambda d: d.alone and is_settled(run, d, d.time_ns + 6 * S))
    before = [
        d
        for d in run.deliveries
        if d.process == like.process
        and d.group == like.group
        and d.place == like.place
        and like.offset - 3 < d.offset <= like.offset
    ]
    draft.event(
        like.time_ns + MS,
        like.process,
        "commit",
        like.node,
        group=like.group,
        topic=like.topic,
        offsets=[[like.broker, like.queue, like.offset + 1]],
    )
    for n, d in enumerate(sorted(before, key=lambda d: d.offset)):
        draft.deliver(d, like.time_ns + 3 * S + n * MS, [message_of(run, d)])


@KINDS.mutation(
    "nonmonotonic_poll",
    "an owner is given an early message again, alone, and goes on where it was",
    workloads=CALM,
)
def owner_leaps_back(draft: Planting) -> None:
    run = draft.run
    later = {(d.process, d.group, d.place, d.offset) for d in run.deliveries}
    like = draft.pick_single(
        lambda d: (
            d.alone
            and is_settled(run, d, d.time_ns + 6 * S)
            and (d.process, d.group, d.place, d.offset + 1) in later
            and (d.process, d.group, d.place, d.offset - 5) in later
        )
    )
    early = next(
        d
        for d in run.deliveries
        if (d.process, d.group, d.place, d.offset)
        == (like.process, like.group, like.place, like.offset - 5)
    )
    draft.deliver(early, like.time_ns + 1, [message_of(run, early)])


@KINDS.mutation("int_nonmonotonic_poll", "a delivery is reported twice in one call", workloads=CALM)
def twice_in_one_call(draft: Planting) -> None:
    like = draft.pick_single(lambda d: is_settled(draft.run, d, d.time_ns + S))
    messages = draft.messages(like)
    messages.insert(like.slot, list(messages[like.slot]))
    draft.set_messages(like, messages)
