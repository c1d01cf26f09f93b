"""Wrongs of messages that are delivered: made up, failed, from elsewhere, damaged."""

from __future__ import annotations

from random import Random

from tests.checkers.mutations.draft import Draft
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.model import ANSWERED, Run, Site, without
from tests.checkers.mutations.pick import (
    is_delivered_once,
    outcome_unknown,
    pick_delivery,
    pick_sent,
    pick_single,
)


@KINDS.mutation("phantom", "a message that was never sent is delivered, in a place of its own")
def never_sent(run: Run, rng: Random, site: Site) -> Run:
    like = pick_delivery(run, rng, site)
    draft = Draft(run)
    draft.set_field(like, 0, f"p77777-{rng.randrange(1000)}")
    others = [d for d in run.by_key[like.key] if d.at != like.at]
    draft.drop_deliveries([d for d in others if d.topic == like.topic])
    sent = run.sends[like.key]
    if sent.type == "ok":  # what lay there was not acknowledged, either
        for at in {sent.begin, sent.at}:
            if at is not None and at in draft and draft[at].f == "send":
                draft.drop(at)
        draft.look_up(like.key, lambda row: None)
        draft.observe(
            lambda o: o["kind"] == "ack_durability" and o["key"] == like.key, lambda o: None
        )
    return draft.finish()


@KINDS.mutation(
    "aborted_read",
    "a message whose send definitely failed is delivered",
    workloads=without("batch", "bulk", "forwarded", *ANSWERED),
)
def failed_send_delivered(run: Run, rng: Random, site: Site) -> Run | None:
    sent = pick_sent(
        run,
        rng,
        site,
        lambda s: (
            s.type == "ok"
            and s.is_plain
            and s.at is not None
            and "batch" not in run.ops[s.at].value
            and is_delivered_once(run, s.key)
        ),
    )
    if sent.at is None:
        return None
    draft = Draft(run)
    outcome_unknown(draft, sent)
    draft.alter(sent.at, attempts=1)
    draft.replace(
        sent.at,
        type="fail",
        error="broker-a refused the message with code 14: the service is not available",
    )
    return draft.finish()


@KINDS.mutation(
    "misrouted",
    "a message is delivered from another queue than the one that acknowledged it",
    workloads=without("bulk", "forwarded"),
)
def delivered_from_other_queue(run: Run, rng: Random, site: Site) -> Run | None:
    like = pick_single(run, rng, site, lambda d: d.alone and run.sends[d.key].offset >= 0)
    draft = Draft(run)
    others = [
        (t.broker, t.queue)
        for t in run.tenures
        if t.process == like.process and t.queue != like.queue and t.topic == like.topic
    ]
    if not others:
        return None
    broker, queue = rng.choice(others)
    for at in {like.begin, like.at}:
        draft.alter(at, broker=broker, queue=queue)
    return draft.finish()


@KINDS.mutation(
    "misrouted",
    "a message is delivered from a topic that it was not sent to",
    workloads=without("bulk", "forwarded"),
)
def delivered_from_other_topic(run: Run, rng: Random, site: Site) -> Run:
    like = pick_single(run, rng, site, lambda d: d.alone)
    draft = Draft(run)
    for at in {like.begin, like.at}:
        draft.alter(at, topic="AnotherTopic")
    return draft.finish()


@KINDS.mutation("corrupt", "a body is not what was sent")
def body_damaged(run: Run, rng: Random, site: Site) -> Run:
    like = pick_delivery(run, rng, site)
    draft = Draft(run)
    draft.set_field(like, 3, False)
    return draft.finish()


@KINDS.mutation("corrupt", "a delivered body holds no readable key")
def body_without_key(run: Run, rng: Random, site: Site) -> Run:
    like = pick_single(run, rng, site, lambda d: run.workload not in ("forwarded", "request-reply"))
    draft = Draft(run)
    draft.set_field(like, 3, False)
    draft.set_field(like, 0, "")
    return draft.finish()
