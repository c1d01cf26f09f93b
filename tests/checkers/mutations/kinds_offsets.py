"""Wrongs of how far a group is: commits and drains."""

from __future__ import annotations

from dataclasses import replace

from staticfire.checkers.guarantees.facts import FaultFacts, OffsetsReset
from staticfire.checkers.model.history import Op
from tests.checkers.mutations.draft import Draft
from tests.checkers.mutations.events import BARE, Delivery, messages_of
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.model import EVIDENCE, GROUPED, MS, NoSuchSite, Run, S, without
from tests.checkers.mutations.pick import (
    RESTARTS,
    is_settled,
    keeps_queue,
    message_of,
    other_member,
)
from tests.checkers.mutations.planting import Planting

SINGLE = without("bulk", "forwarded")  # ops of many messages hold no contents


def _committed(draft: Planting, spread: int = 5) -> Delivery:
    """A delivery in a settled tenure, some messages into its queue."""
    return draft.pick_delivery(
        lambda d: d.offset > spread and is_settled(draft.run, d, d.time_ns + 5 * S)
    )


def _commit(
    draft: Draft,
    like: Delivery,
    time_ns: int,
    offset: int,
    process: int | None = None,
    node: str | None = None,
) -> None:
    draft.event(
        time_ns,
        like.process if process is None else process,
        "commit",
        like.node if process is None else node,
        group=like.group,
        topic=like.topic,
        offsets=[[like.broker, like.queue, offset]],
    )


def _rewind(draft: Draft, like: Delivery, offset: int) -> None:
    """The owner commits this offset between two commits of the next one that it is to read."""
    _commit(draft, like, like.time_ns + MS, like.offset + 1)
    _commit(draft, like, like.time_ns + S, offset)
    _commit(draft, like, like.time_ns + 2 * S, like.offset + 1)


@KINDS.mutation(
    "commit_rewound",
    "an owner commits an offset some messages below what it had committed",
    workloads=GROUPED,
)
def owner_commits_lower(draft: Planting) -> None:
    like = _committed(draft)
    _rewind(draft, like, like.offset - 3)


@KINDS.mutation("commit_rewound", "an owner commits offset 0 far into the queue", workloads=GROUPED)
def owner_commits_zero(draft: Planting) -> None:
    _rewind(draft, _committed(draft), 0)


@KINDS.mutation("commit_rewound", "an owner commits an offset below 0", workloads=GROUPED)
def owner_commits_below_zero(draft: Planting) -> None:
    _rewind(draft, _committed(draft), -1)


@KINDS.mutation(
    "duplicate_unexplained",
    "a member takes a queue over, the master tells it three messages less than were committed, and it gets them again",
    workloads=GROUPED,
)
def master_forgets_offset(draft: Planting) -> None:
    run = draft.run
    begins = [op for op in run.ops if op.f == "begin" and op.value.get("broker_id") == 0]
    begun = draft.choose(begins, lambda op: draft.is_here(op.time_ns) and bool(_known(run, op)))
    again = _known(run, begun)
    draft.alter(begun.index, offset=again[0].offset)
    for n, delivery in enumerate(again, 1):
        draft.deliver(
            delivery,
            begun.time_ns + n * MS,
            [message_of(run, delivery)],
            process=begun.process,
            node=begun.node,
        )


@KINDS.mutation(
    "duplicate_unexplained",
    "a member takes a queue over, and gets the last three messages below the offset that the broker reported to it",
    workloads=GROUPED,
)
def member_begins_lower(draft: Planting) -> None:
    run = draft.run
    begins = [op for op in run.ops if op.f == "begin" and (op.value.get("offset") or 0) >= 3]
    begun = draft.choose(begins, lambda op: draft.is_here(op.time_ns) and _is_taken_over(run, op))
    for n, delivery in enumerate(_below(run, begun), 1):
        message = [message_of(run, delivery)]
        at_ns = begun.time_ns + n * MS
        draft.deliver(delivery, at_ns, message, process=begun.process, node=begun.node)


@KINDS.mutation(
    "reset_ignored",
    "a broker says that it has sent the group of a settled member back, and the member goes on",
    workloads=GROUPED,
)
def member_ignores_reset(draft: Planting) -> None:
    run = draft.run
    like = draft.pick_single(lambda d: is_settled(run, d, d.time_ns + 5 * S, any_fault=True))
    reset = OffsetsReset(
        group=like.group,
        topic=like.topic,
        stream=like.broker,
        asked_ns=like.time_ns + S,
        answered_ns=like.time_ns + S + MS,
    )
    _reset(draft, reset)


