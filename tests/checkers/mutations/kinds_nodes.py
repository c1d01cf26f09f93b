"""Wrongs of nodes and of promises about gaps."""

from __future__ import annotations

from dataclasses import replace

from staticfire.checkers.guarantees.facts import NodeExit
from staticfire.checkers.model.history import Op, OpType
from tests.checkers.mutations.draft import Draft
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.model import GROUPED, PLAIN, NoSuchSite, S
from tests.checkers.mutations.pick import on_master_only, unanswered
from tests.checkers.mutations.planting import Planting


@KINDS.mutation("not_serving", "the last probe of a living broker is not acknowledged")
def probe_fails(draft: Planting) -> None:
    probes = [op for op in draft.run.ops if op.f == "probe"]
    probe = draft.choose(probes, lambda op: draft.is_of_site())
    draft.replace(probe.index, type="fail", error="not acknowledged in 120 s")


@KINDS.mutation("node_died", "a node ends by itself, and no fault of its disk explains it")
def node_died(draft: Planting) -> None:
    run = draft.run
    nodes = [node for several in run.facts.replica_sets.values() for node in several]
    for _ in range(40):
        node, time_ns = draft.rng.choice(nodes), draft.rng.randrange(5 * S, run.end_ns)
        if draft.is_here(time_ns) and not run.is_explained(time_ns, time_ns, (node,), 60):
            error = "ended by itself with status 1: KeyError: 'offsets'"
            draft.insert(
                Op(
                    index=0,
                    time_ns=time_ns,
                    process=-1,
                    type="info",
                    f="node_exit",
                    value={"node": node},
                    node=node,
                    error=error,
                )
            )
            ended = NodeExit(node=node, time_ns=time_ns, error=error)
            draft.facts = replace(draft.facts, exits=(*draft.facts.exits, ended))
            return
    raise NoSuchSite


@KINDS.mutation(
    "send_gap",
    "for 12 s nothing of a producer is acknowledged where 5 s are promised",
    workloads=("queue", "ordered", "filtered", "broadcast", "rebalance"),
)
def send_gap(draft: Planting) -> None:
    run = draft.run
    if not run.facts.producers:
        raise NoSuchSite
    node = draft.rng.choice(run.facts.producers)
    for _ in range(40):
        begin_ns = draft.rng.randrange(3 * S, max(run.load_end_ns - 14 * S, 4 * S))
        if draft.is_here(begin_ns, begin_ns + 12 * S):
            break
    else:
        raise NoSuchSite
    _unanswered_sends(draft, node, begin_ns, begin_ns + 12 * S)
    draft.facts = replace(draft.facts, gap_max_s=5.0)


@KINDS.mutation(
    "start_gap",
    "a consumer that has started is given no queue for 12 s where 5 s are promised",
    workloads=GROUPED,
)
def start_gap(draft: Planting) -> None:
    member = draft.choose(draft.run.members, lambda m: draft.is_here(m.begin_ns))
    first = next(
        (op for op in draft.run.ops if op.f == "assign" and op.process == member.process), None
    )
    if first is None:
        raise NoSuchSite
    draft.shift_after(first.time_ns - 1, 12 * S)
    draft.facts = replace(draft.facts, gap_max_s=5.0)


@KINDS.mutation(
    "producer_stuck",
    "a producer that a fault has left, or that never had one, gets nothing through for 20 s",
    workloads=("queue", "ordered", "filtered", "broadcast", "rebalance"),
)
def producer_stuck(draft: Planting) -> None:
    """At rest only: near a fault the excuse is the fault itself."""
    run = draft.run
    if not run.facts.producers or draft.site == "fault":
        raise NoSuchSite
    node = draft.rng.choice(run.facts.producers)
    for _ in range(40):
        begin_ns = draft.rng.randrange(3 * S, max(run.load_end_ns - 22 * S, 4 * S))
        if run.is_at("rest", begin_ns - 30 * S, begin_ns + 20 * S):
            break
    else:
        raise NoSuchSite
    _unanswered_sends(draft, node, begin_ns, begin_ns + 20 * S)


def _unanswered_sends(draft: Planting, node: str, begin_ns: int, end_ns: int) -> None:
    run = draft.run
    for sent in run.sends.values():
        if sent.at is None or sent.type != "ok" or run.ops[sent.at].node != node:
            continue
        if begin_ns <= sent.time_ns <= end_ns and run.ops[sent.at].f == "send":
            unanswered(draft, sent)


