"""Reads the life of one message from a recorded run: its ops, observations and faults, in order."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.guarantees.verdict import Finding, seconds
from staticfire.checkers.model.history import HistoryError, Op
from staticfire.checkers.model.message_ranges import (
    messages_of,
    of_delivery,
)
from staticfire.harness.explain.event import Event
from staticfire.harness.explain.fault_events import of_faults
from staticfire.harness.explain.op_events import events_of, has_key
from staticfire.harness.explain.other_message import of_other
from staticfire.harness.explain.passing import (
    last_steps,
    owners_between,
    ownership,
    passing,
    steps_between,
)
from staticfire.harness.observers.probe import PROBE_PROCESS
from staticfire.harness.recording.stored_logs import StoredLogs

BEFORE_NS = 30_000_000_000  # time before a finding without a message in which faults are shown
LAST_EVENTS = 6  # shown events of faults that ended earlier
LONG_CALL_NS = 500_000_000  # the least length of a call whose end is shown
Record = Mapping[str, Any]  # a line of observations.jsonl or faults.jsonl


def life_of(
    witness: Finding,
    ops: Iterable[Op],
    observations: Sequence[Record],
    faults: Sequence[Record],
    nodes: Collection[str],
    stored_logs: StoredLogs | None = None,
    facts: RunFacts | None = None,
) -> list[Event]:
    """Return all events about the message of a finding, oldest first.

    Args:
        witness: a finding; without a key the events are those of its queue: its owners and the faults before the
            finding. Without a queue they include nodes that ended by themselves.
        ops: of the whole run.
        observations: of the whole run.
        faults: records of the plan, as in faults.jsonl.
        nodes: servers that held the message's queue.
        stored_logs: recognises the files of logs; None: lost ranges of a disk keep the order of the record.
        facts: say which groups do not want the message by its tag; their steps are left out. None: no group is.

    The life of a message that the group received ends with the last delivery, unless its listener failed each time.
    For a message that the group did not receive and no node lost, the events show how the group passed its offset. If
    the run has no op of the message, its life begins at the time of the finding. Events of another message that proves
    the finding begin with its key.

    Raises HistoryError for an op without the fields of its kind.
    """
    every = list(ops)
    if witness.key is None:
        exits = _of_exits(witness, every) if witness.queue is None else ()
        return sorted([*_of_queue(witness, every, faults, stored_logs), *exits])
    home = next((op.value.get("topic") for op in every if _is_sent(op, witness)), None)
    found = [(op, event) for op in every for event in events_of(op, witness, home)]
    events = [event for _, event in found]
    begin_ns = min((event.time_ns for event in events), default=witness.time_ns)
    observed = list(_observed(witness, observations, nodes, begin_ns))
    lost_ns = min((event.time_ns for event, is_loss in observed if is_loss), default=None)
    unconcerned = set() if facts is None else _unconcerned(witness, every, facts)
    given = [op.time_ns for op, _ in found if _is_given(op, witness)]
    failed = sum(_is_failed(op, witness) for op in every) if given else 0
    given_ns = max(given) if len(given) > failed else None
    if given_ns is None:
        if lost_ns is None and not given:
            events += _of_groups(passing(witness, every, begin_ns, unconcerned))
        events += _of_groups(event for op in every for event in _of_drain(op, witness, unconcerned))
        events += [event for event, _ in observed]
        end_ns = max((event.time_ns for event in events), default=witness.time_ns)
    else:
        events += [event for event, is_loss in observed if is_loss or event.time_ns <= given_ns]
        end_ns = given_ns
        if witness.group is not None:
            owners = owners_between(witness, every, witness.group, begin_ns, end_ns)
            steps = steps_between(witness, every, witness.group, min(given), end_ns)
            events += _of_groups([*owners, *steps])
        events += _of_groups(_of_long_calls(witness, every))
    started_again = _of_groups(_of_unfinished_calls(witness, every))
    events += started_again
    until_ns = end_ns if lost_ns is None else lost_ns
    last_ns: dict[str, int] = {}  # by client: its later faults do not concern this message
    for event in events:
        last_ns[event.where] = max(event.time_ns, last_ns.get(event.where, 0))
    last_ns.update(dict.fromkeys(nodes, until_ns))
    shown_ns = max([until_ns, *(event.time_ns for event in started_again)])
    events += of_faults(faults, witness.topic, last_ns, begin_ns, shown_ns, stored_logs)
    events += of_other(witness, every, home)
    return sorted(dict.fromkeys(events))


def _of_queue(
    witness: Finding,
    ops: Iterable[Op],
    faults: Sequence[Record],
    stored_logs: StoredLogs | None,
) -> Iterator[Event]:
    """Yield the changes of the queue's owner, its group's last steps, and the faults of the time before the finding."""
    queue = [witness.broker, witness.queue]
    ops = list(ops)
    yield from ownership(ops, witness.group, witness.topic, queue)
    if witness.group is not None and witness.queue is not None:
        yield from _of_groups(last_steps(witness, ops, witness.group))
    at_ns = witness.time_ns
    nodes = {node: at_ns for fault in faults for node in fault["targets"]}
    topic = witness.topic
    found = list(of_faults(faults, topic, nodes, at_ns - BEFORE_NS, at_ns, stored_logs))
    # A finding long after the last fault, such as an undrained group, shows the last faults of the run.
    yield from (
        found or sorted(of_faults(faults, topic, nodes, 0, at_ns, stored_logs))[-LAST_EVENTS:]
    )


def _of_exits(witness: Finding, ops: Iterable[Op]) -> Iterator[Event]:
    """Yield the first and the last exit of each node that ended by itself before the finding, with the reason."""
    exits: dict[str, list[Op]] = {}
    for op in ops:
        if op.f == "node_exit" and op.time_ns <= witness.time_ns:
            exits.setdefault(op.node or "", []).append(op)
    for node, found in exits.items():
        reason = f": {found[0].error}" if found[0].error else ""
        yield Event(time_ns=found[0].time_ns, where=node, text=f"ends by itself{reason}")
        if len(found) > 1:
            text = f"ends by itself, {len(found)} times until now"
            yield Event(time_ns=found[-1].time_ns, where=node, text=text)


def _is_sent(op: Op, witness: Finding) -> bool:
    return op.f == "send" and op.value.get("key") == witness.key


def _is_given(op: Op, witness: Finding) -> bool:
    """Whether an op delivers the message, to the finding's group if it names one."""
    if op.type != "invoke" or witness.group not in (None, op.value.get("group")):
        return False
    if op.f == "consume":
        return has_key(op.value["messages"], witness)
    if op.f == "consume_many":
        rows = map(of_delivery, op.value["ranges"])
        return any(has_key(messages_of(row), witness) for row in rows)
    return False


