"""Wrongs of consumer groups: who has which queue, and who subscribed to what."""

from __future__ import annotations

from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.model import (
    GROUPED,
    MS,
    NoSuchSite,
    S,
    Tenure,
    without,
)
from tests.checkers.mutations.pick import (
    following,
    is_settled,
    other_member,
    queues_at,
)
from tests.checkers.mutations.planting import Planting


def _long_tenure(draft: Planting, span_ns: int) -> tuple[Tenure, int] | None:
    """A tenure of a topic of the load, and a time in it that is followed by `span_ns` of it."""
    run = draft.run
    found = draft.choose(
        [
            t
            for t in run.tenures
            if t.topic in run.facts.topics and t.end_ns - t.begin_ns > span_ns + 2 * S
        ],
        lambda t: True,
    )
    for _ in range(20):
        begin_ns = draft.rng.randrange(found.begin_ns + S, found.end_ns - span_ns)
        nodes = (*run.nodes_of_broker(found.broker), found.node or "")
        if (
            begin_ns + span_ns < run.end_ns
            and draft.is_here(begin_ns, begin_ns + span_ns)
            and not run.is_explained(begin_ns, begin_ns + span_ns, nodes, 30)
        ):
            return found, begin_ns
    return None


@KINDS.mutation(
    "double_ownership",
    "a second member announces a queue that its owner keeps, for 25 s",
    workloads=GROUPED,
)
def double_ownership(draft: Planting) -> None:
    run = draft.run
    span_ns = 25 * S
    found = _long_tenure(draft, span_ns)
    if found is None:
        raise NoSuchSite
    tenure, begin_ns = found
    other = next(
        (
            m
            for m in run.members
            if m.group == tenure.group
            and m.process != tenure.process
            and m.begin_ns < begin_ns - S
            and m.end_ns > begin_ns + span_ns
            and not run.is_explained(begin_ns, begin_ns + span_ns, (m.node or "",), 30)
            and not any(
                op.f == "assign"
                and op.process == m.process
                and begin_ns <= op.time_ns <= begin_ns + span_ns
                for op in run.ops
            )
        ),
        None,
    )
    if other is None:
        raise NoSuchSite
    own = queues_at(run, other.process, tenure.group, tenure.topic, begin_ns)
    common = {"group": tenure.group, "topic": tenure.topic}
    more = sorted([*own, [tenure.broker, tenure.queue]])
    draft.event(begin_ns, other.process, "assign", other.node, **common, queues=more)
    draft.event(begin_ns + span_ns, other.process, "assign", other.node, **common, queues=own)


@KINDS.mutation(
    "queue_unowned",
    "an owner gives a queue up and no member has it for 25 s",
    workloads=without("broadcast", "forwarded", "request-reply", "retry"),
)
def queue_unowned(draft: Planting) -> None:
    run = draft.run
    span_ns = 25 * S
    found = _long_tenure(draft, span_ns + 6 * S)
    if found is None:
        raise NoSuchSite
    tenure, begin_ns = found
    end_ns = begin_ns + span_ns
    if any(
        op.f == "assign" and op.process == tenure.process and begin_ns <= op.time_ns <= end_ns
        for op in run.ops
    ):
        raise NoSuchSite
    own = queues_at(run, tenure.process, tenure.group, tenure.topic, begin_ns)
    common = {"group": tenure.group, "topic": tenure.topic}
    left = [queue for queue in own if queue != [tenure.broker, tenure.queue]]
    draft.event(begin_ns, tenure.process, "assign", tenure.node, **common, queues=left)
    draft.event(end_ns, tenure.process, "assign", tenure.node, **common, queues=own)
    place = (tenure.topic, tenure.broker, tenure.queue)
    waiting = [
        d
        for d in run.deliveries
        if d.group == tenure.group and d.place == place and begin_ns <= d.begin_ns <= end_ns
    ]
    if waiting:
        draft.move_deliveries(waiting, end_ns + MS)
        draft.clip_commits(
            tenure.group, place, min(d.offset for d in waiting), begin_ns, end_ns + S
        )