def _stored_ms(run: Run, delivery: Delivery) -> int | None:
    message = messages_of(run.ops[delivery.begin].value)[delivery.slot]
    stored_ms: int | None = message[BARE][4] if len(message) > BARE else None
    return stored_ms


@KINDS.mutation(
    "wrong_time_search",
    "a broker is asked to send a group back to the time of a message, and answers an offset three below",
    workloads=SINGLE,
)
def reset_leads_too_far_back(draft: Planting) -> None:
    """Not of a broker whose clock was wrong, or one of whose records was changed."""
    run = draft.run
    wrong = {
        node
        for fault in run.facts.faults
        if {"clock", "rots"} & set(fault.effects)
        for node in fault.targets
    }
    like = draft.pick_single(
        lambda d: d.offset > 3 and wrong.isdisjoint(run.nodes_of_broker(d.broker)),
        local=True,
    )
    below = next(
        (d for d in run.deliveries if (d.place, d.offset) == (like.place, like.offset - 2)), None
    )
    times = [None if d is None else _stored_ms(run, d) for d in (below, like)]
    if times[0] is None or times[1] is None or times[0] >= times[1]:
        raise NoSuchSite
    reset = OffsetsReset(
        group=like.group,
        topic=like.topic,
        stream=like.broker,
        asked_ns=like.time_ns + S,
        answered_ns=like.time_ns + S + MS,
        offsets=((like.queue, like.offset + 1),),  # so that nothing must come again
        time_ms=times[1],
        answers=((like.queue, like.offset - 3),),
        committed=((like.queue, like.offset + 1),),
    )
    _reset(draft, reset)


def _reset(draft: Planting, reset: OffsetsReset) -> None:
    fault = FaultFacts(
        fault_id="planted",
        kind="offsets_reset",
        targets=(),
        fired_ns=reset.asked_ns,
        bitten_ns=reset.answered_ns,
        healed_ns=reset.answered_ns,
        resets=(reset,),
    )
    draft.facts = replace(draft.run.facts, faults=(*draft.run.facts.faults, fault))


def _known(run: Run, begun: Op) -> list[Delivery]:
    """The last three messages below where a member begins, if their owner pulled on long after they were committed."""
    value, last = begun.value, _below(run, begun)
    place, offset = (value["topic"], value["broker"], value["queue"]), value.get("offset") or 0
    owners = {d.process for d in last}
    if len(last) != 3 or len(owners) != 1 or begun.process in owners:
        return []
    # Commits are sent every 5 s: with the third one the first has been followed by answers to pulls.
    commits = [
        op
        for op in run.ops[last[-1].at : begun.index]
        if op.f == "commit" and op.process in owners and op.value["group"] == value["group"]
        if [value["broker"], value["queue"], offset] in op.value["offsets"]
    ]
    nodes = run.nodes_of_broker(value["broker"])
    if len(commits) < 3 or run.is_explained(last[0].begin_ns, begun.time_ns, nodes, 10.0, RESTARTS):
        return []
    if not all(
        d.offset >= offset for d in run.deliveries if d.at > begun.index and d.place == place
    ):
        return []
    return last


def _below(run: Run, begun: Op) -> list[Delivery]:
    """The earlier deliveries to the group of the last three messages below the offset that a broker reported."""
    value = begun.value
    place, offset = (value["topic"], value["broker"], value["queue"]), value.get("offset") or 0
    return [
        d
        for d in run.deliveries
        if (d.place, d.group) == (place, value["group"]) and d.time_ns < begun.time_ns
        if offset - 3 <= d.offset < offset
    ]


def _is_taken_over(run: Run, begun: Op) -> bool:
    """Whether another member has consumed what lies right below, and no fault sends a member back there."""
    last = _below(run, begun)
    if len(last) != 3 or any(d.type != "ok" or d.process == begun.process for d in last):
        return False
    nodes = run.nodes_of_broker(begun.value["broker"])
    return not run.is_explained(last[0].begin_ns, begun.time_ns + S, nodes, 10.0, RESTARTS)


