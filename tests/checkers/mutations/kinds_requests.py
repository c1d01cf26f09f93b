"""Wrongs of sharding keys, and of requests and their answers."""

from __future__ import annotations

from staticfire.checkers.model.history import Op, OpType
from staticfire.checkers.model.message_contents import NO_PROPERTIES
from tests.checkers.mutations.events import Delivery
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.model import EVIDENCE, MS, NoSuchSite, S
from tests.checkers.mutations.pick import keeps_queue, message_of
from tests.checkers.mutations.planting import Planting


@KINDS.mutation(
    "key_moved",
    "messages of one sharding key are acknowledged by different queues",
    workloads=("ordered",),
)
def key_moved(draft: Planting) -> None:
    run = draft.run
    sent = draft.pick_sent(
        lambda s: (
            s.type == "ok" and s.broker is not None and "sharding_key" in run.ops[s.begin].value
        )
    )
    if sent.at is None:
        raise NoSuchSite
    queues = sorted(
        {
            (s.broker or "", s.queue)
            for s in run.sends.values()
            if s.broker and s.queue != sent.queue
        }
    )
    if not queues:
        raise NoSuchSite
    broker, queue = draft.rng.choice(queues)
    there = [
        s for s in run.sends.values() if (s.topic, s.broker, s.queue) == (sent.topic, broker, queue)
    ]
    offset = max((s.offset for s in there), default=0) + 1
    physical = max(s.physical for s in run.sends.values() if s.broker == broker) + 5000
    found = run.by_key.get(sent.key, [])
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
    draft.observe_ack(sent.key, lambda o: None)


