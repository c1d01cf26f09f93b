"""Shows how consumer groups passed a message: the owners of its queue, and their reads and commits there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from staticfire.checkers.guarantees.verdict import Finding, seconds
from staticfire.checkers.model.history import Op
from staticfire.checkers.model.message_ranges import messages_of, of_delivery
from staticfire.checkers.op_kinds.values import SendValue
from staticfire.harness.explain.event import Event
from staticfire.harness.explain.op_events import traits

EVERYTHING = "*"  # the expression of a member that wants all messages


def ownership(
    ops: Iterable[Op], group: str | None, topic: str | None, queue: Sequence[object]
) -> Iterator[Event]:
    """Yield when members of a group get a queue, `[broker, queue]`, and give it up."""
    owners: set[int] = set()  # processes
    expressions: dict[int, str] = {}  # of members
    wanted = former = ""  # the last expression of the group, and the one before it
    for op in ops:
        if op.f == "open" and op.value.get("group") == group:
            expression = expressions[op.process] = op.value.get("expression") or EVERYTHING
            if expression != wanted:
                wanted, former = expression, wanted
        if op.f != "assign" or (op.value.get("group"), op.value.get("topic")) != (group, topic):
            continue
        has = list(queue) in op.value["queues"]
        if has != (op.process in owners):
            text = f"{group} {'has' if has else 'gives up'} the queue"
            expression = expressions.get(op.process, EVERYTHING)
            if has and (former or expression != EVERYTHING):
                text += f", and wants {expression}"
                text += f"; formerly {former}" if former and expression == wanted else ""
            yield Event(time_ns=op.time_ns, where=op.node or "", text=text)
        owners = owners | {op.process} if has else owners - {op.process}


def owners_between(
    witness: Finding, ops: Iterable[Op], group: str, since_ns: int, until_ns: int
) -> Iterator[Event]:
    """Return the owners of a finding's queue in a group at a time, and the changes until another time."""
    owned = list(ownership(ops, group, witness.topic, [witness.broker, witness.queue]))
    yield from [event for event in owned if event.time_ns < since_ns][-1:]
    yield from [event for event in owned if since_ns <= event.time_ns <= until_ns]


def passing(
    witness: Finding, ops: Sequence[Op], since_ns: int, unconcerned: Collection[str] = ()
) -> Iterator[Event]:
    """Return how each group without the message passed it: its last steps before, and its first steps past it.

    For a group that never went past it, return the last delivery before it.

    Args:
        since_ns: creation time of the message; earlier assignments are the state at that time.
        unconcerned: groups that do not want the message.
    """
    if witness.queue_offset is None or witness.queue_offset < 0:
        return
    sent = {op.value.get("key"): op.value for op in ops if op.f == "send" and op.type == "invoke"}
    for group in sorted(_readers(witness, ops).difference(unconcerned)):
        past = list(_past(witness, ops, group, sent))
        before = list(_before(witness, ops, group, sent))
        yield from past
        yield from before
        if not past:
            continue
        first_ns = min(event.time_ns for event in past)
        yield from _commit_before(witness, ops, group, first_ns)
        last_ns = max(event.time_ns for event in past)
        yield from owners_between(witness, ops, group, since_ns, last_ns)


def _readers(witness: Finding, ops: Iterable[Op]) -> set[str]:
    """Return the groups that read the topic of a finding; only the group of the finding, if it names one."""
    found = {
        op.value["group"]
        for op in ops
        if op.f in ("commit", "begin", "consume", "consume_many")
        and op.value.get("topic") == witness.topic
        and op.value.get("group") is not None
    }
    return found if witness.group is None else found & {witness.group}


def steps_between(
    witness: Finding, ops: Iterable[Op], group: str, since_ns: int, until_ns: int
) -> Iterator[Event]:
    """Yield each start of a reader and the last commit of a group in a finding's queue, between two times."""
    commits = []
    for op in ops:
        if not since_ns <= op.time_ns <= until_ns or op.value.get("group") != group:
            continue
        if op.f == "begin" and _is_queue(witness, op):
            yield _begin(op, group)
        commits += [_commit(op, group, offset) for offset in _committed(witness, op)]
    yield from commits[-1:]


def _commit(op: Op, group: str, offset: int) -> Event:
    text = f"{group} commits offset {offset} of the queue"
    return Event(time_ns=op.time_ns, where=op.node or "", text=text)


def _begin(op: Op, group: str) -> Event:
    offset = op.value.get("offset")
    at = (
        f" at offset {offset}"
        if offset is not None
        else "; the broker knows no offset of the group"
    )
    text = f"{group} begins to read the queue{at}"
    return Event(time_ns=op.time_ns, where=op.node or "", text=text)


