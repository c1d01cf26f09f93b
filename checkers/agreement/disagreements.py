"""Finds look-ups, drains and observations of one run that contradict each other.

`disagreements` yields a sentence for each contradiction; `checkers/agreement/agreement.py` turns them into a verdict.

* The harness queried a node for messages that are in their queues, and searched for none of them by time.
* A drained queue begins above messages that the node still had in a later look-up.
* The run uses queues that a topic does not have, according to its leader or its campaign. Or a drain lacks a queue
  number (queues of a topic on a broker are 0, 1, 2, ...), a queue that a member owned, or one that its leader had
  confirmed.
* The listed differences of two replicas do not begin with their first difference.
* Two nodes have equal logs and an entry for each message of them, but different numbers of entries; or a leader has
  fewer entries than the drained queues of its broker have messages.
* No record shows that a broker ever opened its store, or opened it again after a fault had stopped it. Or a broker
  opened it again, and neither a fault of its node nor an exit explains that.
* The log of a follower, or of a broker that starts, ends below data that it had according to observations
  (short_logs.py).
* A client stamped an event with a time after the one at which the harness had read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, count, pairwise

from staticfire.checkers.agreement.short_logs import short_logs
from staticfire.checkers.derived.confirmed_queues import least_queues
from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.facts import FaultFacts, RunFacts
from staticfire.checkers.guarantees.fault_effects import EMPTIES, QUEUES, STOPS
from staticfire.checkers.guarantees.fault_times import began_ns, by_target, healed_ns
from staticfire.checkers.guarantees.promises import NS_PER_S
from staticfire.checkers.model.columns import LogKey
from staticfire.checkers.model.intervals import Span
from staticfire.checkers.model.timeline import Found, LookUp

# Time after the end of a fault that stopped a broker, in which the broker may end and start more than once.
STARTED_WITHIN_NS = 60 * NS_PER_S
RECOVERIES_DUE = "recovery"  # in RunFacts.due: the run had to record every start of a broker


def disagreements(context: Context) -> Iterator[str]:
    """Yield a sentence for each contradiction in the evidence of a run."""
    yield from _unsearched(context)
    yield from _raised_drains(context)
    yield from _strange_queues(context)
    yield from _left_out(context)
    yield from _replicas(context)
    yield from _entries(context)
    yield from _unrecovered(context)
    yield from _opened_for_no_reason(context)
    yield from short_logs(context)
    yield from _future_stamps(context)


def _first_look_ups(context: Context) -> list[LookUp]:
    """Return, for each topic on each broker, the look-up of the node that the harness queried for all messages."""
    first: dict[tuple[str, str], LookUp] = {}
    for one in context.timeline.look_ups:
        first.setdefault((one.topic, one.broker), one)
    return list(first.values())


def _unsearched(context: Context) -> Iterator[str]:
    for one in _first_look_ups(context):
        if one.asked is None or one.error or one.search_error is not None:
            continue
        if one.searched or one.refused:
            continue
        if context.facts.due and any(found.in_queue for found in _searchable(one)):
            yield f"{one.broker} was asked for messages of {one.topic}, and for none of them by time"


def _searchable(one: LookUp) -> Iterator[Found]:
    """Return the last message of each queue, for whose store time the harness must search."""
    last: dict[int, Found] = {}
    for found in one.found:
        if found.queue not in last or found.queue_offset > last[found.queue].queue_offset:
            last[found.queue] = found
    torn = {of.queue for of in one.torn}
    return (found for found in last.values() if found.queue not in torn)


def _raised_drains(context: Context) -> Iterator[str]:
    look_ups = {(one.topic, one.broker): one for one in _first_look_ups(context)}
    for (group, _topic), drain in sorted(context.timeline.drains.items()):
        for queue, end in drain.ends.items():
            one = look_ups.get((queue.topic, queue.home))
            if end.min_offset <= 0 or one is None or one.op_index < drain.op_index:
                continue
            below = (
                found.queue_offset
                for found in one.found
                if found.in_queue
                if found.queue == queue.partition and found.queue_offset < end.min_offset
            )
            offset = min(below, default=None)
            if offset is not None:
                yield (
                    f"the drain of {group} says that queue {queue.partition} of {queue.home} begins "
                    f"at {end.min_offset}, and {one.node or one.broker} had offset {offset} after that"
                )


def queue_numbers(context: Context) -> Mapping[tuple[str, str], int]:
    """Return the most queues of each topic on each broker, by its leader after the run, or else by the campaign.

    A fault may add queues but removes none. After such a fault, the answer of a leader does not count if it may have
    lost queues: a leader with an emptied disk gets topics from a follower, which copies them periodically, and in
    faithful mode leaders do not fsync topics.
    """
    facts = context.facts
    known: dict[tuple[str, str], int] = {}
    if facts.queues_max:
        known = {
            (topic, name): facts.queues_max for topic in facts.topics for name in facts.replica_sets
        }
    by_leader: dict[tuple[str, str], int] = {}
    for seen in context.observations:
        table = seen.get("master") if seen["kind"] == "topic_route" else None
        if not isinstance(table, list) or len(table) != 3:
            continue
        if not _may_forget(facts, seen["broker_name"]):
            queue = seen["topic"], seen["broker_name"]
            by_leader[queue] = max(by_leader.get(queue, 0), *table[:2])
    return known | by_leader


def _may_forget(facts: RunFacts, broker: str) -> bool:
    """Whether the leader of a broker may have fewer queues after the run than it had before."""
    if not any(QUEUES in fault.effects for fault in facts.faults):
        return False
    leader = facts.replica_sets.get(broker, ())[:1]
    emptied = {node for one in facts.faults if EMPTIES in one.effects for node in one.targets}
    return facts.mode == "faithful" or not emptied.isdisjoint(leader)


def is_strange(known: Mapping[tuple[str, str], int], queue: LogKey) -> bool:
    numbers = known.get((queue.topic, queue.home))
    return numbers is not None and queue.partition >= numbers


def _strange_queues(context: Context) -> Iterator[str]:
    known, timeline = queue_numbers(context), context.timeline
    # A drain queries each broker for all queue numbers. A queue that a broker does not have begins and ends at 0.
    named = {
        queue
        for drain in timeline.drains.values()
        for queue, end in drain.ends.items()
        if end.max_offset
    }
    for queue in sorted(named | {queue for _, queue in timeline.ownership}):
        if is_strange(known, queue):
            yield (
                f"the history has queue {queue.partition} of {queue.topic} on {queue.home}, where the topic has "
                f"{known[queue.topic, queue.home]} queues at most"
            )


def _left_out(context: Context) -> Iterator[str]:
    facts = context.facts
    if not facts.due:  # another program recorded the history: a queue may have any number
        return
    fixed = facts.topics_everywhere and not any(QUEUES in fault.effects for fault in facts.faults)
    owned = {queue for _, queue in context.timeline.ownership} if fixed else set[LogKey]()
    for (group, topic), drain in sorted(context.timeline.drains.items()):
        numbers: dict[str, set[int]] = {}
        for queue in drain.ends:
            numbers.setdefault(queue.home, set()).add(queue.partition)
        for queue in sorted(owned - drain.ends.keys()):
            if queue.topic == topic and queue.home in numbers:
                yield (
                    f"a member had queue {queue.partition} of {topic} on {queue.home}, and the drain of {group} leaves "
                    "it out"
                )
        for broker, found in sorted(numbers.items()):
            absent = next(number for number in count() if number not in found)
            if absent < least_queues(context, topic, broker, drain.time_ns):
                yield (
                    f"{broker} had confirmed queue {absent} of {topic}, and the drain of {group} leaves it out"
                )
            elif absent < max(found):
                yield (
                    f"the drain of {group} has queue {max(found)} of {topic} on {broker}, and no queue {absent}"
                )


def _unrecovered(context: Context) -> Iterator[str]:
    if RECOVERIES_DUE not in context.facts.due:
        return
    facts, last_ns = context.facts, dict[str, int]()
    for seen in context.observations:
        if seen["kind"] == "recovery":
            last_ns[seen["node"]] = max(seen["time_ns"], last_ns.get(seen["node"], 0))
    nodes = sorted(node for of_broker in facts.replica_sets.values() for node in of_broker)
    for node in nodes:
        if node not in last_ns:
            yield f"nothing says that {node} ever opened its store"
    for fault in chain.from_iterable(map(by_target, facts.faults)):
        healed = fault.bitten_ns is not None and fault.healed_ns is not None
        if not healed or fault.permanent or fault.error or STOPS not in fault.effects:
            continue
        for node in fault.targets:
            if node in last_ns and last_ns[node] < (fault.fired_ns or 0):
                yield (
                    f"fault {fault.fault_id} ({fault.kind}) stopped {node}, and nothing says that it opened its store "
                    "again"
                )


def _future_stamps(context: Context) -> Iterator[str]:
    for seen in context.observations:
        if seen["kind"] == "future_stamp":
            ahead = f"{seen['ahead_ms'] / 1000:g} s after the harness had read it"
            yield f"{seen['node']} says that an event happened {ahead}: its stamps prove nothing"


def _opened_for_no_reason(context: Context) -> Iterator[str]:
    """Yield a sentence for each start of a broker that neither a fault nor an exit explains."""
    facts, started_ns = context.facts, dict[str, list[int]]()
    if RECOVERIES_DUE not in facts.due:
        return
    for seen in context.observations:
        if seen["kind"] == "recovery":
            started_ns.setdefault(seen["node"], []).append(seen["time_ns"])
    for node, times in sorted(started_ns.items()):
        why = [
            Span(began_ns(fault), healed_ns(fault))
            for fault in facts.faults
            if _may_stop(fault, node)
        ]
        why += [Span(one.time_ns, one.time_ns) for one in facts.exits if one.node == node]
        for before_ns, again_ns in pairwise(sorted(times)):
            if not any(
                of.start_ns <= again_ns and before_ns <= of.end_ns + STARTED_WITHIN_NS for of in why
            ):
                yield f"{node} opened its store again at {again_ns / NS_PER_S:.3f} s, and no fault or exit says why"


def _may_stop(fault: FaultFacts, node: str) -> bool:
    nodes = {*fault.targets, *(one.node for one in fault.struck)}
    return fault.fired_ns is not None and (not nodes or node in nodes)


def _last_replicas(context: Context) -> Sequence[Mapping[str, object]]:
    last = {
        (seen["broker_name"], seen["master"], seen["slave"]): seen
        for seen in context.observations
        if seen["kind"] == "replica"
    }
    return list(last.values())


def _replicas(context: Context) -> Iterator[str]:
    for seen in _last_replicas(context):
        first, listed = seen["first_difference"], seen.get("differences")
        if isinstance(listed, list) and listed[:1] != ([] if first is None else [first]):
            reported = "none" if first is None else f"{first}"
            yield (
                f"{seen['slave']} differs from {seen['master']} at {len(listed)} listed places, and the first "
                f"difference is {reported}"
            )


def _entries(context: Context) -> Iterator[str]:
    last = {seen["node"]: seen for seen in context.observations if seen["kind"] == "queue_entries"}
    whole = {node: seen["entries"] for node, seen in last.items() if seen["missing"] == 0}
    for seen in _last_replicas(context):
        pair = seen["master"], seen["slave"]
        equal = seen["first_difference"] is None and seen["master_end"] == seen["slave_end"]
        if not equal or not all(node in whole for node in pair):
            continue
        ours, theirs = (whole[node] for node in pair)
        if ours != theirs and seen["master_end"] > max(
            ours, theirs
        ):  # a record has more than one byte
            yield f"{pair[0]} and {pair[1]} have the same log, and {ours} and {theirs} queue entries"
    for name in context.facts.living_sets:
        nodes = context.facts.replica_sets.get(name, ())
        drained = _drained(context, name)
        if nodes and whole.get(nodes[0], drained) < drained:
            yield (
                f"{nodes[0]} has {whole[nodes[0]]} queue entries, and the drained queues of {name} hold "
                f"{drained} messages"
            )


def _drained(context: Context, broker: str) -> int:
    """Return the number of messages in the drained queues of a broker."""
    held: dict[LogKey, int] = {}
    for drain in context.timeline.drains.values():
        for queue, end in drain.ends.items():
            if queue.home == broker:
                held[queue] = max(end.max_offset - end.min_offset, 0)
    return sum(held.values())