def _is_failed(op: Op, witness: Finding) -> bool:
    """Whether the listener of the finding's group failed for the message."""
    if op.f != "consume" or op.type in ("invoke", "ok") or op.process == PROBE_PROCESS:
        return False
    of_group = witness.group in (None, op.value.get("group"))
    return of_group and has_key(op.value["messages"], witness)


def _unconcerned(witness: Finding, ops: Iterable[Op], facts: RunFacts) -> set[str]:
    """Return the groups that do not want the message, by its tag."""
    sent = next((op for op in ops if _is_sent(op, witness)), None)
    if sent is None:
        return set()
    tag, found = sent.value.get("tag") or "", set()
    for group, tags in facts.wanted_tags.items():
        is_before = sent.time_ns < facts.filters_changed_ns.get(group, 0)
        if tag not in (*tags, *(facts.wanted_before.get(group, ()) if is_before else ())):
            found.add(group)
    return found


def _of_drain(op: Op, witness: Finding, unconcerned: Collection[str]) -> Iterator[Event]:
    """Yield the end of a concerned group's time to read, and where the group stood in the queue of the finding."""
    if op.f != "drain":
        return
    group, topic = op.value.get("group"), op.value.get("topic")
    if witness.group not in (None, group) or (topic is not None and topic != witness.topic):
        return
    if group in unconcerned:
        return
    text = f"{group or 'the group'} has had time to read the rest"
    for broker, queue, _, end, wanted in op.value.get("queues", ()):
        if (broker, queue) == (witness.broker, witness.queue):
            text += f": its offset is {wanted}, the queue ends at {end}"
    yield Event(time_ns=op.time_ns, where=op.node or "", text=text)


