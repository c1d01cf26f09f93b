"""Wrongs of sharding keys, and of requests and their answers."""

from __future__ import annotations

from random import Random

from staticfire.checkers.model.history import Op, OpType
from tests.checkers.mutations.draft import Draft
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.model import EVIDENCE, MS, Run, S, Site, choose
from tests.checkers.mutations.pick import message_of, pick_sent, pick_single


@KINDS.mutation(
    "key_moved",
    "messages of one sharding key are acknowledged by different queues",
    workloads=("ordered",),
)
def key_moved(run: Run, rng: Random, site: Site) -> Run | None:
    sent = pick_sent(
        run,
        rng,
        site,
        lambda s: (
            s.type == "ok" and s.broker is not None and "sharding_key" in run.ops[s.begin].value
        ),
    )
    if sent.at is None:
        return None
    queues = sorted(
        {
            (s.broker or "", s.queue)
            for s in run.sends.values()
            if s.broker and s.queue != sent.queue
        }
    )
    if not queues:
        return None
    broker, queue = rng.choice(queues)
    there = [
        s for s in run.sends.values() if (s.topic, s.broker, s.queue) == (sent.topic, broker, queue)
    ]
    offset = max((s.offset for s in there), default=0) + 1
    physical = max(s.physical for s in run.sends.values() if s.broker == broker) + 5000
    found = run.by_key.get(sent.key, [])
    draft = Draft(run)
    draft.alter(sent.at, broker=broker, queue=queue, queue_offset=offset, physical_offset=physical)
    draft.drop_deliveries(d for d in found if d.topic == sent.topic)
    for d in found[:1]:
        draft.deliver(
            d, d.time_ns, [[d.key, offset, physical, True, 0]], broker=broker, queue=queue
        )
    for op in run.ops:
        if op.f == "drain" and op.value["topic"] == sent.topic:
            rows = [list(row) for row in op.value["queues"]]
            for row in rows:
                if row[:2] == [broker, queue]:
                    row[3:5] = [max(row[3], offset + 1), max(row[4], offset + 1)]
            draft.alter(op.index, queues=rows)
    draft.look_up(sent.key, lambda row: None)
    draft.observe(lambda o: o["kind"] == "ack_durability" and o["key"] == sent.key, lambda o: None)
    return draft.finish()


