"""Choosing what to mutate: messages and deliveries that nothing else already concerns."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.checkers.model.history import Op
from tests.checkers.mutations.draft import Draft, at_index
from tests.checkers.mutations.events import Delivery, Sent
from tests.checkers.mutations.model import Member, NoSuchSite, Run, S, Tenure

DESTROYS = ("disk_lost", "wiped_slave", "failing_disk", "bit_rot")
DESTROYS_UNSYNCED = ("power_cut", "cluster_power_cut", "kill")
# What may make a group's offset, or the end of a queue, go back.
LOSES_A_TAIL = (
    "power_cut",
    "cluster",
    "disk_lost",
    "disk_full",
    "wiped",
    "failing_disk",
    "offsets",
    "topic",
    "bit",
)
RESTARTS = (*LOSES_A_TAIL, "kill", "graceful", "rolling", "pause", "slow_disk")
SECOND = "second-group"
SECOND_PROCESS = 50_000  # added to the process of each member


def is_normal(run: Run, delivery: Delivery) -> bool:
    """A first, successful delivery of a message of the load to a member."""
    return (
        delivery.type == "ok"
        and delivery.tries == 0
        and delivery.topic in run.facts.topics
        and delivery.key in run.sends
        and delivery.process > 90_000
        and delivery.process != 99_999
    )


def only_delivery(run: Run, key: str, group: str) -> Delivery | None:
    """The one delivery of a message to a group, if there is just one and it is normal."""
    found = [delivery for delivery in run.by_key.get(key, ()) if delivery.group == group]
    return found[0] if len(found) == 1 and is_normal(run, found[0]) else None


def nodes_of(run: Run, delivery: Delivery) -> tuple[str, ...]:
    """Nodes that a delivery depends on."""
    return (*run.nodes_of_broker(delivery.broker), delivery.node or "")


def is_delivered_once(run: Run, key: str) -> bool:
    """Every delivery of this message is normal, and each member or group has one."""
    found = run.by_key.get(key, [])
    return (
        bool(found)
        and all(is_normal(run, d) for d in found)
        and len({d.process for d in found}) == len(found)
    )


def may_be_destroyed(run: Run, broker: str, begin_ns: int) -> bool:
    """Whether a fault after that time can have destroyed a message of this broker."""
    nodes = set(run.nodes_of_broker(broker))
    kinds: tuple[str, ...] = DESTROYS
    if run.facts.flush == "async" or run.facts.transient_pool:
        kinds += DESTROYS_UNSYNCED
    return any(
        fault.kind.startswith(kinds)
        and (nodes & set(fault.targets) or fault.kind.startswith("cluster"))
        for fault in run.facts.faults
        if fault.fired_ns is not None
        and (fault.healed_ns is None or fault.healed_ns + 15 * S > begin_ns)
    )


def neighbours(run: Run, fits: Callable[[Sent, Sent], bool]) -> list[tuple[Sent, Sent]]:
    """Messages next to each other in a queue, the lower offset first, both acknowledged there."""
    queues: dict[tuple[str, str | None, int], list[Sent]] = {}
    for sent in run.sends.values():
        if (
            sent.offset >= 0
            and sent.at is not None
            and sent.type in ("ok", "info")
            and sent.is_plain
        ):
            queues.setdefault((sent.topic, sent.broker, sent.queue), []).append(sent)
    found = []
    for several in queues.values():
        several.sort(key=lambda sent: sent.offset)
        found += [
            (low, high)
            for low, high in itertools.pairwise(several)
            if high.offset == low.offset + 1 and fits(low, high)
        ]
    return found


def tenure_of(run: Run, delivery: Delivery) -> Tenure | None:
    """The tenure of the member that a message was delivered to, at that time."""
    return next(
        (
            tenure
            for tenure in run.tenures
            if tenure.process == delivery.process
            and tenure.group == delivery.group
            and (tenure.topic, tenure.broker, tenure.queue) == delivery.place
            and tenure.begin_ns <= delivery.begin_ns <= tenure.end_ns
        ),
        None,
    )


def other_member(run: Run, delivery: Delivery, begin_ns: int, end_ns: int) -> Member | None:
    """A member of the same group that lives all that time and owns nothing of that queue."""
    for member in run.members:
        if (
            member.process != delivery.process
            and member.group == delivery.group
            and member.begin_ns < begin_ns - S
            and member.end_ns > end_ns
            and not any(
                tenure.process == member.process
                and tenure.group == delivery.group
                and (tenure.topic, tenure.broker, tenure.queue) == delivery.place
                and tenure.begin_ns <= end_ns + 5 * S
                and tenure.end_ns >= begin_ns - 10 * S
                for tenure in run.tenures
            )
        ):
            return member
    return None


def has_two_groups(run: Run) -> bool:
    return len(run.facts.groups) > 1 and len(set(run.facts.groups.values())) == 1


@lru_cache(maxsize=4)
def two_groups(run: Run) -> Run:
    """The run itself if several groups consume its topic, or one in which a second group saw what the first one did.

    Raises NoSuchSite.
    """
    if has_two_groups(run):
        return run
    if (
        len(run.facts.groups) != 1
        or run.facts.broadcasting
        or run.workload in ("forwarded", "request-reply")
    ):
        raise NoSuchSite
    (group,) = run.facts.groups
    nodes = {node: f"{node}-b" for node in run.facts.consumers}
    ops: list[Op] = []
    for op in run.ops:
        ops.append(op)
        if op.value.get("group") == group and op.f != "reply":
            ops.append(_of_second_group(op, group, nodes))
    facts = run.facts
    named = {name: tuple(values) for name, values in facts.groups.items()}
    facts = replace(
        facts,
        groups={**named, SECOND: named[group]},
        consumers=(*facts.consumers, *nodes.values()),
        orderly=(*facts.orderly, SECOND) if group in facts.orderly else facts.orderly,
        retries_max={**facts.retries_max, SECOND: facts.retries_max[group]}
        if group in facts.retries_max
        else facts.retries_max,
        faults=tuple(_of_both_groups(fault, nodes) for fault in facts.faults),
    )
    links = {
        fault: (*concerned, *(nodes[t] for t in concerned if t in nodes))
        for fault, concerned in run.links.items()
    }
    dense = [at_index(op, index) for index, op in enumerate(ops)]
    return replace(run, ops=dense, facts=facts, links=links)


def _of_both_groups(fault: FaultFacts, nodes: Mapping[str, str]) -> FaultFacts:
    """The fault as it strikes members of the second group, too, wherever it strikes those of the first."""
    pairs = [(nodes.get(a, a), nodes.get(b, b)) for a, b in fault.links]
    struck = [replace(one, node=nodes[one.node]) for one in fault.struck if one.node in nodes]
    return replace(
        fault,
        targets=(*fault.targets, *(nodes[node] for node in fault.targets if node in nodes)),
        links=tuple(dict.fromkeys((*fault.links, *pairs))),
        struck=(*fault.struck, *struck),
    )


def _of_second_group(op: Op, group: str, nodes: dict[str, str]) -> Op:
    value = {**op.value, "group": SECOND}
    topic = value.get("topic", "")
    if topic.startswith("%"):
        value["topic"] = topic.replace(group, SECOND)
        # Copies of the second group are records of their own.
        if "messages" in value and op.f == "consume":
            value["messages"] = [[m[0], m[1], m[2] + 1, *m[3:]] for m in value["messages"]]
        if "ranges" in value:
            value["ranges"] = [[m[0], m[1], m[2] + 1, *m[3:]] for m in value["ranges"]]
    process = op.process if op.process == 99_999 else op.process + SECOND_PROCESS
    return replace(op, value=value, process=process, node=nodes.get(op.node or "", op.node))


def is_settled(
    run: Run, delivery: Delivery, until_ns: int, *, any_fault: bool = False, after_s: float = 20.0
) -> bool:
    """Whether its member keeps the queue until then, and no fault explains what else happens to the queue.

    A member that keeps its queue goes on from where it was, whatever becomes of brokers and links; only a broker that
    loses the end of its log or a group's offset may set it back. `any_fault`: what is planted takes an idle world.
    """
    return (
        keeps_queue(run, delivery, until_ns)
        and not run.is_explained(
            delivery.begin_ns - S, until_ns + S, (delivery.node or "",), after_s
        )
        and not run.is_explained(
            delivery.begin_ns - S,
            until_ns + S,
            run.nodes_of_broker(delivery.broker),
            after_s,
            ("",) if any_fault else LOSES_A_TAIL,
        )
    )


def keeps_queue(run: Run, delivery: Delivery, until_ns: int) -> bool:
    """Whether its member has the queue from 5 s before until 5 s after."""
    tenure = tenure_of(run, delivery)
    return (
        tenure is not None
        and tenure.begin_ns < delivery.begin_ns - 5 * S
        and tenure.end_ns > until_ns + 5 * S
        and until_ns < run.end_ns
    )


def message_of(run: Run, delivery: Delivery) -> list[Any]:
    return Draft(run).messages(delivery)[delivery.slot]


def following(run: Run, delivery: Delivery, span_ns: int) -> list[Delivery]:
    """Deliveries of the same queue to the same group from this one on, until so much later."""
    return [
        d
        for d in run.deliveries
        if d.group == delivery.group
        and d.place == delivery.place
        and delivery.begin_ns <= d.begin_ns <= delivery.begin_ns + span_ns
    ]


def unanswered(draft: Draft, sent: Sent) -> None:
    """Let a send end without an answer, and without what the answer said."""
    assert sent.at is not None
    draft.alter(
        sent.at, queue_offset=None, physical_offset=None, status=None, broker=None, queue=None
    )
    draft.replace(sent.at, type="info", error="no answer in 3 s")


def outcome_unknown(draft: Draft, sent: Sent) -> None:
    """Let the answer to a send be lost: its outcome is unknown, and what the answer said, too."""
    unanswered(draft, sent)
    draft.observe_ack(sent.key, lambda o: None)
    draft.look_up(sent.key, lambda row: None)


def on_master_only(draft: Draft, sent: Sent, status: str = "FLUSH_SLAVE_TIMEOUT") -> None:
    """Let a send be answered with a weak status, truly: its message was on the master alone by then."""
    assert sent.at is not None
    draft.alter(sent.at, status=status)
    draft.replace(sent.at, type="info", error=status)
    draft.observe_ack(
        sent.key,
        lambda o: {
            **o,
            "status": status,
            "durable_on": o["durable_on"][:1],
            "cached_on": o["cached_on"][:1],
        },
    )
    draft.look_up(sent.key, lambda row: None)


def queues_at(run: Run, process: int, group: str, topic: str, time_ns: int) -> list[list[object]]:
    """What a member had of a topic then."""
    return sorted(
        [t.broker, t.queue]
        for t in run.tenures
        if (t.process, t.group, t.topic) == (process, group, topic)
        and t.begin_ns <= time_ns < t.end_ns
    )