def _foreign_commit(draft: Planting, offset: int) -> None:
    run = draft.run
    like = draft.pick_delivery(
        lambda d: (
            d.offset > 5
            and keeps_queue(run, d, d.time_ns + 5 * S)
            and other_member(run, d, d.begin_ns, d.time_ns + 3 * S) is not None
        )
    )
    other = other_member(run, like, like.begin_ns, like.time_ns + 3 * S)
    if other is None:
        raise NoSuchSite
    _commit(draft, like, like.time_ns + MS, like.offset + 1)
    _commit(
        draft,
        like,
        like.time_ns + S,
        offset if offset < 2 else like.offset - 3,
        other.process,
        other.node,
    )


@KINDS.mutation(
    "unowned_commit",
    "a member that does not have the queue sets the group's offset back to 0",
    workloads=GROUPED,
)
def other_member_commits_0(draft: Planting) -> None:
    _foreign_commit(draft, 0)


@KINDS.mutation(
    "unowned_commit",
    "a member that does not have the queue sets the group's offset back to 1",
    workloads=GROUPED,
)
def other_member_commits_1(draft: Planting) -> None:
    _foreign_commit(draft, 1)


@KINDS.mutation(
    "unowned_commit",
    "a member that does not have the queue sets the group's offset below 0",
    workloads=GROUPED,
)
def other_member_commits_below_0(draft: Planting) -> None:
    _foreign_commit(draft, -1)


@KINDS.mutation(
    "unowned_commit",
    "a member that does not have the queue sets the group's offset three messages back",
    workloads=GROUPED,
)
def other_member_commits_lower(draft: Planting) -> None:
    _foreign_commit(draft, 3)


@KINDS.mutation(
    "unowned_commit", "a process that never opened commits an offset of 0", workloads=GROUPED
)
def stranger_commits(draft: Planting) -> None:
    like = _committed(draft)
    _commit(draft, like, like.time_ns + S, 0, 140_000, "consumer-99")


@KINDS.mutation(
    "commit_ahead", "an owner commits twenty messages that it has not been given", workloads=GROUPED
)
def commit_ahead(draft: Planting) -> None:
    run = draft.run
    last: dict[tuple[str, str, int], int] = {}
    for sent in run.sends.values():
        last[sent.topic, sent.broker or "", sent.queue] = max(
            last.get((sent.topic, sent.broker or "", sent.queue), 0), sent.offset
        )
    like = draft.pick_delivery(
        lambda d: d.offset + 25 < last.get(d.place, 0) and is_settled(run, d, d.time_ns + 3 * S)
    )
    ahead = [
        d
        for d in run.deliveries
        if d.place == like.place and d.group == like.group and d.offset == like.offset + 20
    ]
    if not ahead or ahead[0].begin_ns <= like.time_ns + MS:
        raise NoSuchSite
    _commit(draft, like, like.time_ns + MS, like.offset + 21)


@KINDS.mutation("commit_ahead", "an owner commits beyond the end of its queue", workloads=GROUPED)
def commit_far_ahead(draft: Planting) -> None:
    like = _committed(draft, 0)
    _commit(draft, like, like.time_ns + MS, 10_000_000)


def _drain_row(draft: Planting) -> tuple[Op, int]:
    rows = [
        (op, n)
        for op in draft.run.ops
        if op.f == "drain" and op.type == "ok"
        for n, row in enumerate(op.value["queues"])
        if row[3] > row[2]
    ]
    return draft.choose(rows, lambda row: draft.is_of_site())


@KINDS.mutation(
    "commit_late",
    "an owner goes on for twelve seconds after it has finished a message, and commits nothing of the queue",
    workloads=GROUPED,
)
def owner_commits_nothing(draft: Planting) -> None:
    run = draft.run
    like = draft.pick_delivery(
        lambda d: is_settled(run, d, d.time_ns + 12 * S, any_fault=True) and _reports(run, d)
    )
    for op in run.ops[like.at :]:
        if op.f != "commit" or op.process != like.process or op.time_ns > like.time_ns + 12 * S:
            continue
        if (op.value["group"], op.value["topic"]) != (like.group, like.topic):
            continue
        rows = [list(row) for row in op.value["offsets"] if row[:2] != [like.broker, like.queue]]
        if rows:
            draft.alter(op.index, offsets=rows)
        else:
            draft.drop(op.index)


def _reports(run: Run, like: Delivery) -> bool:
    """Whether the group of a delivery reports to which brokers it commits."""
    return any(op.f == "commit_to" and op.value["group"] == like.group for op in run.ops)


