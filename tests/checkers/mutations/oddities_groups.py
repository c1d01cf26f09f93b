"""Legal oddities of deliveries, groups and offsets."""

from __future__ import annotations

from dataclasses import replace

from staticfire.checkers.model.history import Op
from tests.checkers.mutations.events import CONSUMED, Delivery
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.model import (
    MS,
    PLAIN,
    NoSuchSite,
    Run,
    S,
    Tenure,
    without,
)
from tests.checkers.mutations.oddities_sends import time_at
from tests.checkers.mutations.pick import (
    is_normal,
    is_settled,
    message_of,
    queues_at,
)
from tests.checkers.mutations.planting import Planting


@KINDS.oddity(
    "what a listener failed for and what could not be sent back comes again to the same member",
    workloads=PLAIN,
)
def again_after_failure(draft: Planting) -> None:
    run = draft.run
    if run.workload in ("ordered", "broadcast"):
        raise NoSuchSite
    like = draft.pick_single(lambda d: d.alone and is_settled(run, d, d.time_ns + 6 * S))
    message = message_of(run, like)
    draft.replace(like.at, type="info", error="the listener failed")
    draft.insert(
        Op(
            index=0,
            time_ns=like.time_ns + 10 * MS,
            process=like.process,
            type="info",
            f="send_back",
            value={
                "group": like.group,
                "topic": like.topic,
                "broker": like.broker,
                "queue": like.queue,
                "messages": [[like.key, like.offset, like.tries]],
            },
            error="no answer in 3 s",
            node=like.node,
        )
    )
    message[4] += 1
    draft.deliver(like, like.time_ns + 5 * S, [message])
    draft.clip_commits(like.group, like.place, like.offset, like.begin_ns, like.time_ns + 5 * S)


@KINDS.oddity(
    "a listener may take its time; the group's offset waits for it",
    workloads=without("ordered", "broadcast", "forwarded", "request-reply"),
)
def slow_listener(draft: Planting) -> None:
    like = draft.pick_single(lambda d: d.alone and is_settled(draft.run, d, d.time_ns + 6 * S))
    draft.move(like.at, like.time_ns + 4 * S)
    draft.clip_commits(like.group, like.place, like.offset, like.begin_ns, like.time_ns + 4 * S)


def _handover(draft: Planting) -> tuple[Tenure, Tenure]:
    """A queue that one member had, and then another one soon after."""
    run = draft.run
    pairs = [
        (old, new)
        for new in run.tenures
        for old in run.tenures
        if (old.group, old.topic, old.broker, old.queue)
        == (new.group, new.topic, new.broker, new.queue)
        and old.process != new.process
        and old.begin_ns < new.begin_ns - 2 * S
        and abs(new.begin_ns - old.end_ns) < 20 * S
        and new.begin_ns < run.end_ns - 2 * S
        and new.end_ns > new.begin_ns + 2 * S
    ]
    return draft.choose(
        pairs, lambda pair: pair[0].topic in run.facts.topics and draft.is_here(pair[1].begin_ns)
    )


def _uncommitted(run: Run, old: Tenure, new: Tenure) -> Delivery | None:
    """The last message that the old owner consumed, if no commit before the handover covers it."""
    place = (old.topic, old.broker, old.queue)
    read = [
        d
        for d in run.deliveries
        if d.process == old.process
        and d.group == old.group
        and d.place == place
        and d.time_ns < new.begin_ns
    ]
    if not read or not is_normal(run, read[-1]):
        return None
    last = read[-1]
    for op in run.ops:
        if (
            op.f == "commit"
            and op.value["group"] == old.group
            and op.value["topic"] == old.topic
            and op.time_ns <= new.begin_ns
        ) and any(
            row[:2] == [old.broker, old.queue] and row[2] > last.offset
            for row in map(list, op.value["offsets"])
        ):
            return None
    first = next(
        (
            d
            for d in run.deliveries
            if d.process == new.process and d.place == place and d.begin_ns >= new.begin_ns
        ),
        None,
    )
    return last if first is not None and first.offset > last.offset else None


@KINDS.oddity(
    "a new owner begins at the committed offset, so it is given what was not committed",
    workloads=without("broadcast", "forwarded", "request-reply", "ordered"),
)
def again_after_handover(draft: Planting) -> None:
    pair = _handover(draft)
    last = _uncommitted(draft.run, *pair) if pair else None
    if pair is None or last is None:
        raise NoSuchSite
    draft.deliver(
        last,
        pair[1].begin_ns,
        [message_of(draft.run, last)],
        process=pair[1].process,
        node=pair[1].node,
    )


@KINDS.oddity(
    "a call of a listener that never ends proves nothing",
    workloads=without("forwarded", "request-reply"),
)
def failed_call_never_ends(draft: Planting) -> None:
    calls = [op for op in draft.run.ops if op.f in CONSUMED and op.type == "info"]
    call = draft.choose(calls, lambda op: draft.is_here(op.time_ns))
    if draft.run.workload in ("retry", "ordered"):
        raise NoSuchSite
    draft.drop(call.index)


@KINDS.oddity("a second group gets everything too, at its own time", workloads=PLAIN)
def a_second_group(draft: Planting) -> None:
    if not draft.is_of_site():
        raise NoSuchSite
    draft.widen()