def _send_unserved(draft: Draft, node: str, process: int, at_ns: int, ended: Op) -> None:
    """One more send of a process on that node, which ends as `ended` does."""
    value = {"topic": draft.run.facts.topics[0], "key": f"p{process}-0", "size": 100}
    common = replace(ended, process=process, node=node, value=value)
    draft.insert(replace(common, type="invoke", time_ns=at_ns, error=None))
    draft.insert(replace(common, time_ns=at_ns + ended.time_ns, value={**value, "attempts": 1}))


def _unserved(draft: Planting, ended: Op) -> None:
    """Further processes of a producer whose sends are not served for 40 s, one in 2 s; the others are."""
    run = draft.run
    if not run.facts.producers or run.facts.faults:
        raise NoSuchSite
    node, first = draft.rng.choice(run.facts.producers), 70_500 + draft.rng.randrange(400)
    begin_ns = draft.rng.randrange(3 * S, max(run.load_end_ns - 41 * S, 4 * S))
    for number in range(20):
        at_ns = begin_ns + number * 2 * S + draft.rng.randrange(S // 2)
        _send_unserved(draft, node, first + number, at_ns, ended)


def _ended(type_: OpType, error: str, took_ns: int) -> Op:
    return Op(
        index=0, time_ns=took_ns, process=0, type=type_, f="send", value={}, node=None, error=error
    )


@KINDS.mutation("refused_at_rest", "for 40 s a producer has a send refused every other second")
def refused_now_and_then(draft: Planting) -> None:
    error = "broker-a refused the message with code 14: service not available now"
    _unserved(draft, _ended("fail", error, S // 100))


@KINDS.mutation("refused_at_rest", "for 40 s a send of a producer in 2 s gets no answer in 3 s")
def unanswered_now_and_then(draft: Planting) -> None:
    _unserved(draft, _ended("info", "no answer in 3 s", 3 * S))


@KINDS.mutation("overdue_send", "a send of a producer fails after more than twice its time")
def overdue(draft: Planting) -> None:
    """A further process of a producer has one send, which is refused late."""
    run = draft.run
    facts = run.facts
    for _ in range(40):
        if not facts.producers or not facts.timings.send_s:
            raise NoSuchSite
        node, at_ns = (
            draft.rng.choice(facts.producers),
            draft.rng.randrange(5 * S, max(run.load_end_ns, 6 * S)),
        )
        took_ns = round((2 * facts.timings.send_s + 1) * S)
        if draft.is_here(at_ns) and not run.is_explained(at_ns, at_ns + took_ns, (node,), 10):
            ended = _ended("fail", "broker-a refused the message with code 14", took_ns)
            _send_unserved(draft, node, 70_700, at_ns, ended)
            return
    raise NoSuchSite


@KINDS.mutation(
    "weak_at_rest",
    "for 15 s half of the sends of a producer get a weaker status, truly, and nothing is broken",
    workloads=PLAIN,
)
def weak_for_a_while(draft: Planting) -> None:
    run = draft.run
    facts = run.facts
    if not facts.producers or facts.faults or facts.replication != "sync":
        raise NoSuchSite
    node = draft.rng.choice(facts.producers)
    begin_ns = draft.rng.randrange(3 * S, max(run.load_end_ns - 16 * S, 4 * S))
    seconds_with_one = set()
    for sent in run.sends.values():
        if sent.at is None or sent.type != "ok" or not sent.is_plain or draft.rng.random() < 0.5:
            continue
        op = run.ops[sent.at]
        is_meant = op.f == "send" and op.node == node and "batch" not in op.value
        if is_meant and begin_ns <= sent.begin_ns < begin_ns + 15 * S:
            on_master_only(draft, sent)
            seconds_with_one.add(sent.begin_ns // S)
    if len(seconds_with_one) < 10:
        raise NoSuchSite


@KINDS.oddity("a broker that is busy for a moment refuses all that comes in that moment")
def busy_for_a_moment(draft: Planting) -> None:
    run = draft.run
    if not run.facts.producers:
        raise NoSuchSite
    node = draft.rng.choice(run.facts.producers)
    begin_ns = draft.rng.randrange(3 * S, max(run.load_end_ns - 3 * S, 4 * S))
    ended = _ended("fail", "broker-a refused the message with code 2: system busy", S)
    for number in range(60):
        _send_unserved(draft, node, 70_500 + number, begin_ns + number * S // 60, ended)