@KINDS.mutation(
    "uneven_shares",
    "for 35 s one member owns, consumes and commits all queues, and the others own none",
    workloads=without("broadcast", "ordered", "request-reply", "forwarded"),
)
def one_member_has_all(draft: Planting) -> None:
    """At rest only: near a fault members may disagree for long."""
    run = draft.run
    span_ns = 35 * S
    found = _long_tenure(draft, span_ns) if not run.facts.faults else None
    if found is None:
        raise NoSuchSite
    tenure, begin_ns = found
    end_ns = begin_ns + span_ns
    others = [m for m in run.members if m.group == tenure.group and m.process != tenure.process]
    if not others or any(op.f == "open" and op.time_ns >= begin_ns for op in run.ops):
        raise NoSuchSite
    common = {"group": tenure.group, "topic": tenure.topic}
    nodes = {tenure.process: tenure.node, **{m.process: m.node for m in others}}
    had = {
        process: queues_at(run, process, tenure.group, tenure.topic, end_ns) for process in nodes
    }
    for op in run.ops:
        if op.process in had and op.value.get("group") == tenure.group:
            if begin_ns <= op.time_ns <= end_ns and op.f == "assign":
                draft.drop(op.index)
            elif begin_ns <= op.time_ns <= end_ns:
                draft.replace(op.index, process=tenure.process, node=tenure.node)
    every = sorted(queue for queues in had.values() for queue in queues)
    for at_ns, of in ((begin_ns, {tenure.process: every}), (end_ns, had)):
        for process, node in reversed(nodes.items()):
            draft.event(at_ns, process, "assign", node, **common, queues=of.get(process, []))


@KINDS.mutation(
    "two_listeners",
    "two members of an orderly group have one queue in work at the same time",
    workloads=("ordered",),
)
def two_listeners(draft: Planting) -> None:
    run = draft.run
    like = draft.pick_single(
        lambda d: (
            is_settled(run, d, d.time_ns + 5 * S)
            and other_member(run, d, d.begin_ns, d.time_ns + 2 * S) is not None
        )
    )
    nexts = [
        d for d in following(run, like, 10 * S) if d.offset == like.offset + 1 and d.at != like.at
    ]
    other = other_member(run, like, like.begin_ns, like.time_ns + 2 * S)
    if not nexts or other is None or nexts[0].process != like.process or not nexts[0].alone:
        raise NoSuchSite
    for at in {nexts[0].begin, nexts[0].at}:
        draft.replace(at, process=other.process, node=other.node)
    draft.move(like.at, nexts[0].time_ns + 5 * MS)


@KINDS.mutation(
    "overlapping_owners",
    "a member of an orderly group is given a message between two calls of the owner",
    workloads=("ordered",),
)
def message_between_two_of_the_owner(draft: Planting) -> None:
    run = draft.run
    like = draft.pick_single(
        lambda d: (
            d.alone
            and is_settled(run, d, d.time_ns + 5 * S)
            and other_member(run, d, d.begin_ns, d.time_ns + 2 * S) is not None
        )
    )
    other = other_member(run, like, like.begin_ns, like.time_ns + 2 * S)
    if other is None:
        raise NoSuchSite
    for at in {like.begin, like.at}:
        draft.replace(at, process=other.process, node=other.node)


@KINDS.mutation(
    "subscriptions_differ", "a member subscribes to another expression than the rest of its group"
)
def other_subscription(draft: Planting) -> None:
    groups = [m.group for m in draft.run.members]
    member = draft.choose(
        draft.run.members, lambda m: draft.is_here(m.begin_ns) and groups.count(m.group) > 1
    )
    draft.alter(member.at, expression="TagX || TagY")


@KINDS.mutation(
    "subscriptions_differ",
    "a member consumes broadcasting where its group is clustering",
    workloads=GROUPED,
)
def other_model(draft: Planting) -> None:
    groups = [m.group for m in draft.run.members]
    member = draft.choose(
        draft.run.members, lambda m: draft.is_here(m.begin_ns) and groups.count(m.group) > 1
    )
    draft.alter(member.at, model="broadcasting")