@KINDS.mutation(
    "commit_beyond_end",
    "at the drain the offset of a group is higher than its queue is long",
    workloads=GROUPED,
)
def drained_beyond_end(draft: Planting) -> None:
    _drained(draft, +draft.rng.choice((1, 50)))


@KINDS.mutation(
    "commit_behind",
    "the drain says that nothing is left, and an offset is below the end",
    workloads=GROUPED,
)
def drained_behind(draft: Planting) -> None:
    _drained(draft, -1)


def _drained(draft: Planting, more: int) -> None:
    found = _drain_row(draft)
    op, n = found
    rows = [list(row) for row in op.value["queues"]]
    rows[n][4] += more
    draft.alter(op.index, queues=rows)


@KINDS.mutation(
    "lost_from_log",
    "at the drain a queue is two messages shorter than what was acknowledged and consumed",
    workloads=GROUPED,
)
def drained_short(draft: Planting) -> None:
    ends: dict[tuple[str, str, int], tuple[int, str]] = {}
    for sent in draft.run.sends.values():
        place = (sent.topic, sent.broker or "", sent.queue)
        if sent.type == "ok" and sent.offset >= ends.get(place, (-1, ""))[0]:
            ends[place] = (sent.offset, sent.key)
    found = _drain_row(draft)
    op, n = found
    row = list(op.value["queues"][n])
    last = ends.get((op.value["topic"], row[0], row[1]))
    if last is None or last[0] != row[3] - 1:
        raise NoSuchSite
    for other in draft.run.ops:
        if other.f == "drain" and other.value.get("topic") == op.value["topic"]:
            rows = [list(r) for r in other.value["queues"]]
            for r in rows:
                if r[:2] == row[:2]:
                    r[3] -= 2
                    r[4] = min(r[4], r[3])
            draft.alter(other.index, queues=rows)
    draft.look_up(last[1], lambda r: [*r[:3], False, False, False])


@KINDS.mutation(
    "lost_from_log",
    "a broker has deleted what it acknowledged first in a queue, minutes old, and says so everywhere",
    workloads=GROUPED,
)
def deleted_early(draft: Planting) -> None:
    run = draft.run
    found = _drain_row(draft)
    if not run.facts.kept_s:
        raise NoSuchSite
    op, n = found
    topic, (broker, queue, low, end, _) = op.value["topic"], op.value["queues"][n]
    first = min(low + draft.rng.randint(1, 20), end)
    gone = [
        sent
        for sent in run.sends.values()
        if (sent.topic, sent.broker, sent.queue) == (topic, broker, queue)
        and sent.type == "ok"
        and low <= sent.offset < first
    ]
    if topic not in run.facts.topics or not gone or _was_full(run, broker):
        raise NoSuchSite
    for other in run.ops:
        if other.f == "drain" and other.value.get("topic") == topic:
            rows = [
                [*r[:2], first, *r[3:]] if r[:2] == [broker, queue] else list(r)
                for r in other.value["queues"]
            ]
            draft.alter(other.index, queues=rows)
    for sent in gone:
        draft.look_up(sent.key, lambda r: [*r[:3], False, False, False])
    for other in run.ops:
        if (
            other.f == "look_up"
            and (other.value["topic"], other.value.get("broker")) == (topic, broker)
            and "first_offsets" in other.value
        ):
            kept = [list(r) for r in other.value["first_offsets"] if r[0] != queue]
            draft.alter(other.index, first_offsets=[*kept, [queue, first]])


def _was_full(run: Run, broker: str) -> bool:
    """Whether a disk of a broker was full some time."""
    nodes = run.facts.replica_sets.get(broker, ())
    return any(
        fault.kind == "disk_full" and not set(nodes).isdisjoint(fault.targets)
        for fault in run.bitten()
    )


@KINDS.mutation("not_drained", "a group does not reach the end of a queue", workloads=GROUPED)
def not_drained(draft: Planting) -> None:
    found = _drain_row(draft)
    op, n = found
    rows = [list(row) for row in op.value["queues"]]
    rows[n][4] -= 1
    draft.alter(op.index, queues=rows, lag=1)
    draft.replace(op.index, type="info", error="not drained in 180 s")


@KINDS.mutation(
    EVIDENCE, "there is no drain of a group at all", workloads=GROUPED, unknown_is_enough=True
)
def drain_missing(draft: Planting) -> None:
    if not draft.is_of_site():
        raise NoSuchSite
    draft.drop_ops(lambda op: op.f == "drain")
