"""Wrongs of evidence: a look-up, a drain or an observation that contradicts another record of the run."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from staticfire.checkers.guarantees.fault_effects import STOPS
from tests.checkers.mutations.events import Sent
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.kinds_white_box import seen_of, with_seen, without_kind
from tests.checkers.mutations.model import EVIDENCE, NoSuchSite, Run, S, without
from tests.checkers.mutations.pick import DESTROYS, may_be_destroyed
from tests.checkers.mutations.planting import Planting

STRANGE = 77  # the number of a queue that no topic has


@KINDS.mutation(
    EVIDENCE, "a message was not looked up, and not asked for either", unknown_is_enough=True
)
def look_up_not_asked(draft: Planting) -> None:
    sent = draft.pick_sent(lambda s: s.type == "ok" and s.offset >= 0 and s.slot == 0)
    for op in draft.run.ops:
        if op.f == "look_up" and any(row[0] == sent.key for row in op.value["messages"]):
            rows = [row for row in op.value["messages"] if row[0] != sent.key]
            draft.alter(op.index, messages=rows, asked=op.value["asked"] - 1)


@KINDS.mutation(EVIDENCE, "no look-up searched by time", unknown_is_enough=True)
def nothing_searched(draft: Planting) -> None:
    if not draft.is_of_site():
        raise NoSuchSite
    for op in draft.run.ops:
        if op.f == "look_up":
            draft.alter(op.index, searched=[])


@KINDS.mutation(
    EVIDENCE, "every drain says that a queue begins five messages later", unknown_is_enough=True
)
def drain_begins_later(draft: Planting) -> None:
    sent = draft.pick_sent(lambda s: s.type == "ok" and s.offset in range(5))
    if not draft.is_of_site():
        raise NoSuchSite
    for op in draft.run.ops:
        if op.f == "drain" and op.value["topic"] == sent.topic:
            rows = [
                [*row[:2], min(row[2] + 5, row[3]), *row[3:]]
                if row[:2] == [sent.broker, sent.queue]
                else row
                for row in op.value["queues"]
            ]
            draft.alter(op.index, queues=rows)


@KINDS.mutation(
    EVIDENCE, "a queue has another number, everywhere in the history", unknown_is_enough=True
)
def queue_renumbered(draft: Planting) -> None:
    sent = draft.pick_sent(lambda s: s.type == "ok")
    if not draft.is_of_site() or _changes_queues(draft.run):
        raise NoSuchSite
    for op in draft.run.ops:
        value = op.value
        if value.get("topic") != sent.topic:
            continue
        changed: dict[str, Any] = {}
        if value.get("broker") == sent.broker and value.get("queue") == sent.queue:
            changed["queue"] = STRANGE
        for name in ("queues", "offsets"):
            if isinstance(value.get(name), list):
                changed[name] = [
                    [row[0], STRANGE, *row[2:]] if row[:2] == [sent.broker, sent.queue] else row
                    for row in value[name]
                ]
        if op.f == "look_up" and value["broker"] == sent.broker:
            changed |= _renumbered_rows(value, sent.queue)
        if changed:
            draft.alter(op.index, **changed)


@KINDS.mutation(
    EVIDENCE,
    "a send is acknowledged in a queue that its topic does not have",
    unknown_is_enough=True,
)
def acknowledged_in_strange_queue(draft: Planting) -> None:
    """In `filtered` also one with a tag that no group wants: no delivery says otherwise."""
    sent = draft.pick_sent(lambda s: s.type == "ok" and s.topic in draft.run.facts.topics)
    if sent.at is None or "queue" not in draft.run.ops[sent.at].value:
        raise NoSuchSite
    draft.alter(sent.at, queue=STRANGE)


def _renumbered_rows(value: dict[str, Any], queue: int) -> dict[str, Any]:
    return {
        name: [
            [*row[:at], STRANGE, *row[at + 1 :]] if row[at] == queue else row for row in value[name]
        ]
        for name, at in (("messages", 1), ("searched", 1), ("torn", 1), ("first_offsets", 0))
        if name in value
    }


def _changes_queues(run: Run) -> bool:
    return any(fault.kind == "topic_change" for fault in run.facts.faults)


@KINDS.mutation(
    EVIDENCE, "a member is assigned a queue that its topic does not have", unknown_is_enough=True
)
def strange_assignment(draft: Planting) -> None:
    assigned = [
        op
        for op in draft.run.ops
        if op.f == "assign" and op.value["queues"] and not _changes_queues(draft.run)
    ]
    op = draft.choose(assigned, lambda op: draft.is_of_site())
    queues = op.value["queues"]
    draft.alter(op.index, queues=[*queues, [queues[0][0], STRANGE]])


@KINDS.mutation(
    EVIDENCE, "a slave has a hundred queue entries less than its log", unknown_is_enough=True
)
def slave_entries_fewer(draft: Planting) -> None:
    run = draft.run
    slaves = {node for nodes in run.facts.replica_sets.values() for node in nodes[1:]}
    masters = {seen["slave"]: seen["master"] for seen in seen_of(run, "replica")}
    entries = {seen["node"]: seen for seen in seen_of(run, "queue_entries")}
    seen = draft.choose(
        seen_of(run, "queue_entries"),
        lambda seen: (
            draft.is_of_site()
            and seen["node"] in slaves & masters.keys()
            and seen["entries"] >= 100
            and seen["missing"] == 0
            and entries[masters[seen["node"]]]["missing"] == 0
        ),
    )
    with_seen(draft, seen, entries=seen["entries"] - 100)


@KINDS.mutation(
    EVIDENCE,
    "a slave has half of its master's log at the end, and nothing was in its way",
    unknown_is_enough=True,
)
def slave_far_behind(draft: Planting) -> None:
    seen = draft.choose(
        seen_of(draft.run, "replica"),
        lambda seen: (
            draft.is_of_site()
            and not draft.run.is_explained(
                seen["time_ns"] - 60 * S, seen["time_ns"], (seen["slave"],)
            )
            and seen["first_difference"] is None
            and seen["slave_end"] == seen["master_end"]
        ),
    )
    with_seen(draft, seen, slave_end=seen["slave_end"] // 2)


@KINDS.mutation(
    EVIDENCE,
    "a slave ends 3000 bytes below what had been on its disk",
    unknown_is_enough=True,
)
def slave_below_its_disk(draft: Planting) -> None:
    run = draft.run
    held: dict[str, int] = {}
    for seen in seen_of(run, "ack_durability"):
        for node in seen["durable_on"]:
            held[node] = max(held.get(node, 0), seen["end_offset"] or 0)
    struck = {
        node
        for fault in run.bitten()
        if fault.kind.startswith((*DESTROYS, "power_cut", "cluster"))
        for node in fault.targets
    }
    compared = draft.choose(
        seen_of(run, "replica"),
        lambda seen: (
            draft.is_of_site()
            and struck.isdisjoint((seen["master"], seen["slave"]))
            and 3000 < held.get(seen["slave"], 0) <= seen["master_end"]
        ),
    )
    with_seen(draft, compared, slave_end=held[compared["slave"]] - 3000)


@KINDS.mutation(
    EVIDENCE,
    "a master recovers half of the log that had been on its disk",
    unknown_is_enough=True,
)
def recovered_half(draft: Planting) -> None:
    run = draft.run
    masters = {nodes[0] for nodes in run.facts.replica_sets.values()}
    lost = {node for fault in run.bitten() if "disk" in fault.damage for node in fault.targets}
    seen = draft.choose(
        seen_of(run, "recovery"),
        lambda seen: (
            draft.is_of_site()
            and seen["node"] in masters - lost
            and seen.get("end_offset", 0) > 100_000
        ),
    )
    with_seen(draft, seen, end_offset=seen["end_offset"] // 2)


@KINDS.mutation(
    EVIDENCE, "a master has half as many queue entries as drains say", unknown_is_enough=True
)
def master_entries_fewer(draft: Planting) -> None:
    run = draft.run
    living = set(run.facts.living_sets)
    masters = {nodes[0] for name, nodes in run.facts.replica_sets.items() if name in living}
    alone = {nodes[0] for nodes in run.facts.replica_sets.values() if len(nodes) == 1}
    seen = draft.choose(
        seen_of(run, "queue_entries"),
        lambda seen: (
            draft.is_of_site()
            and seen["node"] in masters & alone
            and seen["entries"] > 100
            and seen["missing"] == 0
        ),
    )
    with_seen(draft, seen, entries=seen["entries"] // 2)


@KINDS.mutation(
    EVIDENCE, "two replicas differ at a place, and there is no first one", unknown_is_enough=True
)
def difference_without_first(draft: Planting) -> None:
    seen = draft.choose(
        seen_of(draft.run, "replica"),
        lambda seen: draft.is_of_site() and seen.get("differences") == [],
    )
    with_seen(draft, seen, differences=[seen["slave_end"] // 2])


@KINDS.mutation(
    EVIDENCE,
    "members tell nothing of what they sent back",
    unknown_is_enough=True,
    workloads=("retry",),
)
def send_backs_unreported(draft: Planting) -> None:
    gone = [op.index for op in draft.run.ops if op.f == "send_back"]
    if not gone or not draft.is_of_site():
        raise NoSuchSite
    for index in gone:
        draft.drop(index)


@KINDS.mutation(
    EVIDENCE,
    "a message was delivered by a call of a listener that never began",
    unknown_is_enough=True,
)
def call_without_beginning(draft: Planting) -> None:
    delivery = draft.pick_delivery(lambda d: d.begin != d.at)
    draft.drop(delivery.begin)


Change = Callable[[dict[str, Any]], dict[str, Any]]


def _with_acked_seen(draft: Planting, change: Change, fits: Callable[[Sent], bool]) -> None:
    times = {seen["key"]: seen for seen in seen_of(draft.run, "ack_durability")}
    sent = draft.pick_sent(
        lambda s: (
            s.type == "ok" and s.key in times and times[s.key]["end_offset"] is not None and fits(s)
        )
    )
    seen = times[sent.key]
    with_seen(draft, seen, **change(dict(seen)))


def _undisturbed(run: Run, sent: Sent) -> bool:
    """Whether nothing may have cost the broker of this send anything for a while."""
    nodes = run.nodes_of_broker(sent.broker or "")
    return not run.is_explained(sent.begin_ns, sent.time_ns, nodes, 40)


@KINDS.mutation(
    EVIDENCE,
    "a send is acknowledged with SEND_OK, and its client was seen to get another status",
    unknown_is_enough=True,
)
def seen_with_other_status(draft: Planting) -> None:
    _with_acked_seen(draft, lambda _: {"status": "FLUSH_SLAVE_TIMEOUT"}, lambda _: True)


@KINDS.mutation(
    EVIDENCE,
    "an acknowledged record was seen to end 999 bytes further up",
    unknown_is_enough=True,
)
def seen_to_end_later(draft: Planting) -> None:
    acked = [s for s in draft.run.sends.values() if s.type == "ok" and s.physical >= 0]

    def fits(sent: Sent) -> bool:
        """Another record must begin within the next 500 bytes; else the log may hold such a long one."""
        near = (
            of for of in acked if of.broker == sent.broker and 0 < of.physical - sent.physical < 500
        )
        return sent.physical >= 0 and any(_undisturbed(draft.run, of) for of in near)

    _with_acked_seen(draft, lambda seen: {"end_offset": seen["end_offset"] + 999}, fits)


@KINDS.mutation(
    EVIDENCE,
    "two messages of a broker were seen to end at one place of its log",
    unknown_is_enough=True,
)
def stored_at_one_place(draft: Planting) -> None:
    ends: dict[str, list[tuple[int, int]]] = {}
    for seen in seen_of(draft.run, "ack_durability"):
        if seen["end_offset"] is not None:
            ends.setdefault(seen["broker_name"], []).append((seen["time_ns"], seen["end_offset"]))

    def before(seen: dict[str, Any]) -> dict[str, Any]:
        earlier = [end for at, end in ends[seen["broker_name"]] if at < seen["time_ns"]]
        return {"end_offset": max(earlier, default=0)}

    def fits(sent: Sent) -> bool:
        return _undisturbed(draft.run, sent)

    _with_acked_seen(draft, before, fits)


@KINDS.mutation(
    EVIDENCE,
    "a message lies within the record of another queue, everywhere",
    unknown_is_enough=True,
)
def within_other_record(draft: Planting) -> None:
    run = draft.run
    stored = sorted(
        (s for s in run.sends.values() if s.type == "ok" and s.physical >= 0),
        key=lambda s: (s.broker or "", s.physical),
    )
    pairs = [
        (low, high)
        for low, high in pairwise(stored)
        if low.broker == high.broker and low.queue != high.queue and low.slot == high.slot == 0
    ]
    pair = draft.choose(
        pairs,
        lambda pair: (
            draft.is_here(pair[0].begin_ns, pair[1].time_ns)
            and not run.is_explained(
                pair[0].begin_ns, pair[1].time_ns, run.nodes_of_broker(pair[0].broker or ""), 40
            )
        ),
    )
    low, high = pair
    draft.place_message(high, high.offset, low.physical + 40)


@KINDS.mutation(
    EVIDENCE,
    "a broker says that it had recovered more than it goes on from",
    unknown_is_enough=True,
)
def recovered_too_far(draft: Planting) -> None:
    run = draft.run
    masters = {nodes[0]: name for name, nodes in run.facts.replica_sets.items()}
    acked = [s for s in run.sends.values() if s.type == "ok" and s.physical >= 0]
    last = {
        seen["node"]: seen
        for seen in seen_of(run, "recovery")
        if seen["node"] in masters and "end_offset" in seen
    }
    after = {
        node: [s for s in acked if s.broker == masters[node] and s.begin_ns > seen["time_ns"]]
        for node, seen in last.items()
    }
    node = draft.choose(sorted(last), lambda node: draft.is_of_site() and bool(after[node]))
    lowest = min(s.physical for s in after[node])
    with_seen(draft, last[node], end_offset=lowest + 999)


@KINDS.mutation(EVIDENCE, "nothing says what brokers recovered", unknown_is_enough=True)
def recoveries_unobserved(draft: Planting) -> None:
    if "recovery" not in draft.run.facts.due:
        raise NoSuchSite
    without_kind(draft, "recovery")


@KINDS.mutation(
    EVIDENCE,
    "a broker was stopped by a fault, and nothing says that it opened its store again",
    unknown_is_enough=True,
)
def restart_unobserved(draft: Planting) -> None:
    run = draft.run
    brokers = {node for nodes in run.facts.replica_sets.values() for node in nodes}
    stopped = [
        (fault.fired_ns, node)
        for fault in run.bitten()
        for node in fault.targets
        if node in brokers and STOPS in fault.effects and fault.healed_ns and not fault.permanent
    ]
    if "recovery" not in run.facts.due:
        raise NoSuchSite
    stop = draft.choose(stopped, lambda _: draft.is_of_site())
    draft.observe(
        lambda seen: (
            seen["kind"] == "recovery"
            and seen["node"] == stop[1]
            and seen["time_ns"] > (stop[0] or 0)
        ),
        lambda seen: None,
    )


@KINDS.mutation(
    EVIDENCE,
    "an offset of a queue is skipped by acknowledgements, deliveries, commits, drains and look-ups",
    unknown_is_enough=True,
    workloads=without("bulk", "forwarded"),
)
def offset_skipped(draft: Planting) -> None:
    sent = draft.pick_sent(lambda s: s.type == "ok" and s.offset > 0)
    if not draft.is_of_site() or _may_be_passed(draft.run, sent):
        raise NoSuchSite
    for op in draft.run.ops:
        if op.value.get("topic") == sent.topic:
            changed = _shifted(op.value, [sent.broker, sent.queue], sent.offset)
            if changed:
                draft.alter(op.index, **changed)


def _may_be_passed(run: Run, sent: Sent) -> bool:
    """Whether a message that nothing is known of may have lain there."""
    lost = may_be_destroyed(run, sent.broker or "", 0)
    kinds = ("offsets", "topic", "wiped", "bit", "disk", "power", "cluster", "failing")
    moved = any(fault.kind.startswith(kinds) for fault in run.facts.faults)
    filtered = set(run.facts.groups) <= set(run.facts.wanted_tags)
    return lost or moved or filtered or run.facts.mode != "hardened"


def _shifted(value: dict[str, Any], queue: list[Any], first: int) -> dict[str, Any]:
    """The fields of an op in which offsets of a queue from the first one on are one higher."""

    def moved(offset: int | None, first: int = first) -> int | None:
        return offset + 1 if offset is not None and offset >= first else offset

    def rows(name: str, at: int, key: int | None) -> list[list[Any]]:
        """Rows with the offset at a place, of this queue if `key` says where its number is."""
        return [
            [*row[:at], moved(row[at]), *row[at + 1 :]]
            if key is None or row[key] == queue[1]
            else row
            for row in value[name]
        ]

    is_here = [value.get("broker"), value.get("queue")] == queue
    changed: dict[str, Any] = {}
    if is_here and isinstance(value.get("queue_offset"), int):
        changed["queue_offset"] = moved(value["queue_offset"])
    if is_here and isinstance(value.get("offset"), int):
        changed["offset"] = moved(value["offset"], first + 1)
    if is_here and "messages" in value:
        changed["messages"] = rows("messages", 1, None)
    if "offsets" in value:
        changed["offsets"] = [
            [*row[:2], moved(row[2], first + 1)] if row[:2] == queue else row
            for row in value["offsets"]
        ]
    if "lag" in value:
        changed["queues"] = [
            [*row[:3], *(moved(end, first + 1) for end in row[3:])] if row[:2] == queue else row
            for row in value["queues"]
        ]
    if "indexed" in value and value["broker"] == queue[0]:
        changed |= {name: rows(name, 2, 1) for name in ("messages", "searched") if name in value}
        if "searched" in changed:
            changed["searched"] = [
                [*row[:4], moved(row[4]), *row[5:]] if row[1] == queue[1] else row
                for row in changed["searched"]
            ]
    return changed


@KINDS.mutation(
    EVIDENCE,
    "a broker opened its store again in the middle of the run, and no fault or exit says why",
    unknown_is_enough=True,
)
def opened_for_no_reason(draft: Planting) -> None:
    run = draft.run
    starts = [seen for seen in run.observations if seen["kind"] == "recovery"]
    start = draft.choose(starts, lambda seen: run.is_at("rest", seen["time_ns"], run.end_ns))
    if draft.site == "fault" or "recovery" not in run.facts.due:
        raise NoSuchSite
    draft.observations.append({**start, "time_ns": (start["time_ns"] + run.end_ns) // 2})
