"""Finds logs that end below data that they had according to observations.

* A follower, compared after the run, lacks messages that its leader had acknowledged long before, although no fault
  hindered it.
* A follower, compared after the run, lacks a message that its leader has, and that was on the disk of this follower
  when it was acknowledged, according to the observation. A later fault that emptied the disk of one of the two, made
  its writes fail or changed a record there explains it: a follower truncates its log to that of its leader, and fetches
  the rest again. Without sync flush so does a power cut of the leader.
* A leader opened its store, and its log ended below a message that was on its disk when it was acknowledged, according
  to the observation. A later fault that emptied the disk, or changed a record at that end, explains it. Without sync
  flush so does a power cut before a flush had surely reached the message (unflushed.py): a kernel writes pages back in
  any order, so a record may be on the disk before one below it.

Only hardened brokers are judged: those of Apache RocketMQ 4.9 cut such logs, and never fetch again (docs/faithful.md).
Cannot see: runs in which the harness did not observe disks when sends were acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.checkers.guarantees.fault_effects import EMPTIES, ROLLS_BACK, ROTS, WRITES_FAIL
from staticfire.checkers.guarantees.fault_times import began_ns, by_target, healed_ns
from staticfire.checkers.guarantees.promises import NS_PER_S, RESYNC_NS
from staticfire.checkers.guarantees.unflushed import flushed_by_ns
from staticfire.checkers.model.intervals import Span

# Time after an acknowledgement in which a follower surely gets the message; leaders send stored messages immediately.
SENT_NS = 10 * NS_PER_S
Seen = Mapping[str, Any]
SEND_OK = "SEND_OK"


def short_logs(context: Context) -> Iterator[str]:
    """Yield a sentence for each log that ends too early."""
    if context.facts.mode != "hardened":
        return
    acked: dict[str, list[Seen]] = {}
    for seen in context.observations:
        is_acked = seen["kind"] == "ack_durability" and seen["end_offset"] is not None
        # Other statuses promise nothing: data of a failed write may be visible for a moment.
        if is_acked and seen["status"] == SEND_OK:
            acked.setdefault(seen["broker_name"], []).append(seen)
    yield from _followers_behind(context, acked)
    yield from _followers_below(context, acked)
    yield from _short_recoveries(context, acked)


def _followers_behind(context: Context, acked: Mapping[str, list[Seen]]) -> Iterator[str]:
    timings, facts = context.facts.timings, context.facts
    caught_up_ns = RESYNC_NS + round(
        (timings.replication_silence_s + 2 * timings.request_s) * NS_PER_S
    )
    for (broker, follower), seen in _last_comparisons(context):
        since_ns = seen["time_ns"] - caught_up_ns
        pair = {seen["master"], follower}
        if any(_is_in_the_way(fault, pair, since_ns) for fault in facts.faults):
            continue
        if any(one.node in pair and one.time_ns > since_ns for one in facts.exits):
            continue
        missing = sum(
            seen["slave_end"] < of["end_offset"] <= seen["master_end"]
            and of["time_ns"] < seen["time_ns"] - SENT_NS
            for of in acked.get(broker, ())
        )
        if missing:
            yield (
                f"{follower} ends at {seen['slave_end']} after the run and lacks {missing} messages that {broker} had "
                f"acknowledged {SENT_NS // NS_PER_S} s before or earlier, and no fault was in its way for "
                f"{caught_up_ns // NS_PER_S} s"
            )


def _last_comparisons(context: Context) -> list[tuple[tuple[str, str], Seen]]:
    """Return the last comparison of each follower, with its replica set and name, sorted by these."""
    return sorted(
        {
            (seen["broker_name"], seen["slave"]): seen
            for seen in context.observations
            if seen["kind"] == "replica"
        }.items()
    )


def _followers_below(context: Context, acked: Mapping[str, list[Seen]]) -> Iterator[str]:
    """Yield a sentence for each follower that ends below data of its disk; only faults that destroy data excuse it."""
    for (broker, follower), seen in _last_comparisons(context):
        taken_ns = _taken_until(context, seen["master"], follower)
        held = max(
            (
                of["end_offset"]
                for of in acked.get(broker, ())
                if follower in of["durable_on"] and of["time_ns"] > taken_ns
                if of["end_offset"] <= seen["master_end"]
            ),
            default=0,
        )
        if seen["slave_end"] < held:
            yield (
                f"{follower} ends at {seen['slave_end']} after the run, and its disk had held what was acknowledged up "
                f"to {held}"
            )


def _taken_until(context: Context, leader: str, follower: str) -> int:
    """Return the end of the last fault that may have destroyed data on the disks of two replicas, in ns; or -1."""
    takes = (EMPTIES, ROTS, WRITES_FAIL)
    of_leader = takes if context.facts.leaders_keeping == "sync" else (*takes, ROLLS_BACK)
    faults = chain(_faults_of(context, follower, *takes), _faults_of(context, leader, *of_leader))
    return max(map(healed_ns, faults), default=-1)


def _is_in_the_way(fault: FaultFacts, pair: set[str], since_ns: int) -> bool:
    """Whether a fault that bit may have affected one of two replicas after `since_ns`."""
    if fault.bitten_ns is None or healed_ns(fault) < since_ns:
        return False
    nodes = {*fault.targets, *chain.from_iterable(fault.links)}
    return not nodes or not nodes.isdisjoint(pair)


def _short_recoveries(context: Context, acked: Mapping[str, list[Seen]]) -> Iterator[str]:
    leaders = {nodes[0]: broker for broker, nodes in context.facts.replica_sets.items() if nodes}
    for seen in context.observations:
        if seen["kind"] != "recovery" or "end_offset" not in seen or seen["node"] not in leaders:
            continue
        node, end, at_ns = seen["node"], seen["end_offset"], seen["time_ns"]
        known_ns = _explained_until(context, node, end, at_ns)
        failing = [
            Span(began_ns(of), healed_ns(of)) for of in _faults_of(context, node, WRITES_FAIL)
        ]
        durable = max(
            (
                of["end_offset"]
                for of in acked.get(leaders[node], ())
                if node in of["durable_on"] and known_ns < of["time_ns"] < at_ns
                # While writes fail, a disk may show bytes for a moment, and lose them when the fsync fails.
                if not any(span.start_ns <= of["time_ns"] <= span.end_ns for span in failing)
                if not _was_cut_off(context, node, of["time_ns"], at_ns)
            ),
            default=0,
        )
        if end < durable:
            yield (
                f"{node} recovered its log up to {end} at {at_ns / NS_PER_S:.3f} s, and its disk had held what was "
                f"acknowledged up to {durable}"
            )


def _was_cut_off(context: Context, node: str, acked_ns: int, at_ns: int) -> bool:
    """Whether a power cut before the start at `at_ns` may have come before the log below a record was flushed."""
    facts = context.facts
    if facts.leaders_keeping == "sync":
        return False
    flushed_ns = flushed_by_ns(facts, node, acked_ns)
    return any(
        began_ns(cut) < min(flushed_ns, at_ns) and acked_ns <= healed_ns(cut)
        for cut in _faults_of(context, node, ROLLS_BACK)
    )


def _explained_until(context: Context, node: str, end: int, at_ns: int) -> int:
    """Return the time, in ns, at which a fault last emptied a node's disk or changed its last record before this start.

    Without such a fault: -1.
    """
    times = [-1]
    for fault in _faults_of(context, node, EMPTIES, ROTS):
        if began_ns(fault) > at_ns:
            continue
        rotten = ROTS in fault.effects and any(
            record.start <= end <= record.end for record in fault.records
        )
        if EMPTIES in fault.effects or rotten:
            times.append(at_ns if rotten else min(healed_ns(fault), at_ns))
    return max(times)


def _faults_of(context: Context, node: str, *effects: str) -> Iterator[FaultFacts]:
    """Yield the faults that bit a node with one of these effects, by target."""
    for fault in chain.from_iterable(map(by_target, context.facts.faults)):
        if (
            fault.bitten_ns is not None
            and node in fault.targets
            and not set(effects).isdisjoint(fault.effects)
        ):
            yield fault
