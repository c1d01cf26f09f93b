"""Wrongs that only the inside of nodes shows: disks, replicas, queue files, routes, look-ups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.checkers.mutations.events import Sent
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.model import EVIDENCE, NoSuchSite, Run, S
from tests.checkers.mutations.pick import RESTARTS, may_be_destroyed
from tests.checkers.mutations.planting import Planting


def seen_of(run: Run, kind: str) -> list[Mapping[str, Any]]:
    return [seen for seen in run.observations if seen["kind"] == kind]


def with_seen(draft: Planting, old: Mapping[str, Any], **fields: Any) -> None:
    draft.observe(lambda seen: seen is old, lambda seen: {**seen, **fields})


@KINDS.mutation("acked_not_durable", "SEND_OK, and no node has the message on its disk")
def acked_in_cache_only(draft: Planting) -> None:
    if draft.run.facts.flush != "sync" or draft.run.facts.transient_pool:
        raise NoSuchSite
    seen = _acked(draft)
    with_seen(draft, seen, durable_on=[])


@KINDS.mutation(
    "acked_not_durable", "SEND_OK of synchronous replication, and only the master holds the message"
)
def acked_by_master_only(draft: Planting) -> None:
    run = draft.run
    if run.facts.replication != "sync":
        raise NoSuchSite
    seen = _acked(draft)
    if len(run.nodes_of_broker(seen["broker_name"])) < 2:
        raise NoSuchSite
    master = run.nodes_of_broker(seen["broker_name"])[0]
    only = [master]
    with_seen(draft, seen, durable_on=only, cached_on=only)


@KINDS.mutation(
    "acked_not_durable", "SEND_OK, and the slaves alone have the message on their disks"
)
def acked_by_slaves_only(draft: Planting) -> None:
    run = draft.run
    if run.facts.flush != "sync" or run.facts.transient_pool:
        raise NoSuchSite
    seen = _acked(draft)
    slaves = list(run.nodes_of_broker(seen["broker_name"])[1:])
    if not slaves:
        raise NoSuchSite
    with_seen(draft, seen, durable_on=slaves, cached_on=run.nodes_of_broker(seen["broker_name"]))


def _acked(draft: Planting) -> Mapping[str, Any]:
    run = draft.run
    return draft.choose(
        seen_of(run, "ack_durability"),
        lambda seen: (
            seen["status"] == "SEND_OK"
            and seen["key"] in run.sends
            and run.sends[seen["key"]].type == "ok"
            and not seen["unobserved"]
            and draft.is_here(seen["time_ns"])
            and not run.is_explained(
                seen["time_ns"] - S,
                seen["time_ns"] + S,
                run.nodes_of_broker(seen["broker_name"]),
                5,
                RESTARTS,
            )
        ),
    )


@KINDS.mutation(
    "spurious_weak_status", "FLUSH_SLAVE_TIMEOUT, although the slave has the message on its disk"
)
def spurious_weak_status(draft: Planting) -> None:
    def fits(sent: Sent) -> bool:
        return not draft.run.is_explained(
            sent.time_ns - 10 * S, sent.time_ns, draft.run.nodes_of_broker(sent.broker or ""), 30
        )

    _with_status(draft, "FLUSH_SLAVE_TIMEOUT", fits)


@KINDS.mutation(
    "spurious_weak_status",
    "FLUSH_SLAVE_TIMEOUT within a second, although the slave has the message on its disk",
)
def slave_timeout_too_early(draft: Planting) -> None:
    acked = [s for s in draft.run.sends.values() if s.type == "ok"]

    def fits(sent: Sent) -> bool:
        return sent.time_ns - sent.begin_ns < S and any(
            of.broker == sent.broker and of.time_ns < sent.begin_ns for of in acked
        )

    _with_status(draft, "FLUSH_SLAVE_TIMEOUT", fits)


@KINDS.mutation(
    "spurious_weak_status",
    "FLUSH_DISK_TIMEOUT near faults of slaves alone, although the message is on all disks",
)
def disk_timeout_of_healthy_master(draft: Planting) -> None:
    def fits(sent: Sent) -> bool:
        master = draft.run.nodes_of_broker(sent.broker or "")[:1]
        return not draft.run.is_explained(sent.time_ns - 10 * S, sent.time_ns, master, 30)

    _with_status(draft, "FLUSH_DISK_TIMEOUT", fits)


def _with_status(draft: Planting, status: str, fits: Callable[[Sent], bool]) -> None:
    """A send that is on the disks of all replicas gets a weak status."""
    run = draft.run
    if run.facts.replication != "sync" or run.facts.flush != "sync":
        raise NoSuchSite
    times = {seen["key"]: seen for seen in seen_of(run, "ack_durability")}

    def is_safe(key: str) -> bool:
        seen = times.get(key)
        return (
            seen is not None
            and seen["status"] == "SEND_OK"
            and len(seen["durable_on"]) > 1
            and not seen["unobserved"]
        )

    sent = draft.pick_sent(lambda s: s.type == "ok" and is_safe(s.key) and fits(s))
    if sent.at is None:
        raise NoSuchSite
    draft.alter(sent.at, status=status)
    draft.replace(sent.at, type="info", error=status)
    keys = {s.key for s in run.sends.values() if s.at == sent.at}
    draft.observe(
        lambda seen: seen["kind"] == "ack_durability" and seen["key"] in keys,
        lambda seen: {**seen, "status": status},
    )
    for key in keys:
        draft.look_up(key, lambda row: None)


def _replica(draft: Planting) -> Mapping[str, Any]:
    return draft.choose(
        seen_of(draft.run, "replica"),
        lambda seen: draft.is_of_site() and seen["first_difference"] is None,
    )


@KINDS.mutation("replica_diverged", "a slave's log differs from its master's within what both have")
def replica_diverged(draft: Planting) -> None:
    seen = _replica(draft)
    with_seen(draft, seen, first_difference=0 if seen["slave_end"] < 3 else seen["slave_end"] // 2)


@KINDS.mutation("replica_ahead", "a slave has more than its master")
def replica_ahead(draft: Planting) -> None:
    seen = _replica(draft)
    with_seen(draft, seen, slave_end=seen["master_end"] + 500)


def _entries(draft: Planting) -> Mapping[str, Any]:
    return draft.choose(
        seen_of(draft.run, "queue_entries"), lambda seen: draft.is_of_site() and seen["entries"] > 0
    )


@KINDS.mutation("queue_hole", "a queue has no entry between two that it has")
def queue_hole(draft: Planting) -> None:
    seen = _entries(draft)
    topic = draft.run.facts.topics[0]
    with_seen(draft, seen, holes=1, hole_at=[[topic, 0, 5]])


@KINDS.mutation("queue_entry_wrong", "an entry of a queue leads to another message")
def queue_entry_wrong(draft: Planting) -> None:
    seen = _entries(draft)
    topic = draft.run.facts.topics[0]
    with_seen(draft, seen, wrong=1, wrong_at=[[topic, 0, 5]])


@KINDS.mutation("queue_entry_missing", "the log holds a message more than queues have entries")
def queue_entry_missing(draft: Planting) -> None:
    seen = _entries(draft)
    with_seen(draft, seen, missing=1)


def _looked_up(draft: Planting, column: int) -> list[Any]:
    run = draft.run
    rows = [
        row
        for op in run.ops
        if op.f == "look_up"
        for row in op.value.get("messages", ())
        if row[column] and row[0] in run.sends and run.by_key.get(row[0])
    ]
    return draft.choose(
        rows,
        lambda row: (
            draft.is_here(run.sends[row[0]].time_ns)
            and run.sends[row[0]].type == "ok"
            and not may_be_destroyed(
                run, run.sends[row[0]].broker or "", run.sends[row[0]].begin_ns
            )
        ),
    )


@KINDS.mutation("not_found_by_id", "a message in its queue is not found by its id")
def not_found_by_id(draft: Planting) -> None:
    row = _looked_up(draft, 4)
    draft.look_up(row[0], lambda r: [*r[:4], False, *r[5:]])


@KINDS.mutation("not_found_by_key", "a message in its queue is not found by its key")
def not_found_by_key(draft: Planting) -> None:
    row = _looked_up(draft, 3)
    draft.look_up(row[0], lambda r: [*r[:3], False, *r[4:]])


@KINDS.mutation("lost_from_log", "a consumed message is not in its queue after the run")
def consumed_and_gone(draft: Planting) -> None:
    row = _looked_up(draft, 5)
    draft.look_up(row[0], lambda r: [*r[:3], False, False, False])


@KINDS.mutation(EVIDENCE, "the look-ups after the run are missing", unknown_is_enough=True)
def look_ups_missing(draft: Planting) -> None:
    if not draft.is_of_site():
        raise NoSuchSite
    gone = [op.index for op in draft.run.ops if op.f == "look_up"]
    for at in gone:
        draft.drop(at)
    if not gone:
        raise NoSuchSite


@KINDS.mutation(
    EVIDENCE,
    "the look-ups of one broker lack twenty messages that it acknowledged",
    unknown_is_enough=True,
)
def look_ups_incomplete(draft: Planting) -> None:
    if not draft.is_of_site():
        raise NoSuchSite
    op = draft.choose(
        [op for op in draft.run.ops if op.f == "look_up"], lambda op: len(op.value["messages"]) > 60
    )
    rows = list(op.value["messages"])
    start = draft.rng.randrange(len(rows) - 20)
    draft.alter(op.index, messages=rows[:start] + rows[start + 20 :])


@KINDS.mutation("wrong_time_search", "the search for a store time leads to the message behind")
def search_leads_behind(draft: Planting) -> None:
    """Not of a broker whose clock was wrong: there store times need not ascend."""
    run = draft.run
    skewed = {
        node for fault in run.facts.faults if fault.kind == "clock_skew" for node in fault.targets
    }
    op = draft.choose(
        [op for op in run.ops if op.f == "look_up" and op.value.get("searched")],
        lambda op: (
            draft.is_of_site()
            and skewed.isdisjoint(run.nodes_of_broker(op.value["broker"]))
            and run.facts.mode == "hardened"
        ),
    )
    rows = [list(row) for row in op.value["searched"]]
    row = draft.rng.choice(rows)
    row[4:] = [row[4] + 1, row[3] + 1, row[3]]
    draft.alter(op.index, searched=rows)


@KINDS.mutation("refused_read", "a broker fails to read a message that a search by time is for")
def search_refused(draft: Planting) -> None:
    ops = [op for op in draft.run.ops if op.f == "look_up" and op.value.get("searched")]
    op = draft.choose(ops, lambda op: draft.is_of_site())
    rows = list(op.value["searched"])
    gone = rows.pop(draft.rng.randrange(len(rows)))
    if not any(row[:3] == gone[:3] and row[5] for row in op.value["messages"]):
        raise NoSuchSite
    draft.alter(op.index, searched=rows, refused=[[*gone[:3], "code 1, IndexOutOfBoundsException"]])


@KINDS.mutation(
    EVIDENCE, "all observations of acknowledgements are missing", unknown_is_enough=True
)
def acks_unobserved(draft: Planting) -> None:
    without_kind(draft, "ack_durability")


@KINDS.mutation(EVIDENCE, "no replica was compared", unknown_is_enough=True)
def replicas_unobserved(draft: Planting) -> None:
    without_kind(draft, "replica")


@KINDS.mutation(EVIDENCE, "no queue file was read", unknown_is_enough=True)
def entries_unobserved(draft: Planting) -> None:
    without_kind(draft, "queue_entries")


@KINDS.mutation(EVIDENCE, "no name server was asked", unknown_is_enough=True)
def routes_unobserved(draft: Planting) -> None:
    if not draft.run.facts.routes_observed:
        raise NoSuchSite
    without_kind(draft, "route")


def without_kind(draft: Planting, kind: str) -> None:
    if not draft.is_of_site() or not seen_of(draft.run, kind):
        raise NoSuchSite
    draft.observe(lambda seen: seen["kind"] == kind, lambda seen: None)


@KINDS.mutation(
    "read_beyond_recovery",
    "a message is delivered from beyond where its broker had recovered its log 20 s before",
)
def read_beyond_recovery(draft: Planting) -> None:
    run = draft.run
    alone = {nodes[0] for nodes in run.facts.replica_sets.values() if len(nodes) == 1}
    if run.facts.replication != "none" or draft.site != "fault":
        raise NoSuchSite
    found = draft.choose(
        seen_of(run, "recovery"),
        lambda seen: (
            seen["node"] in alone and seen["time_ns"] > 5 * S and seen["end_offset"] > 5000
        ),
    )
    broker = next(name for name, nodes in run.facts.replica_sets.items() if found["node"] in nodes)
    read = [
        d
        for d in run.deliveries
        if d.broker == broker and d.time_ns + S < found["time_ns"] and d.topic in run.facts.topics
    ]
    like = draft.choose(
        read, lambda d: d.physical > found["end_offset"] * 3 // 4 and d.type == "ok"
    )
    draft.observe(
        lambda seen: seen is found,
        lambda seen: {**seen, "end_offset": like.physical, "clean": False},
    )
    messages = draft.messages(like)[like.slot]
    draft.deliver(like, found["time_ns"] + 20 * S, [messages])
    if found["time_ns"] + 20 * S >= run.end_ns:
        raise NoSuchSite
