"""Wrongs of filters, and of transactions with half messages."""

from __future__ import annotations

from collections import Counter
from typing import Any

from staticfire.checkers.model.history import Op
from tests.checkers.mutations.events import BARE, Delivery, Sent
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.kinds_contents import STORED
from tests.checkers.mutations.model import MS, NoSuchSite, Run, S
from tests.checkers.mutations.pick import (
    following,
    is_normal,
    message_of,
)
from tests.checkers.mutations.planting import Planting


@KINDS.mutation(
    "unwanted_delivery",
    "a group is given a message that its filter does not take",
    workloads=("filtered",),
)
def unwanted_delivery(draft: Planting) -> None:
    run = draft.run
    like = draft.pick_single(lambda d: d.alone)
    wanted = run.facts.wanted_tags.get(like.group, ())
    other = draft.choose(
        [
            s
            for s in run.sends.values()
            if (s.broker, s.queue) == (like.broker, like.queue)
            and s.type == "ok"
            and run.ops[s.begin].value.get("tag") not in wanted
            and s.time_ns < like.begin_ns
            and s.offset == like.offset - 1
        ],
        lambda s: True,
    )
    message = message_of(run, like)
    draft.set_messages(like, [[other.key, other.offset, other.physical, *message[3:5]], message])


def _only_by(run: Run, group: str, key: str, *, first: bool) -> bool:
    """Whether one filter of a group that changes it takes a message, and the other does not."""
    before, now = run.facts.wanted_before.get(group, ()), run.facts.wanted_tags.get(group, ())
    tag = run.ops[run.sends[key].begin].value.get("tag")
    return (tag in before, tag in now) == (first, not first)


def _before_the_change(run: Run, delivery: Delivery, span_ns: int) -> bool:
    """Whether the group of a delivery changes its filter, and not so soon after it."""
    begins_ns = run.facts.filter_change_begins_ns
    return (
        begins_ns is not None
        and delivery.group in run.facts.filters_changed_ns
        and delivery.begin_ns + span_ns < begins_ns
    )


@KINDS.mutation(
    "unwanted_delivery",
    "before a group changes its filter it is given what only the next one takes",
    workloads=("filtered",),
)
def unwanted_yet(draft: Planting) -> None:
    run = draft.run
    like = draft.pick_single(lambda d: d.alone and _before_the_change(run, d, S))
    other = draft.choose(
        [
            s
            for s in run.sends.values()
            if (s.topic, s.broker, s.queue) == like.place
            and s.type == "ok"
            and s.time_ns < like.begin_ns
            and s.offset < like.offset
            and not any(d.group == like.group for d in run.by_key.get(s.key, ()))
        ],
        lambda s: _only_by(run, like.group, s.key, first=False),
    )
    message = message_of(run, like)
    draft.set_messages(like, [[other.key, other.offset, other.physical, *message[3:5]], message])


@KINDS.mutation(
    "poll_skip",
    "before a group changes its filter it passes over a message that only the first one takes",
    workloads=("filtered",),
)
def passed_before_the_change(draft: Planting) -> None:
    run = draft.run
    like = draft.pick_single(
        lambda d: (
            d.alone
            and _before_the_change(run, d, 5 * S)
            and run.sends[d.key].type == "ok"
            and _only_by(run, d.group, d.key, first=True)
            and _is_between(run, d)
        )
    )
    draft.drop_deliveries([like])


def _is_between(run: Run, delivery: Delivery) -> bool:
    """Whether its owner was given what lies before it, and goes on behind it within 5 s."""
    owner = delivery.process
    before = any(
        d.process == owner and d.offset < delivery.offset
        for d in run.deliveries
        if d.place == delivery.place
    )
    more = (d for d in following(run, delivery, 5 * S) if d.process == owner)
    return before and any(d.offset > delivery.offset for d in more)


def _transactions(draft: Planting, fits: Any) -> Sent:
    return draft.pick_sent(lambda s: "transaction" in draft.run.ops[s.begin].value and fits(s))


@KINDS.mutation(
    "rolled_back_visible",
    "a message that was rolled back is delivered",
    workloads=("transactional",),
)
def rolled_back_visible(draft: Planting) -> None:
    _made_visible(draft, "rollback")


@KINDS.mutation(
    "rolled_back_visible",
    "a message whose transaction was never decided is delivered",
    workloads=("transactional",),
)
def undecided_visible(draft: Planting) -> None:
    _made_visible(draft, "unknown")


def _made_visible(draft: Planting, end: str) -> None:
    """The message of a transaction with this end takes the place of one of a later, unknown send."""
    run = draft.run
    sent = _transactions(
        draft,
        lambda s: run.ops[s.begin].value["transaction"] == end and not run.by_key.get(s.key),
    )
    like = draft.choose(
        run.deliveries,
        lambda d: is_normal(run, d) and d.alone and sent.time_ns < d.time_ns < sent.time_ns + 5 * S,
    )
    message = message_of(run, like)
    draft.deliver(
        like, like.time_ns, [[sent.key, like.offset + 100_000, message[2] + 1, *message[3:5]]]
    )


