"""Wrongs that only crashes and broken name servers make possible, and what a broker must never answer."""

from __future__ import annotations

from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.model import NoSuchSite, S
from tests.checkers.mutations.pick import is_delivered_once
from tests.checkers.mutations.planting import Planting

POWER = ("power_cut", "cluster_power")


@KINDS.mutation(
    "log_hole",
    "a power cut takes a message, and not what was acknowledged after it by the same broker",
    workloads=("queue", "filtered", "batch", "rebalance", "ordered"),
)
def power_cut_leaves_hole(draft: Planting) -> None:
    run = draft.run
    cuts = [
        (fault.fired_ns, name)
        for fault in run.bitten()
        for name, nodes in run.facts.replica_sets.items()
        if fault.kind.startswith(POWER)
        and fault.fired_ns is not None
        and set(nodes) & set(fault.targets)
    ]
    if draft.site != "fault" or not cuts:
        raise NoSuchSite
    cut_ns, broker = draft.rng.choice(cuts)
    before = [
        sent
        for sent in run.sends.values()
        if sent.broker == broker
        and sent.type == "ok"
        and sent.physical >= 0
        and sent.time_ns < cut_ns
    ]
    if len(before) < 30:
        raise NoSuchSite
    before.sort(key=lambda sent: sent.physical)
    gone = draft.choose(before[-30:-10], lambda sent: is_delivered_once(run, sent.key))
    survivors = [sent for sent in before[-10:] if run.by_key.get(sent.key)]
    if gone is None or not survivors:
        raise NoSuchSite
    draft.drop_deliveries(run.by_key[gone.key])
    draft.look_up(gone.key, lambda row: [*row[:3], False, False, False])


@KINDS.mutation("torn_answer", "a broker answers a look-up with a record that is none")
def torn_answer(draft: Planting) -> None:
    sent = draft.pick_sent(lambda s: s.type == "ok" and s.offset >= 0)
    found = [
        (op, row)
        for op in draft.run.ops
        if op.f == "look_up"
        for row in op.value["messages"]
        if sent is not None and row[0] == sent.key
    ]
    if not found:
        raise NoSuchSite
    op, row = found[0]
    draft.alter(op.index, torn=[[*row[:3], "the sizes of a record do not add up"]])


@KINDS.mutation(
    "slow_failover",
    "a consumer that starts while one of two name servers is broken gets its first queue 20 s late",
)
def slow_failover(draft: Planting) -> None:
    run = draft.run
    broken = [
        fault
        for fault in run.bitten()
        if fault.kind.startswith("name_server")
        and fault.fired_ns is not None
        and fault.healed_ns is not None
    ]
    firsts = [
        (member, op)
        for member in run.members
        for op in run.ops
        if op.f == "assign"
        and op.process == member.process
        and op.time_ns - member.begin_ns < 5 * S
    ]
    found = draft.choose(
        firsts,
        lambda pair: any(f.fired_ns < pair[0].begin_ns < f.healed_ns - S for f in broken),  # type: ignore[operator]
    )
    if draft.site != "fault":
        raise NoSuchSite
    draft.shift_after(found[1].time_ns - 1, 20 * S)
