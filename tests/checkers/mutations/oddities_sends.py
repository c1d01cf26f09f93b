"""Legal oddities of sends."""

from __future__ import annotations

from typing import Any

from staticfire.checkers.model.history import Op
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.kinds_moves import KEPT_BACK, moved_after_death
from tests.checkers.mutations.model import MS, PLAIN, NoSuchSite, S, without
from tests.checkers.mutations.pick import (
    has_two_groups,
    is_delivered_once,
    neighbours,
    on_master_only,
    outcome_unknown,
)
from tests.checkers.mutations.planting import Planting

NEW_PROCESS = 70_000


def time_at(draft: Planting, span_ns: int = 0) -> int | None:
    for _ in range(40):
        time_ns = draft.rng.randrange(S, draft.run.end_ns - span_ns)
        if draft.is_here(time_ns, time_ns + span_ns):
            return time_ns
    return None


def _one_more_send(draft: Planting, end: str, error: str, **value: Any) -> None:
    begin_ns = time_at(draft, 3 * S)
    if begin_ns is None:
        raise NoSuchSite
    process = NEW_PROCESS + draft.rng.randrange(1000)
    value = {"key": f"p{process}-0", "size": 300, "topic": draft.run.facts.topics[0], **value}
    draft.insert(
        Op(index=0, time_ns=begin_ns, process=process, type="invoke", f="send", value=value)
    )
    if end:
        draft.insert(
            Op(
                index=0,
                time_ns=begin_ns + 3 * S,
                process=process,
                type=end,  # type: ignore[arg-type]  # a type of an op
                f="send",
                value={**value, "attempts": 1},
                error=error,
            )
        )


@KINDS.oddity("an unknown send may never have been stored")
def unknown_send_never_seen(draft: Planting) -> None:
    _one_more_send(draft, "info", "no answer in 3 s")


@KINDS.oddity("what failed is not delivered")
def failed_send_never_seen(draft: Planting) -> None:
    _one_more_send(draft, "fail", "no name server knows the topic")


@KINDS.oddity("a send that the run ended before is unknown")
def send_never_completed(draft: Planting) -> None:
    _one_more_send(draft, "", "")


@KINDS.oddity("a one-way send is not answered, and may be lost")
def one_way_never_seen(draft: Planting) -> None:
    _one_more_send(draft, "info", "one way: no broker answers", one_way=True)


@KINDS.oddity("an unknown send may have been stored", workloads=without("request-reply"))
def unknown_send_seen(draft: Planting) -> None:
    sent = draft.pick_sent(lambda s: s.type == "ok" and s.is_plain)
    if sent.at is None or draft.run.ops[sent.at].f != "send":
        raise NoSuchSite
    outcome_unknown(draft, sent)


@KINDS.oddity(
    "a weak status says that the slave did not have the message in time, and so it was",
    workloads=PLAIN,
)
def weak_send_on_master_only(draft: Planting) -> None:
    run = draft.run
    if run.facts.replication != "sync":
        raise NoSuchSite
    sent = draft.pick_sent(lambda s: s.type == "ok")
    if sent.at is None or run.ops[sent.at].f != "send" or "batch" in run.ops[sent.at].value:
        raise NoSuchSite
    on_master_only(draft, sent)


@KINDS.oddity("an answer may be slow: the message is consumed before its sender hears of it")
def answer_comes_late(draft: Planting) -> None:
    run = draft.run
    nexts: dict[int, list[int]] = {}
    for op in run.ops:
        if op.f in ("send", "send_many") and op.type == "invoke":
            nexts.setdefault(op.process, []).append(op.time_ns)
    sent = draft.pick_sent(
        lambda s: s.type == "ok" and run.ops[s.at or 0].value.get("batch") is None
    )
    if sent.at is None or run.workload in ("request-reply", "forwarded"):
        raise NoSuchSite
    later = [time_ns for time_ns in nexts[sent.process] if time_ns > sent.time_ns]
    if not later or later[0] - sent.time_ns < 2 * MS:
        raise NoSuchSite
    by_ns = min(later[0] - sent.time_ns - MS, S)
    draft.move(sent.at, sent.time_ns + by_ns)
    draft.observe_ack(sent.key, lambda o: {**o, "time_ns": o["time_ns"] + by_ns})


@KINDS.oddity(
    "a send that was tried twice may be stored twice",
    workloads=("queue", "rebalance", "filtered", "ordered"),
)
def two_copies_of_two_attempts(draft: Planting) -> None:
    run = draft.run
    pairs = neighbours(
        run,
        lambda low, high: (
            low.type == high.type == "ok"
            and low.process != high.process
            and high.begin_ns < low.begin_ns
            and is_delivered_once(run, low.key)
        ),
    )
    pair = draft.choose(
        pairs,
        lambda p: (
            draft.is_here(p[1].begin_ns)
            and not any("batch" in run.ops[s.begin].value for s in p)
            and not has_two_groups(run)
            and len({run.ops[s.begin].value.get("tag") for s in p}) == 1
        ),
    )
    low, high = pair
    outcome_unknown(draft, low)
    assert high.at is not None
    draft.alter(high.at, attempts=2)
    for d in run.by_key[low.key]:
        draft.set_field(d, 0, high.key)


@KINDS.oddity(
    "a broker that dies before it writes down that it moved a message moves it again",
    workloads=KEPT_BACK,
)
def moved_again_after_death(draft: Planting) -> None:
    moved_after_death(draft)