@KINDS.mutation(
    "order_violated",
    "an orderly group begins a message before it has finished the one before",
    workloads=("ordered",),
)
def order_violated(run: Run, rng: Random, site: Site) -> Run:
    nexts = {(d.group, d.place, d.offset): d for d in run.deliveries if d.type == "ok"}
    like = pick_single(
        run,
        rng,
        site,
        lambda d: (
            d.alone
            and (after := nexts.get((d.group, d.place, d.offset + 1))) is not None
            and after.alone
            and after.process == d.process
            and after.begin_ns < d.time_ns + 5 * S
        ),
    )
    after = nexts[like.group, like.place, like.offset + 1]
    draft = Draft(run)
    # The listener fails for the first one, the second one is begun, then the first one comes again.
    draft.replace(like.at, type="info", error="the listener failed")
    draft.deliver(like, after.time_ns + S // 2, [message_of(run, like)])
    draft.clip_commits(like.group, like.place, like.offset, like.begin_ns, after.time_ns + S // 2)
    return draft.finish()


def _answers(run: Run, rng: Random, site: Site) -> Op:
    answers = [op for op in run.ops if op.f == "answer" and op.value["key"] in run.sends]
    return choose(rng, answers, lambda op: run.is_at(site, op.time_ns))


@KINDS.mutation(
    "wrong_answer", "a request gets the answer to another one", workloads=("request-reply",)
)
def wrong_answer(run: Run, rng: Random, site: Site) -> Run | None:
    answer, other = _answers(run, rng, site), _answers(run, rng, site)
    if answer.value["key"] == other.value["key"]:
        return None
    draft = Draft(run)
    draft.alter(answer.index, reply=other.value["key"])
    sent = run.sends[answer.value["key"]]
    if sent.at is not None and "reply" in run.ops[sent.at].value:
        draft.alter(sent.at, reply=other.value["key"])
    return draft.finish()


@KINDS.mutation("duplicate_reply", "a request ends with two answers", workloads=("request-reply",))
def duplicate_reply(run: Run, rng: Random, site: Site) -> Run:
    answer = _answers(run, rng, site)
    draft = Draft(run)
    draft.event(answer.time_ns + S, answer.process, "answer", answer.node, **answer.value)
    return draft.finish()


@KINDS.mutation(
    "phantom_reply",
    "a request is answered that no listener was given",
    workloads=("request-reply",),
)
def answered_by_no_listener(run: Run, rng: Random, site: Site) -> Run:
    answer = _answers(run, rng, site)
    key = answer.value["key"]
    draft = Draft(run)
    draft.drop_deliveries(run.by_key.get(key, ()))
    for at, op in draft.ops():
        if op.f == "reply" and op.value["key"] == key:
            draft.drop(at)
    return draft.finish()


@KINDS.mutation(
    "phantom_reply",
    "a request is answered before a listener was given it",
    workloads=("request-reply",),
)
def answered_before_delivered(run: Run, rng: Random, site: Site) -> Run | None:
    like = pick_single(
        run,
        rng,
        site,
        lambda d: d.alone and run.sends[d.key].type == "ok" and len(run.by_key[d.key]) == 1,
    )
    answer = next((op for op in run.ops if op.f == "answer" and op.value["key"] == like.key), None)
    if answer is None:
        return None
    draft = Draft(run)
    draft.move_deliveries([like], answer.time_ns + 20 * MS)
    for at, op in draft.ops():
        if op.f == "reply" and op.value["key"] == like.key:
            draft.move(at, answer.time_ns + 30 * MS)
    return draft.finish()


@KINDS.mutation(
    EVIDENCE,
    "all answers of all requests are missing",
    workloads=("request-reply",),
    unknown_is_enough=True,
)
def answers_missing(run: Run, rng: Random, site: Site) -> Run | None:
    if (site == "fault") != bool(run.facts.faults):
        return None
    draft = Draft(run)
    for at, op in draft.ops():
        if op.f == "answer":
            draft.drop(at)
    return draft.finish()


@KINDS.mutation(
    EVIDENCE,
    "one request that its sender calls answered has no answer",
    workloads=("request-reply",),
    unknown_is_enough=True,
)
def answer_missing(run: Run, rng: Random, site: Site) -> Run | None:
    answer = _answers(run, rng, site)
    if run.sends[answer.value["key"]].type != "ok":
        return None
    draft = Draft(run)
    draft.drop(answer.index)
    return draft.finish()


@KINDS.oddity(
    "a listener need not reply, and a requester gives up in its own time",
    workloads=("request-reply",),
)
def request_times_out(run: Run, rng: Random, site: Site) -> Run | None:
    answer = _answers(run, rng, site)
    sent = run.sends[answer.value["key"]]
    if sent.at is None or sent.type != "ok":
        return None
    nodes = (*run.nodes_of_broker(sent.broker or ""), answer.node or "")
    if run.is_explained(sent.begin_ns - S, sent.begin_ns + 6 * S, nodes, 20):
        return None
    draft = Draft(run)
    draft.drop(answer.index)
    for at, op in draft.ops():
        if op.f == "reply" and op.value["key"] == answer.value["key"]:
            draft.drop(at)
    draft.alter(sent.at, reply=None)
    draft.replace(sent.at, type="info", error="no reply after 5 s", time_ns=sent.begin_ns + 5 * S)
    return draft.finish()


@KINDS.mutation(
    "wrong_answer",
    "a requester is given the answer to the request of another one",
    workloads=("request-reply",),
)
def answer_to_other_process(run: Run, rng: Random, site: Site) -> Run | None:
    answer = _answers(run, rng, site)
    others = {sent.process for sent in run.sends.values() if sent.process < 90_000}
    if answer is None or len(others) < 2:
        return None
    draft = Draft(run)
    draft.replace(answer.index, process=rng.choice(sorted(others - {answer.process})))
    return draft.finish()


@KINDS.mutation(
    "duplicate_reply",
    "an answer comes 5 s after its request has ended as answered",
    workloads=("request-reply",),
)
def answered_too_late(run: Run, rng: Random, site: Site) -> Run | None:
    answer = _answers(run, rng, site)
    sent = run.sends[answer.value["key"]]
    if sent.type != "ok":
        return None
    draft = Draft(run)
    draft.move(answer.index, sent.time_ns + 5 * S)
    return draft.finish()


@KINDS.mutation(
    "lost_reply",
    "a request that a listener replied to ends after 5 s without its answer",
    workloads=("request-reply",),
)
def reply_never_arrives(run: Run, rng: Random, site: Site) -> Run | None:
    return _without_reply(run, rng, site, replied_as="ok")


@KINDS.oddity(
    "near a fault a reply of which no broker says that it was taken is lost on its way",
    workloads=("request-reply",),
)
def reply_lost_on_its_way(run: Run, rng: Random, site: Site) -> Run | None:
    return _without_reply(run, rng, site, replied_as="info") if site == "fault" else None


def _without_reply(run: Run, rng: Random, site: Site, *, replied_as: OpType) -> Run | None:
    """A request that was replied to, and ends after 5 s without its answer."""
    answer = _answers(run, rng, site)
    key = answer.value["key"]
    sent = run.sends[key]
    replied = [op.time_ns for op in run.ops if op.f == "reply" and op.value["key"] == key]
    if sent.at is None or not replied or min(replied) > sent.begin_ns + 3 * S:
        return None
    draft = Draft(run)
    draft.drop(answer.index)
    for at, op in draft.ops():
        if op.f == "reply" and op.value["key"] == key:
            draft.replace(at, type=replied_as)
    draft.alter(sent.at, reply=None)
    draft.replace(sent.at, type="info", error="no reply after 5 s")
    draft.move(sent.at, sent.begin_ns + 5 * S)
    return draft.finish()