def _of_long_calls(witness: Finding, ops: Iterable[Op]) -> Iterator[Event]:
    """Yield the end of each call of a listener with the message that took half a second or more."""
    begun_ns: dict[int, int] = {}  # by process
    for op in ops:
        if op.f != "consume" or not has_key(op.value["messages"], witness):
            continue
        if op.type == "invoke":
            begun_ns[op.process] = op.time_ns
            continue
        took_ns = op.time_ns - begun_ns.pop(op.process, op.time_ns)
        if took_ns >= LONG_CALL_NS and op.type == "ok":
            text = f"its listener has finished, after {seconds(took_ns)}"
            yield Event(time_ns=op.time_ns, where=op.node or "", text=text)


def _of_unfinished_calls(witness: Finding, ops: Iterable[Op]) -> Iterator[Event]:
    """Yield the next start of each client that ended while its listener had the message."""
    begun: dict[str, int] = {}  # process of a call without an end, by node
    for op in ops:
        node = op.node or ""
        if op.f == "open" and op.type == "ok" and begun.pop(node, op.process) != op.process:
            text = "starts again; its listener had not finished with the message"
            yield Event(time_ns=op.time_ns, where=node, text=text)
        elif op.f == "consume" and has_key(op.value["messages"], witness):
            if op.type == "invoke":
                begun[node] = op.process
            else:
                begun.pop(node, None)


def _of_groups(events: Iterable[Event]) -> list[Event]:
    try:
        return list(events)
    except (KeyError, TypeError, ValueError) as error:
        raise HistoryError(f"the progress of a group is malformed: {error!r:.200}") from error


def _observed(
    witness: Finding, observations: Sequence[Record], nodes: Collection[str], begin_ns: int
) -> Iterator[tuple[Event, bool]]:
    """Yield events observed inside the nodes, each with whether it shows the loss of the message on a node."""
    position = witness.physical_offset
    without: set[str] = set()  # nodes that lost it; their later recoveries do not matter
    acked_ns = min(
        (
            seen["time_ns"]
            for seen in observations
            if witness.key is not None and _is_ack_of(witness.key, seen)
        ),
        default=begin_ns,
    )
    for seen in observations:
        time_ns, kind, node = seen["time_ns"], seen["kind"], str(seen.get("node", ""))
        if witness.key is not None and _is_ack_of(witness.key, seen):
            memory = [name for name in seen["cached_on"] if name not in seen["durable_on"]]
            text = f"when acknowledged, it is on disk of {_names(seen['durable_on'])}"
            text += f", only in memory of {_names(memory)}" if memory else ""
            yield Event(time_ns=time_ns, where="", text=text), False
            if is_moved(witness, seen):
                position = None  # a node may have recovered before the message was stored
        elif kind == "administration" and _is_administered(witness, seen):
            yield Event(time_ns=time_ns, where=node, text=seen["step"]), False
        elif kind == "recovery" and node in nodes and node not in without and time_ns > begin_ns:
            if position is None or seen["clean"] or "end_offset" not in seen:
                continue
            is_lost = seen["end_offset"] <= position
            if is_lost and time_ns < acked_ns:  # the broker stored it only after this recovery
                continue
            if is_lost:
                without.add(node)
            yield (
                Event(time_ns=time_ns, where=node, text=_recovery_text(seen, position, is_lost)),
                is_lost,
            )


def _is_ack_of(key: str, seen: Record) -> bool:
    return bool(seen["kind"] == "ack_durability" and seen["key"] == key)


def _is_administered(witness: Finding, seen: Record) -> bool:
    """Whether a step of an administrator concerns the queue of a finding."""
    is_of_broker = seen["broker_name"] == witness.broker and seen["topic"] == witness.topic
    return is_of_broker and seen["queue"] in (None, witness.queue)


def is_moved(witness: Finding, seen: Record) -> bool:
    """Whether the witness is not where the send was acknowledged, because a broker stored it again when it was due."""
    end, position = seen.get("end_offset"), witness.physical_offset
    return position is not None and end is not None and end <= position


def _recovery_text(seen: Record, position: int, is_lost: bool) -> str:
    end, cut = seen["end_offset"], seen["cut_bytes"]
    has = "the message is gone" if is_lost else "the message is in it"
    checksum = ", after a bad checksum" if seen["bad_checksum"] else ""
    return f"recovers: its log ends at {end}, the message began at {position}: {has}; {cut} bytes cut{checksum}"


def _names(nodes: Sequence[str]) -> str:
    return ", ".join(nodes) if nodes else "no node"