@KINDS.mutation(
    "order_violated",
    "an orderly group begins a message before it has finished the one before",
    workloads=("ordered",),
)
def order_violated(draft: Planting) -> None:
    nexts = {(d.group, d.place, d.offset): d for d in draft.run.deliveries if d.type == "ok"}
    like = draft.pick_single(
        lambda d: (
            d.alone
            and (after := nexts.get((d.group, d.place, d.offset + 1))) is not None
            and after.alone
            and after.process == d.process
            and after.begin_ns < d.time_ns + 5 * S
        )
    )
    after = nexts[like.group, like.place, like.offset + 1]
    # The listener fails for the first one, the second one is begun, then the first one comes again.
    draft.replace(like.at, type="info", error="the listener failed")
    draft.deliver(like, after.time_ns + S // 2, [message_of(draft.run, like)])
    draft.clip_commits(like.group, like.place, like.offset, like.begin_ns, after.time_ns + S // 2)


@KINDS.mutation(
    "retry_uncounted",
    "a member does not count a failed call for a message, which it repeats",
    workloads=("ordered",),
)
def failure_uncounted(draft: Planting) -> None:
    run = draft.run

    def again(d: Delivery) -> Delivery | None:
        """The next call of the same member, soon after, which still has the queue."""
        later = [
            o
            for o in run.by_key[d.key]
            if (o.process, o.topic, o.offset) == (d.process, d.topic, d.offset)
            and d.time_ns < o.begin_ns < d.time_ns + 5 * S
            and keeps_queue(run, d, o.begin_ns)
        ]
        return min(later, key=lambda o: o.begin_ns, default=None)

    failed = [d for d in run.deliveries if d.type == "info" and d.tries == 0 and again(d)]
    first = draft.choose(failed, lambda d: draft.is_here(d.time_ns))
    later = again(first)
    assert later is not None
    draft.set_field(later, 4, first.tries)


def _answers(draft: Planting) -> Op:
    answers = [
        op for op in draft.run.ops if op.f == "answer" and op.value["key"] in draft.run.sends
    ]
    return draft.choose(answers, lambda op: draft.is_here(op.time_ns))


@KINDS.mutation(
    "wrong_answer", "a request gets the answer to another one", workloads=("request-reply",)
)
def wrong_answer(draft: Planting) -> None:
    answer, other = _answers(draft), _answers(draft)
    if answer.value["key"] == other.value["key"]:
        raise NoSuchSite
    draft.alter(answer.index, reply=other.value["key"])
    sent = draft.run.sends[answer.value["key"]]
    if sent.at is not None and "reply" in draft.run.ops[sent.at].value:
        draft.alter(sent.at, reply=other.value["key"])


@KINDS.mutation(
    "wrong_answer",
    "an answer arrives without the properties that the listener set",
    workloads=("request-reply",),
)
def answer_without_properties(draft: Planting) -> None:
    answer = _answers(draft)
    replies = [
        op for op in draft.run.ops if op.f == "reply" and op.value["key"] == answer.value["reply"]
    ]
    if not replies:
        raise NoSuchSite
    for reply in replies:
        draft.alter(reply.index, properties=77)
    draft.alter(answer.index, properties=NO_PROPERTIES)


@KINDS.oddity(
    "clients need not report the properties of replies",
    workloads=("request-reply",),
)
def properties_not_reported(draft: Planting) -> None:
    answer = _answers(draft)
    draft.alter(answer.index, properties=None)


@KINDS.mutation("duplicate_reply", "a request ends with two answers", workloads=("request-reply",))
def duplicate_reply(draft: Planting) -> None:
    answer = _answers(draft)
    draft.event(answer.time_ns + S, answer.process, "answer", answer.node, **answer.value)


@KINDS.mutation(
    "phantom_reply",
    "a request is answered that no listener was given",
    workloads=("request-reply",),
)
def answered_by_no_listener(draft: Planting) -> None:
    answer = _answers(draft)
    key = answer.value["key"]
    draft.drop_deliveries(draft.run.by_key.get(key, ()))
    draft.drop_ops(lambda op: op.f == "reply" and op.value["key"] == key)


@KINDS.mutation(
    "phantom_reply",
    "a request is answered before a listener was given it",
    workloads=("request-reply",),
)
def answered_before_delivered(draft: Planting) -> None:
    run = draft.run
    like = draft.pick_single(
        lambda d: d.alone and run.sends[d.key].type == "ok" and len(run.by_key[d.key]) == 1
    )
    answer = next((op for op in run.ops if op.f == "answer" and op.value["key"] == like.key), None)
    if answer is None:
        raise NoSuchSite
    draft.move_deliveries([like], answer.time_ns + 20 * MS)
    for at, op in draft.ops():
        if op.f == "reply" and op.value["key"] == like.key:
            draft.move(at, answer.time_ns + 30 * MS)


@KINDS.mutation(
    EVIDENCE,
    "all answers of all requests are missing",
    workloads=("request-reply",),
    unknown_is_enough=True,
)
def answers_missing(draft: Planting) -> None:
    if not draft.is_of_site():
        raise NoSuchSite
    draft.drop_ops(lambda op: op.f == "answer")


@KINDS.mutation(
    EVIDENCE,
    "one request that its sender calls answered has no answer",
    workloads=("request-reply",),
    unknown_is_enough=True,
)
def answer_missing(draft: Planting) -> None:
    answer = _answers(draft)
    if draft.run.sends[answer.value["key"]].type != "ok":
        raise NoSuchSite
    draft.drop(answer.index)


@KINDS.oddity(
    "a listener need not reply, and a requester gives up in its own time",
    workloads=("request-reply",),
)
def request_times_out(draft: Planting) -> None:
    run = draft.run
    answer = _answers(draft)
    sent = run.sends[answer.value["key"]]
    if sent.at is None or sent.type != "ok":
        raise NoSuchSite
    nodes = (*run.nodes_of_broker(sent.broker or ""), answer.node or "")
    if run.is_explained(sent.begin_ns - S, sent.begin_ns + 6 * S, nodes, 20):
        raise NoSuchSite
    draft.drop(answer.index)
    draft.drop_ops(lambda op: op.f == "reply" and op.value["key"] == answer.value["key"])
    draft.alter(sent.at, reply=None)
    draft.replace(sent.at, type="info", error="no reply after 5 s", time_ns=sent.begin_ns + 5 * S)


@KINDS.mutation(
    "wrong_answer",
    "a requester is given the answer to the request of another one",
    workloads=("request-reply",),
)
def answer_to_other_process(draft: Planting) -> None:
    answer = _answers(draft)
    others = {sent.process for sent in draft.run.sends.values() if sent.process < 90_000}
    if answer is None or len(others) < 2:
        raise NoSuchSite
    draft.replace(answer.index, process=draft.rng.choice(sorted(others - {answer.process})))


@KINDS.mutation(
    "duplicate_reply",
    "an answer comes 5 s after its request has ended as answered",
    workloads=("request-reply",),
)
def answered_too_late(draft: Planting) -> None:
    answer = _answers(draft)
    sent = draft.run.sends[answer.value["key"]]
    if sent.type != "ok":
        raise NoSuchSite
    draft.move(answer.index, sent.time_ns + 5 * S)


@KINDS.mutation(
    "lost_reply",
    "a request that a listener replied to ends after 5 s without its answer",
    workloads=("request-reply",),
)
def reply_never_arrives(draft: Planting) -> None:
    _without_reply(draft, replied_as="ok")


@KINDS.oddity(
    "near a fault a reply of which no broker says that it was taken is lost on its way",
    workloads=("request-reply",),
)
def reply_lost_on_its_way(draft: Planting) -> None:
    if draft.site != "fault":
        raise NoSuchSite
    _without_reply(draft, replied_as="info")


def _without_reply(draft: Planting, *, replied_as: OpType) -> None:
    """A request that was replied to, and ends after 5 s without its answer."""
    answer = _answers(draft)
    key = answer.value["key"]
    sent = draft.run.sends[key]
    replied = [op.time_ns for op in draft.run.ops if op.f == "reply" and op.value["key"] == key]
    if sent.at is None or not replied or min(replied) > sent.begin_ns + 3 * S:
        raise NoSuchSite
    draft.drop(answer.index)
    for at, op in draft.ops():
        if op.f == "reply" and op.value["key"] == key:
            draft.replace(at, type=replied_as)
    draft.alter(sent.at, reply=None)
    draft.replace(sent.at, type="info", error="no reply after 5 s")
    draft.move(sent.at, sent.begin_ns + 5 * S)
