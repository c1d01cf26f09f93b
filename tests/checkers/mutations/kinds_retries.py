"""Wrongs of retries and dead letters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.checkers.mutations.draft import Draft
from tests.checkers.mutations.events import BARE, Delivery
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.model import EVIDENCE, MS, NoSuchSite, Run, S
from tests.checkers.mutations.pick import message_of, nodes_of
from tests.checkers.mutations.planting import Planting

STORED = 4  # of a message's contents
# Kinds of fault after which a broker may not have flushed at once.
UNFLUSHED = ("slow_disk", "disk", "failing_disk", "pause", "broker_black", "power", "cluster_power")


def _failed(draft: Planting, fits: Any = lambda d: True) -> Delivery:
    """A delivery that its listener failed for, alone in its call, and that came again later."""
    run = draft.run
    return draft.choose(
        run.deliveries,
        lambda d: (
            d.type == "info"
            and d.alone
            and d.key in run.sends
            and draft.is_here(d.time_ns)
            and not run.is_explained(d.time_ns - S, d.time_ns + S, nodes_of(run, d), 20)
            and any(
                o.tries == d.tries + 1 and o.topic.startswith("%RETRY%") for o in run.by_key[d.key]
            )
            and fits(d)
        ),
    )


def _retries(run: Run, like: Delivery) -> list[Delivery]:
    return [
        d
        for d in run.by_key[like.key]
        if d.topic.startswith(("%RETRY%", "%DLQ%"))
        and d.group == like.group
        and d.tries > like.tries
    ]


@KINDS.mutation(
    "retry_unprovoked",
    "a message comes as a retry after its listener had succeeded",
    workloads=("retry",),
)
def retry_unprovoked(draft: Planting) -> None:
    run = draft.run
    like = draft.pick_single(lambda d: len(run.by_key[d.key]) == 1)
    other = draft.choose(
        run.deliveries,
        lambda d: (
            d.topic.startswith("%RETRY%") and d.group == like.group and d.time_ns > like.time_ns
        ),
    )
    message = message_of(run, like)
    draft.deliver(
        other,
        like.time_ns + 2 * S,
        [[message[0], 100_000, message[2] + 7, True, 1]],
        process=like.process,
        node=like.node,
    )


@KINDS.mutation("retry_early", "a retry comes 0.1 s after the failure", workloads=("retry",))
def retry_early(draft: Planting) -> None:
    like = _failed(draft)
    retry = next(
        (d for d in _retries(draft.run, like) if d.tries == like.tries + 1 and d.alone), None
    )
    if not retry or retry.topic.startswith("%DLQ%"):
        raise NoSuchSite
    back = [
        op
        for op in draft.run.ops
        if op.f == "send_back"
        and op.value["messages"][0][0] == like.key
        and op.time_ns >= like.time_ns
    ]
    draft.move_deliveries([retry], (back[0].time_ns if back else like.time_ns) + 100 * MS)


@KINDS.mutation(
    "unseen", "a message that its listener failed for never comes again", workloads=("retry",)
)
def retry_never_comes(draft: Planting) -> None:
    like = _failed(draft, lambda d: d.tries == 0 and draft.run.sends[d.key].type == "ok")
    _never_again(draft, like)


@KINDS.mutation(
    "unseen",
    "under async flush a message never comes again that was sent back 20 s before a power cut",
    workloads=("retry",),
)
def retry_gone_long_before_power_cut(draft: Planting) -> None:
    """Wherever nothing had kept the broker from flushing the copy at once."""
    run = draft.run
    cuts = [fault for fault in run.bitten() if fault.damage == "power"]
    like = draft.choose(
        run.deliveries,
        lambda d: (
            d.type == "info"
            and d.alone
            and d.tries == 0
            and d.key in run.sends
            and run.sends[d.key].type == "ok"
            and bool(_retries(run, d))
            and not run.is_explained(
                d.time_ns - S, d.time_ns + 5 * S, run.nodes_of_broker(d.broker), 5, UNFLUSHED
            )
            and any(
                fault.fired_ns is not None
                and fault.fired_ns > d.time_ns + 20 * S
                and set(run.nodes_of_broker(d.broker)[:1]) & set(fault.targets)
                for fault in cuts
            )
        ),
    )
    if draft.site != "fault":
        raise NoSuchSite
    _never_again(draft, like)
    timings = replace(run.facts.timings, flush_s=1.0)
    draft.facts = replace(run.facts, flush="async", replication="async", timings=timings)


def _never_again(draft: Planting, like: Delivery) -> None:
    """Take away all that followed of sending a message back the first time."""
    draft.drop_deliveries(_retries(draft.run, like))
    draft.drop_ops(
        lambda op: (
            op.f == "send_back"
            and op.value["messages"][0][0] == like.key
            and op.value["messages"][0][2] > 0
        )
    )


@KINDS.mutation(
    "retried_too_often", "a message comes as retry 7 where 5 are allowed", workloads=("retry",)
)
def retried_too_often(draft: Planting) -> None:
    run = draft.run
    most = max(run.facts.retries_max.values(), default=0)
    like = draft.choose(
        run.deliveries,
        lambda d: (
            d.topic.startswith("%RETRY%")
            and draft.is_here(d.time_ns)
            and d.tries == most
            and d.type == "info"
        ),
    )
    message = message_of(run, like)
    draft.deliver(like, run.end_ns - S, [[message[0], 100_001, message[2] + 9, True, most + 2]])


@KINDS.mutation("retry_unprovoked", "a first delivery says that it was tried 7 times before")
def tries_in_first_delivery(draft: Planting) -> None:
    run = draft.run
    if run.workload == "ordered":
        raise NoSuchSite  # an orderly listener is given the same message again
    like = draft.pick_single(
        lambda d: not run.is_explained(d.time_ns - 5 * S, d.time_ns, nodes_of(run, d), 20)
    )
    draft.set_field(like, 4, 7)


def _dead_letters(run: Run) -> list[Delivery]:
    return [d for d in run.deliveries if d.topic.startswith("%DLQ%")]


@KINDS.mutation(
    "duplicate_dead_letter", "the dead-letter queue holds a message twice", workloads=("retry",)
)
def dead_letter_twice(draft: Planting) -> None:
    """Not of a message with an unclear send-back: the client repeats it, and two dead letters are legal."""
    unclear = {
        row[0]
        for op in draft.run.ops
        if op.f == "send_back" and op.type != "invoke"
        if op.type != "ok" or op.value.get("copied") is not False
        for row in op.value["messages"]
    }
    like = draft.choose(
        _dead_letters(draft.run), lambda d: draft.is_of_site() and d.key not in unclear
    )
    messages = draft.messages(like)
    last = messages[-1]
    copy = [like.key, last[1] + 1, last[2] + 1000, *messages[like.slot][3:]]
    draft.set_messages(like, [*messages, copy])


@KINDS.mutation(
    "duplicate_dead_letter", "the dead-letter queue holds each message twice", workloads=("retry",)
)
def dead_letters_twice(draft: Planting) -> None:
    like = draft.choose(_dead_letters(draft.run), lambda d: draft.is_of_site())
    messages = draft.messages(like)
    end, low = messages[-1][1] + 1, messages[-1][2] + 1000
    copies = [[m[0], end + n, low + n * 700, *m[3:]] for n, m in enumerate(messages)]
    draft.set_messages(like, [*messages, *copies])


@KINDS.mutation("unseen", "a dead letter is missing from its queue", workloads=("retry",))
def dead_letter_missing(draft: Planting) -> None:
    run = draft.run
    dead = _dead_letters(run)
    like = draft.choose(
        dead,
        lambda d: (
            draft.is_of_site()
            and d.key in run.sends
            and run.sends[d.key].type == "ok"
            and sum(o.key == d.key for o in dead) == 1
            and not any(o.type == "ok" and o.topic != d.topic for o in run.by_key[d.key])
        ),
    )
    draft.drop_deliveries([like])


@KINDS.mutation(
    "premature_dead_letter",
    "a message becomes a dead letter after its first failure",
    workloads=("retry",),
)
def premature_dead_letter(draft: Planting) -> None:
    dead = _dead_letters(draft.run)
    like = _failed(draft, lambda d: d.tries == 0 and not any(o.key == d.key for o in dead))
    if not dead:
        raise NoSuchSite
    _never_again(draft, like)
    messages = draft.messages(dead[0])
    draft.set_messages(
        dead[0], [*messages, [like.key, messages[-1][1] + 1, messages[-1][2] + 1000, True, 1]]
    )


@KINDS.mutation(
    "unreadable_topic",
    "a broker refuses to give out a dead-letter topic after the run",
    workloads=("retry",),
)
def unreadable_topic(draft: Planting) -> None:
    tried = [op for op in draft.run.ops if op.f == "try_read" and op.type == "ok"]
    op = draft.choose(tried, lambda _: draft.is_of_site())
    draft.replace(op.index, type="fail", error="refused with code 16: no permission to read")


@KINDS.mutation(
    "retry_unprovoked",
    "a broker makes two retries of a message that was sent back once",
    workloads=("retry",),
)
def retried_twice(draft: Planting) -> None:
    """At rest: both are consumed, one behind the other."""
    run = draft.run
    retries = [d for d in run.deliveries if d.topic.startswith("%RETRY%")]
    last = {d.place: d for d in retries}
    like = draft.choose(retries, lambda d: d.type == "ok" and run.is_at("rest", 0, run.end_ns))
    if draft.site == "fault":
        raise NoSuchSite
    message = message_of(run, like)
    physical = max(d.physical for d in run.deliveries if d.broker == like.broker) + 5000
    behind = last[like.place]
    copy = [message[0], behind.offset + 1, physical, *message[3:5]]
    draft.deliver(like, behind.time_ns + MS, [copy], process=behind.process, node=behind.node)
    for at, op in draft.ops():
        if op.f == "drain" and op.value["topic"] == like.topic:
            rows = [
                [*row[:3], row[3] + 1, row[4] + 1] if row[:2] == [like.broker, like.queue] else row
                for row in op.value["queues"]
            ]
            draft.alter(at, queues=rows)


@KINDS.mutation(
    EVIDENCE,
    "the dead letters of a broker were not read to their end, and the last one is missing",
    workloads=("retry",),
    unknown_is_enough=True,
)
def dead_letters_unread(draft: Planting) -> None:
    dead = [d for d in draft.run.deliveries if d.topic.startswith("%DLQ%")]
    lasts = [d for d in dead if d.offset == max(o.offset for o in dead if o.place == d.place)]
    like = draft.choose(lasts, lambda _: draft.is_of_site())
    draft.drop_deliveries([like])
    for op in draft.run.ops:
        if op.f == "try_read" and (op.value["topic"], op.value["broker"]) == like.place[:2]:
            error = f"nothing came from offset {like.offset} on in 10 s"
            draft.replace(op.index, type="info", error=error)


@KINDS.mutation(
    EVIDENCE,
    "nothing says whether the dead letters of a broker can be read",
    workloads=("retry",),
    unknown_is_enough=True,
)
def dead_letters_untried(draft: Planting) -> None:
    tried = [op for op in draft.run.ops if op.f == "try_read"]
    op = draft.choose(tried, lambda _: draft.is_of_site())
    if "try_read" not in draft.run.facts.due:
        raise NoSuchSite
    draft.drop(op.index)


@KINDS.mutation(
    "misrouted", "a retry comes from the retry topic of another group", workloads=("retry",)
)
def retry_of_other_group(draft: Planting) -> None:
    like = draft.choose(
        draft.run.deliveries,
        lambda d: d.topic.startswith("%RETRY%") and d.alone and draft.is_here(d.time_ns),
    )
    for at in {like.begin, like.at}:
        draft.alter(at, topic="%RETRY%other-group")


@KINDS.mutation(
    "retry_unprovoked",
    "a retry comes, and the member that failed for it has not sent it back",
    workloads=("retry",),
)
def retry_never_sent_back(draft: Planting) -> None:
    like = _failed(draft, lambda d: draft.run.end_ns - d.time_ns > 60 * S)
    again = [like.key, like.tries]
    draft.drop_ops(lambda op: op.f == "send_back" and op.value["messages"][0][::2] == again)


@KINDS.mutation(
    "retry_unprovoked",
    "two retries of one step change places: each comes from the broker of the other one",
    workloads=("retry",),
)
def retries_of_other_brokers(draft: Planting) -> None:
    run = draft.run
    last = {
        key: d
        for key, d in _last_retries(run).items()
        if d.type == "ok" and _kept_by_broker(run, d)
    }
    one = draft.choose(list(last.values()), lambda d: draft.is_here(d.time_ns))
    other = draft.choose(
        list(last.values()),
        lambda d: (
            d.broker != one.broker and d.tries == one.tries and abs(d.time_ns - one.time_ns) < S
        ),
    )
    for retry, key in ((one, other.key), (other, one.key)):
        draft.set_field(retry, 0, key)


def _last_retries(run: Run) -> dict[str, Delivery]:
    """The last delivery of each message, if it was a retry alone in its call."""
    last = {key: of[-1] for key, of in run.by_key.items()}
    return {key: d for key, d in last.items() if d.topic.startswith("%RETRY%") and d.alone}


def _kept_by_broker(run: Run, retry: Delivery) -> bool:
    """Whether the broker that holds the message made the only copy for a retry, as the history says."""
    reports = [
        op.value.get("copied")
        for op in run.ops
        if op.f == "send_back" and op.type != "invoke"
        if op.value["messages"][0][::2] == [retry.key, retry.tries - 1]
    ]
    same = [d for d in run.by_key[retry.key] if d.tries == retry.tries]
    return reports == [False] and len(same) == 1


@KINDS.mutation(
    "late_delivery", "a retry, and all that follows of it, comes 40 s late", workloads=("retry",)
)
def retry_stalled(draft: Planting) -> None:
    run = draft.run
    like = _failed(
        draft,
        lambda d: (
            d.time_ns + 60 * S < run.end_ns
            and draft.is_here(d.time_ns, d.time_ns + 60 * S)
            and len(_retries(run, d)) == 1
        ),
    )
    [retry] = _retries(run, like)
    draft.move_deliveries([retry], retry.time_ns + 40 * S)


@KINDS.mutation(
    "late_delivery", "a broker moves a retry to its queue a second late", workloads=("retry",)
)
def retry_moved_late(draft: Planting) -> None:
    run = draft.run
    like = _failed(
        draft,
        lambda d: (
            d.time_ns + 20 * S < run.end_ns
            and not run.is_explained(d.time_ns - 15 * S, d.time_ns + 5 * S, nodes_of(run, d), 20)
            and len(_retries(run, d)) == 1
            and sum(op.f == "send_back" and op.value["messages"][0][0] == d.key for op in run.ops)
            == 1
        ),
    )
    [retry] = _retries(run, like)
    messages = Draft(run).messages(retry)
    row = messages[retry.slot]
    if retry.topic.startswith("%DLQ%") or len(row) <= BARE or row[BARE][STORED] is None:
        raise NoSuchSite
    moved = list(row[BARE])
    moved[STORED] += 1000
    draft.set_field(retry, BARE, moved)
    draft.move_deliveries([retry], retry.time_ns + S)