@KINDS.mutation(
    "misrouted",
    "a consumer is given a half message from the topic of half messages",
    workloads=("transactional",),
)
def half_message_visible(draft: Planting) -> None:
    run = draft.run
    sent = _transactions(
        draft, lambda s: s.at is not None and "half_queue_offset" in run.ops[s.at].value
    )
    if sent.at is None:
        raise NoSuchSite
    like = draft.choose(
        run.deliveries,
        lambda d: (
            is_normal(run, d) and d.alone and d.broker == sent.broker and d.time_ns > sent.time_ns
        ),
    )
    value = run.ops[sent.at].value
    message = [sent.key, value["half_queue_offset"], value["stored_at"], True, 0]
    draft.deliver(
        like, sent.time_ns + 10 * MS, [message], topic="RMQ_SYS_TRANS_HALF_TOPIC", queue=0
    )


def _hide_answered(draft: Planting) -> Sent:
    """A transaction that its producer answered with commit, after its delivery was taken away."""
    run = draft.run
    asked = {
        op.value["key"] for op in run.ops if op.f == "check_back" and op.value["state"] == "commit"
    }
    sent = _transactions(draft, lambda s: s.key in asked and s.type == "info" and _once(run, s))
    draft.drop_deliveries(run.by_key[sent.key])
    return sent


@KINDS.mutation(
    "unresolved_transaction",
    "a transaction that was answered with commit is never seen",
    workloads=("transactional",),
)
def answered_commit_never_seen(draft: Planting) -> None:
    _hide_answered(draft)


@KINDS.mutation("lost", "a committed transaction is never seen", workloads=("transactional",))
def committed_never_seen(draft: Planting) -> None:
    sent = _transactions(draft, lambda s: s.type == "ok" and _once(draft.run, s))
    draft.drop_deliveries(draft.run.by_key[sent.key])


@KINDS.mutation(
    "unresolved_transaction",
    "the broker never asks for an undecided transaction, and it is never seen",
    workloads=("transactional",),
)
def never_asked(draft: Planting) -> None:
    sent = _hide_answered(draft)
    draft.drop_ops(lambda op: op.f == "check_back" and op.value["key"] == sent.key)


@KINDS.mutation(
    "unresolved_transaction",
    "a broker never asks for a transaction that its producer never decides",
    workloads=("transactional",),
)
def undecided_never_asked(draft: Planting) -> None:
    """At rest, and while producers are asked about others."""
    run = draft.run
    asked = [(op.value["key"], op.time_ns) for op in run.ops if op.f == "check_back"]

    def is_passed(sent: Sent) -> bool:
        until_ns = sent.time_ns + 25 * S
        nodes = (*run.nodes_of_broker(sent.broker or ""), *run.facts.producers)
        return (
            run.ops[sent.begin].value["transaction"] == "unknown"
            and any(key == sent.key for key, _ in asked)
            and any(key != sent.key and at_ns > until_ns for key, at_ns in asked)
            and not run.is_explained(sent.begin_ns - 10 * S, until_ns, nodes, 30)
        )

    sent = _transactions(draft, is_passed)
    draft.drop_ops(lambda op: op.f == "check_back" and op.value["key"] == sent.key)


@KINDS.mutation(
    "unresolved_transaction",
    "a broker asks for a transaction that its producer never decides 20 s late",
    workloads=("transactional",),
)
def asked_too_late(draft: Planting) -> None:
    """At rest, and while producers are asked about others."""
    run = draft.run
    checks = [op for op in run.ops if op.f == "check_back"]
    asked = {op.value["key"] for op in checks}
    last_ns = max((op.time_ns for op in checks), default=0)
    undecided = [
        sent
        for sent in run.sends.values()
        if sent.key in asked
        and run.ops[sent.begin].value.get("transaction") == "unknown"
        and "check_after_s" not in run.ops[sent.begin].value
    ]
    late_ns = 20 * S
    sent = draft.choose(
        undecided,
        lambda s: s.time_ns + late_ns < last_ns and run.is_at("rest", 0, s.time_ns + late_ns),
    )
    if draft.site == "fault":
        raise NoSuchSite
    for op in checks:
        if op.value["key"] == sent.key:
            draft.move(op.index, op.time_ns + late_ns)


def _once(run: Run, sent: Sent) -> bool:
    found = run.by_key.get(sent.key, [])
    return len(found) == 1 and is_normal(run, found[0])