def last_steps(witness: Finding, ops: Iterable[Op], group: str) -> Iterator[Event]:
    """Yield what a group last did in a finding's queue until the finding: its start, deliveries and commits.

    The last delivery of each member is shown with the listener's answer, or that it had none.
    """
    begins: list[Event] = []
    commits: list[Event] = []
    given: dict[int, tuple[Op, list[int]]] = {}  # by process, with the offsets
    ended: dict[tuple[int, int], str] = {}  # what the listener did, by process and first offset
    for op in ops:
        if op.time_ns > witness.time_ns:
            break
        if op.value.get("group") != group:
            continue
        commits += [_commit(op, group, offset) for offset in _committed(witness, op)]
        if op.f == "begin" and _is_queue(witness, op):
            begins.append(_begin(op, group))
        offsets = [offset for _, offset in _messages(witness, op)]
        if offsets and op.type == "invoke":
            given[op.process] = op, offsets
            ended.pop((op.process, offsets[0]), None)
        elif offsets:
            how = "has ended" if op.type == "ok" else "has failed"
            ended[op.process, offsets[0]] = f"{how}, at {seconds(op.time_ns)}"
    yield from begins[-1:]
    yield from commits[-2:]
    for op, offsets in given.values():
        low, high = min(offsets), max(offsets)
        which = f"offset {low}" if low == high else f"offsets {low} to {high}"
        how = ended.get((op.process, offsets[0]), "has not ended")
        text = f"{group} gets {which} of the queue; its listener {how}"
        yield Event(time_ns=op.time_ns, where=op.node or "", text=text)


def _commit_before(
    witness: Finding, ops: Iterable[Op], group: str, until_ns: int
) -> Iterator[Event]:
    """Return the last commit of a group up to the message, before a time."""
    found = [
        _commit(op, group, offset)
        for op in ops
        if op.value.get("group") == group and op.time_ns < until_ns
        for offset in _committed(witness, op)
        if offset <= (witness.queue_offset or 0)
    ]
    yield from found[-1:]


def _committed(witness: Finding, op: Op) -> Iterator[int]:
    """Yield the offsets that an op commits in the message's queue."""
    if op.f == "commit" and op.type == "ok" and op.value.get("topic") == witness.topic:
        for broker, queue, committed in op.value["offsets"]:
            if (broker, queue) == (witness.broker, witness.queue):
                yield committed


def _past(
    witness: Finding, ops: Iterable[Op], group: str, sent: Mapping[str | None, SendValue]
) -> Iterator[Event]:
    """Yield the first commit, the first start of a reader and the first delivery past the message."""
    seen: set[str] = set()
    for op in ops:
        if op.f in seen or op.value.get("group") != group:
            continue
        text = _past_text(witness, op, group, sent)
        if text:
            seen.add(op.f)
            yield Event(time_ns=op.time_ns, where=op.node or "", text=text)


def _past_text(witness: Finding, op: Op, group: str, sent: Mapping[str | None, SendValue]) -> str:
    offset = witness.queue_offset or 0
    for committed in _committed(witness, op):
        if committed > offset:
            return f"{group} commits offset {committed} of the queue: past it"
    begun = op.value.get("offset")  # None: the broker knows no offset of the group
    if op.f == "begin" and _is_queue(witness, op) and begun is not None and begun > offset:
        return f"{_begin(op, group).text}: past it"
    for key, given in _given(witness, op):
        if given > offset:
            return (
                f"{group} gets {key} at offset {given} of the queue, past it{_traits_of(key, sent)}"
            )
    return ""


def _traits_of(key: str | None, sent: Mapping[str | None, SendValue]) -> str:
    """Return what distinguishes the message of a key from a plain one."""
    return "".join(traits(sent[key])) if key is not None and key in sent else ""


def _before(
    witness: Finding, ops: Iterable[Op], group: str, sent: Mapping[str | None, SendValue]
) -> Iterator[Event]:
    """Return the delivery of the nearest message before it."""
    nearest: tuple[int, Event] | None = None
    for op in ops:
        if op.value.get("group") != group:
            continue
        for key, given in _given(witness, op):
            if given < (witness.queue_offset or 0) and (nearest is None or given > nearest[0]):
                text = f"{group} gets {key} at offset {given} of the queue, before it"
                text += _traits_of(key, sent)
                nearest = given, Event(time_ns=op.time_ns, where=op.node or "", text=text)
    if nearest is not None:
        yield nearest[1]


def _given(witness: Finding, op: Op) -> Iterator[tuple[str | None, int]]:
    """Yield keys and offsets of the messages that an op delivers from the message's queue."""
    if op.type == "invoke":
        yield from _messages(witness, op)


def _messages(witness: Finding, op: Op) -> Iterator[tuple[str | None, int]]:
    """Yield keys and offsets of the messages of a delivery from the message's queue, or of its end."""
    if op.f == "consume" and _is_queue(witness, op):
        yield from ((key, offset) for key, offset, *_ in op.value["messages"])
    elif op.f == "consume_many" and _is_queue(witness, op):
        for row in op.value["ranges"]:
            yield from ((key, offset) for key, offset, *_ in messages_of(of_delivery(row)))


def _is_queue(witness: Finding, op: Op) -> bool:
    value = op.value
    wanted = witness.topic, witness.broker, witness.queue
    return (value.get("topic"), value.get("broker"), value.get("queue")) == wanted
