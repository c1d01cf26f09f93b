"""Wrongs of messages that are delivered: made up, failed, from elsewhere, damaged."""

from __future__ import annotations

from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.model import ANSWERED, NoSuchSite, without
from tests.checkers.mutations.pick import (
    is_delivered_once,
    outcome_unknown,
)
from tests.checkers.mutations.planting import Planting


@KINDS.mutation("phantom", "a message that was never sent is delivered, in a place of its own")
def never_sent(draft: Planting) -> None:
    like = draft.pick_delivery()
    draft.set_field(like, 0, f"p77777-{draft.rng.randrange(1000)}")
    others = [d for d in draft.run.by_key[like.key] if d.at != like.at]
    draft.drop_deliveries([d for d in others if d.topic == like.topic])
    sent = draft.run.sends[like.key]
    if sent.type == "ok":  # what lay there was not acknowledged, either
        for at in {sent.begin, sent.at}:
            if at is not None and at in draft and draft[at].f == "send":
                draft.drop(at)
        draft.look_up(like.key, lambda row: None)
        draft.observe_ack(like.key, lambda o: None)


@KINDS.mutation(
    "aborted_read",
    "a message whose send definitely failed is delivered",
    workloads=without("batch", "bulk", "forwarded", *ANSWERED),
)
def failed_send_delivered(draft: Planting) -> None:
    sent = draft.pick_sent(
        lambda s: (
            s.type == "ok"
            and s.is_plain
            and s.at is not None
            and "batch" not in draft.run.ops[s.at].value
            and is_delivered_once(draft.run, s.key)
        )
    )
    if sent.at is None:
        raise NoSuchSite
    outcome_unknown(draft, sent)
    draft.alter(sent.at, attempts=1)
    draft.replace(
        sent.at,
        type="fail",
        error="broker-a refused the message with code 14: the service is not available",
    )


@KINDS.mutation(
    "misrouted",
    "a message is delivered from another queue than the one that acknowledged it",
    workloads=without("bulk", "forwarded"),
)
def delivered_from_other_queue(draft: Planting) -> None:
    like = draft.pick_single(lambda d: d.alone and draft.run.sends[d.key].offset >= 0)
    others = [
        (t.broker, t.queue)
        for t in draft.run.tenures
        if t.process == like.process and t.queue != like.queue and t.topic == like.topic
    ]
    if not others:
        raise NoSuchSite
    broker, queue = draft.rng.choice(others)
    for at in {like.begin, like.at}:
        draft.alter(at, broker=broker, queue=queue)


@KINDS.mutation(
    "misrouted",
    "a message is delivered from a topic that it was not sent to",
    workloads=without("bulk", "forwarded"),
)
def delivered_from_other_topic(draft: Planting) -> None:
    like = draft.pick_single(lambda d: d.alone)
    for at in {like.begin, like.at}:
        draft.alter(at, topic="AnotherTopic")


@KINDS.mutation("corrupt", "a body is not what was sent")
def body_damaged(draft: Planting) -> None:
    like = draft.pick_delivery()
    draft.set_field(like, 3, False)


@KINDS.mutation("corrupt", "a delivered body holds no readable key")
def body_without_key(draft: Planting) -> None:
    like = draft.pick_single(lambda d: draft.run.workload not in ("forwarded", "request-reply"))
    draft.set_field(like, 3, False)
    draft.set_field(like, 0, "")