@KINDS.mutation(
    "check_too_early",
    "a broker asks for a transaction 0.5 s after it began",
    workloads=("transactional",),
)
def check_too_early(draft: Planting) -> None:
    run = draft.run
    checks = [op for op in run.ops if op.f == "check_back" and op.value["key"] in run.sends]
    check = draft.choose(
        checks,
        lambda op: (
            draft.is_here(op.time_ns)
            and sum(o.value["key"] == op.value["key"] for o in checks) == 1
        ),
    )
    sent = run.sends[check.value["key"]]
    draft.move(check.index, min(sent.begin_ns + S // 2, check.time_ns))


@KINDS.mutation(
    "checked_too_often",
    "a broker asks for a transaction more often than it is configured to",
    workloads=("transactional",),
)
def checked_too_often(draft: Planting) -> None:
    checks = [op for op in draft.run.ops if op.f == "check_back"]
    check = draft.choose(checks, lambda op: draft.is_here(op.time_ns))
    times = draft.run.facts.check_max + 2
    for n in range(times):
        draft.event(
            check.time_ns + n * S,
            check.process,
            "check_back",
            check.node,
            **{**check.value, "times": n + 1, "state": "unknown"},
        )


def _one_check(draft: Planting) -> Op:
    """The only question about a transaction, which its producer answered, in one attempt."""
    run = draft.run
    checks = [op for op in run.ops if op.f == "check_back" and op.value["key"] in run.sends]
    counts = Counter(op.value["key"] for op in checks)
    return draft.choose(
        checks,
        lambda op: (
            draft.is_here(op.time_ns)
            and op.value["state"] in ("commit", "rollback")
            and counts[op.value["key"]] == 1
            and (at := run.sends[op.value["key"]].at) is not None
            and run.ops[at].value.get("attempts") == 1
        ),
    )


@KINDS.mutation(
    "unresolved_transaction",
    "a transaction is stored, and seen, 15 s after it was committed, and no broker asked",
    workloads=("transactional",),
)
def committed_stored_late(draft: Planting) -> None:
    run = draft.run
    asked = {op.value["key"] for op in run.ops if op.f == "check_back"}
    skewed = {node for f in run.facts.faults if f.kind.startswith("clock") for node in f.targets}

    def is_committed(sent: Sent) -> bool:
        if sent.type != "ok" or sent.key in asked or not _once(run, sent):
            return False
        given, nodes = run.by_key[sent.key][0], run.nodes_of_broker(sent.broker or "")
        sender = run.ops[sent.begin].node or ""
        return (
            given.alone
            and len(message_of(run, given)) > BARE
            and skewed.isdisjoint(nodes)
            and not run.is_explained(sent.begin_ns - 5 * S, sent.time_ns + 5 * S, (*nodes, sender))
        )

    sent = _transactions(draft, is_committed)
    if run.facts.wall_epoch_ms is None:
        raise NoSuchSite
    given, late_ns = run.by_key[sent.key][0], sent.time_ns + 15 * S
    contents = list(message_of(run, given)[BARE])
    contents[STORED] = run.facts.wall_epoch_ms + late_ns // MS
    draft.set_field(given, BARE, contents)
    draft.move_deliveries([given], late_ns + MS)


def _also_asked(draft: Planting, check: Op, after_ns: int, **value: Any) -> None:
    at_ns = check.time_ns + after_ns
    draft.event(at_ns, check.process, "check_back", check.node, **{**check.value, **value})


@KINDS.mutation(
    "checked_too_often",
    "a broker asks about a transaction again 5 s after the producer reported its end",
    workloads=("transactional",),
)
def checked_after_the_end(draft: Planting) -> None:
    _also_asked(draft, _one_check(draft), 5 * S, times=2)


@KINDS.mutation(
    "checked_too_often",
    "a broker asks for a transaction twice at once",
    workloads=("transactional",),
)
def checked_twice_at_once(draft: Planting) -> None:
    _also_asked(draft, _one_check(draft), MS)


@KINDS.mutation(
    "checked_too_often",
    "a broker asks for a transaction whose send has failed",
    workloads=("transactional",),
)
def checked_what_failed(draft: Planting) -> None:
    sent = _transactions(
        draft,
        lambda s: s.type == "fail" and draft.run.ops[s.begin].value["transaction"] == "commit",
    )
    asked = [op for op in draft.run.ops if op.f == "check_back"]
    if not asked:
        raise NoSuchSite
    value = {**asked[0].value, "key": sent.key, "times": 1, "state": "commit"}
    draft.event(sent.time_ns + 7 * S, asked[0].process, "check_back", asked[0].node, **value)


@KINDS.mutation(
    "checked_too_often",
    "a broker asks for a transaction that no producer has sent",
    workloads=("transactional",),
)
def checked_what_was_never_sent(draft: Planting) -> None:
    _also_asked(draft, _one_check(draft), MS, key="p77-123456")