@KINDS.oddity(
    "a member may join and leave before the queues are shared out anew",
    workloads=without("broadcast", "filtered"),  # there a group may have changed its filter
)
def member_comes_and_goes(draft: Planting) -> None:
    run = draft.run
    time_ns = time_at(draft, 2 * S)
    member = draft.choose(run.members, lambda m: True)
    if time_ns is None or run.facts.gap_max_s is not None:
        raise NoSuchSite
    draft.event(time_ns, 170_000, "open", "consumer-77", **run.ops[member.at].value)
    draft.event(
        time_ns + S,
        170_000,
        "assign",
        "consumer-77",
        group=member.group,
        topic=member.topic,
        queues=[],
    )
    draft.facts = replace(draft.facts, consumers=(*draft.facts.consumers, "consumer-77"))


@KINDS.oddity(
    "two members may both believe for a moment that they have a queue that changes hands",
    workloads=without("broadcast"),
)
def owners_overlap_briefly(draft: Planting) -> None:
    run = draft.run
    pair = _handover(draft)
    give_up = [
        op
        for op in run.ops
        if op.f == "assign" and op.process == pair[0].process and op.time_ns == pair[0].end_ns
    ]
    after = [
        op
        for op in run.ops
        if op.process == pair[0].process and op.time_ns > pair[0].end_ns and op.f == "assign"
    ]
    if (
        not give_up
        or run.workload == "ordered"
        or (after and after[0].time_ns < pair[0].end_ns + S)
    ):
        raise NoSuchSite
    for op in give_up:
        draft.move(op.index, pair[0].end_ns + S)


@KINDS.oddity("an assignment may be announced again")
def same_assignment_again(draft: Planting) -> None:
    run = draft.run
    tenure = draft.choose(
        [t for t in run.tenures if t.topic in run.facts.topics and t.end_ns - t.begin_ns > 3 * S],
        lambda t: True,
    )
    time_ns = draft.rng.randrange(tenure.begin_ns + S, tenure.end_ns - S)
    if not draft.is_here(time_ns):
        raise NoSuchSite
    queues = queues_at(run, tenure.process, tenure.group, tenure.topic, time_ns)
    draft.event(
        time_ns,
        tenure.process,
        "assign",
        tenure.node,
        group=tenure.group,
        topic=tenure.topic,
        queues=queues,
    )


def _commit(draft: Planting) -> Op | None:
    return draft.choose(
        [op for op in draft.run.ops if op.f == "commit"], lambda op: draft.is_here(op.time_ns)
    )


@KINDS.oddity("a commit may be repeated")
def commit_repeated(draft: Planting) -> None:
    op = _commit(draft)
    if op is None:
        raise NoSuchSite
    draft.insert(replace(op, time_ns=op.time_ns + MS))


@KINDS.oddity("a commit may be out of date by what was consumed meanwhile")
def commit_out_of_date(draft: Planting) -> None:
    run = draft.run
    op = _commit(draft)
    if op is None:
        raise NoSuchSite
    before: dict[tuple[str, int], int] = {}
    for other in run.ops[: op.index]:
        if other.f == "commit" and (other.value["group"], other.value["topic"]) == (
            op.value["group"],
            op.value["topic"],
        ):
            before.update({(row[0], row[1]): row[2] for row in other.value["offsets"]})
    rows = [
        [row[0], row[1], max(before.get((row[0], row[1]), 0), row[2] - 2)]
        for row in op.value["offsets"]
    ]
    following = [
        o
        for o in run.ops[op.index + 1 :]
        if o.f == "commit" and o.process == op.process and o.value["topic"] == op.value["topic"]
    ]
    if not following or run.is_explained(
        op.time_ns - 10 * S, op.time_ns + 10 * S, (op.node or "",)
    ):
        raise NoSuchSite  # a new owner would begin there
    kept = {(row[0], row[1]) for row in following[0].value["offsets"]}
    rows = [
        row if (row[0], row[1]) in kept else list(old)
        for row, old in zip(rows, op.value["offsets"], strict=True)
    ]
    draft.alter(op.index, offsets=rows)


@KINDS.oddity("a client need not report its commits", workloads=without("broadcast"))
def no_commits(draft: Planting) -> None:
    _without_ops(draft, "commit", "commit_to")


@KINDS.oddity("a client need not report its assignments")
def no_assignments(draft: Planting) -> None:
    _without_ops(draft, "assign")


def _without_ops(draft: Planting, *names: str) -> None:
    if not draft.is_of_site():
        raise NoSuchSite
    draft.drop_ops(lambda op: op.f in names)


@KINDS.oddity("a drain that was not done yet is asked again")
def drain_asked_twice(draft: Planting) -> None:
    op = next((op for op in draft.run.ops if op.f == "drain" and op.type == "ok"), None)
    if op is None or not draft.is_of_site():
        raise NoSuchSite
    rows = [[*row[:4], max(row[2], row[4] - 1)] for row in op.value["queues"]]
    lag = sum(row[3] - row[4] for row in rows)
    early = replace(
        op,
        time_ns=op.time_ns,
        type="info",
        error="not drained yet",
        value={**op.value, "queues": rows, "lag": lag},
    )
    draft.insert(early, after=op.index - 1)


@KINDS.oddity("a broker that is not back yet is probed again")
def probe_fails_first(draft: Planting) -> None:
    op = next((op for op in draft.run.ops if op.f == "probe" and op.type == "ok"), None)
    if op is None or not draft.is_of_site():
        raise NoSuchSite
    draft.insert(replace(op, type="fail", error="cannot connect"), after=op.index - 1)
