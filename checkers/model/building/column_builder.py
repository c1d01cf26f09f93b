"""Builds columns from ops. For speed it keeps a tuple an op and a slice a delivery, and makes the arrays at the end.

Odd behaviour of the system under test is never an error here. An op that breaks the conventions of values is a
HistoryError, because no verdict over such a history could be trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from typing import Any, TypeVar

import numpy as np

from staticfire.checkers.model.building.column_arrays import (
    CommitRow,
    ConsumeRow,
    Ids,
    SendRow,
    commit_columns,
    delivery_events,
    event_order,
    make_names,
    send_events,
)
from staticfire.checkers.model.building.column_values import BAD_VALUE, EVENT_WIDTH, bad_op, integer
from staticfire.checkers.model.building.contents_columns import ContentsBuilder
from staticfire.checkers.model.building.range_rows import RangeEvents
from staticfire.checkers.model.building.timeline_builder import TimelineBuilder, has_code
from staticfire.checkers.model.columns import (
    UNKNOWN,
    Columns,
    Commits,
    MessageEvents,
    Names,
    Outcome,
    Transaction,
    joined,
)
from staticfire.checkers.model.event_times import StampRows
from staticfire.checkers.model.gc_pause import collector_paused
from staticfire.checkers.model.history import NEMESIS, HistoryError, Op, check_function
from staticfire.checkers.model.message_contents import (
    NO_PROPERTIES,
    digest_of_properties,
    split,
    widest,
)
from staticfire.checkers.model.message_ids import MessageIds
from staticfire.checkers.model.timeline import Timeline
from staticfire.checkers.op_kinds.consumer import CONSUME_MANY
from staticfire.checkers.op_kinds.producer import SEND_MANY
from staticfire.checkers.op_kinds.values import CommitReport, SendManyValue, SendValue

WEAK_STATUSES = frozenset({"FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE"})


OnPair = Callable[[Op, Op, int], None]  # the op, its invocation (or itself), its number of events
TRANSACTIONS = {
    "commit": Transaction.COMMIT,
    "rollback": Transaction.ROLLBACK,
    "unknown": Transaction.UNKNOWN,
}
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
BATCH = 1 << 17  # ops that are converted into arrays together
SENT_TWICE = "key {!r} is sent a second time; keys are unique in a history"


def build_columns(ops: Iterable[Op]) -> tuple[Columns, Timeline]:
    """Turn a history into columns and a timeline. `ops` may be a generator; the function keeps none of its ops.

    Raises HistoryError naming the op, and any error that `ops` raises.
    """
    builder = ColumnBuilder()
    add = builder.add
    left = iter(ops)
    taken = []
    with collector_paused():
        while batch := list(islice(left, BATCH)):
            for op in batch:
                add(op)
            if len(batch) == BATCH:
                taken.append(builder.take())
        builder.finish()
        taken.append(builder.take())
    sends, deliveries, commits = zip(*taken, strict=True)
    return _whole(
        builder,
        _sorted(MessageEvents, sends),
        _sorted(MessageEvents, deliveries),
        _sorted(Commits, commits),
    )


R = TypeVar("R", MessageEvents, Commits)


def _sorted(kind: type[R], parts: Sequence[R]) -> R:
    if len(parts) == 1:
        return parts[0]
    rows = joined(kind, parts)
    order = event_order(rows.log, rows.op_index)
    return rows if order is None else rows.where(order)


def _whole(
    builder: ColumnBuilder, sends: MessageEvents, deliveries: MessageEvents, commits: Commits
) -> tuple[Columns, Timeline]:
    names = builder.names()
    check_sent_once(sends, names)
    columns = Columns(names=names, sends=sends, deliveries=deliveries, commits=commits)
    return columns, builder.timeline.timeline()


class ColumnBuilder:
    """Collects ops. `take` makes events of those that have ended; `finish` ends the open ones as unknown."""

    __slots__ = (
        "_commits",
        "_consumes",
        "_contents",
        "_delivered",
        "_handlers",
        "_nodes",
        "_on_pair",
        "_open_consumes",
        "_open_sends",
        "_ranges",
        "_sends",
        "_stamps",
        "groups",
        "messages",
        "queues",
        "sharding_keys",
        "tags",
        "timeline",
        "topics",
    )

    def __init__(self, on_pair: OnPair | None = None) -> None:
        """Start empty. `on_pair` is called with each op about messages and its invocation, when both are known."""
        self.messages = MessageIds()
        self.topics, self.groups, self.queues = Ids(), Ids(), Ids()
        self.tags, self.sharding_keys = Ids(), Ids()
        self.timeline = TimelineBuilder()
        self._nodes = self.timeline.nodes
        self._on_pair = on_pair
        self._sends: list[SendRow] = []
        self._open_sends: dict[str, Op[SendValue]] = {}
        self._consumes: list[ConsumeRow] = []  # one for each op: the values that its events share
        self._delivered: list[Sequence[object]] = []  # one for each event
        self._contents = ContentsBuilder(self.tags)
        self._stamps = StampRows()
        self._open_consumes: dict[tuple[object, ...], list[Op]] = {}  # in the order of calls
        self._commits: list[CommitRow] = []
        others = self.timeline.handlers()
        self._ranges = RangeEvents(self.messages)
        self._handlers = {**others, "send": self._send, "consume": self._consume}
        self._handlers[SEND_MANY] = self._send
        self._handlers[CONSUME_MANY] = partial(self._consume, rows="ranges")
        self._handlers["probe"] = partial(self._probe, others["probe"])
        self._handlers["commit"] = partial(self._commit, others["commit"])

    def add(self, op: Op) -> None:
        """Take the next op. Raises HistoryError naming it."""
        if op.process == NEMESIS:
            self.timeline.add(op)
            return
        handler = self._handlers.get(op.f)
        try:
            if handler is None:
                check_function(op.f, op.process)
            else:
                handler(op)
        except BAD_VALUE as error:
            raise bad_op(op, error) from error

    @property
    def events(self) -> int:
        """The number of sends and deliveries that `take` would return."""
        return len(self._sends) + len(self._delivered) + self._ranges.events

    def _send(self, op: Op[SendValue]) -> None:
        key = op.value["key"]
        if op.type == "invoke":
            if key in self._open_sends:
                raise HistoryError(SENT_TWICE.format(key))
            self._open_sends[key] = op
            if op.node is not None:
                self._nodes[op.process] = op.node
            return
        self._sent(op, self._open_sends.pop(key, op), _outcome(op))

    def _sent(self, op: Op, invoke: Op, outcome: Outcome) -> None:
        events = 1
        if outcome is Outcome.FAILED or op.value.get("end_sent") is False or has_code(op):
            self.timeline.send(op)
        if op.stamp is not None or invoke.stamp is not None:
            self._stamps.add(op, invoke)
        if op.f == SEND_MANY:
            events = self._ranges.add_send(op, self._shared(op, invoke, outcome))
        else:
            self._sends.append(self._send_row(op, invoke, outcome))
        if self._on_pair is not None:
            self._on_pair(op, invoke, events)

    def _queue_of(self, value: SendValue | SendManyValue, outcome: Outcome) -> int:
        """Return the queue of a send; only a send that is not acknowledged may have none."""
        topic = value["topic"]
        if outcome is not Outcome.OK and (
            value.get("broker") is None or value.get("queue") is None
        ):
            return UNKNOWN
        return self.queues[topic, value["broker"], value["queue"]]

    def _shared(
        self, op: Op[SendManyValue], invoke: Op[SendManyValue], outcome: Outcome
    ) -> tuple[int, ...]:
        """Return the values that the messages of a `send_many` share."""
        if outcome is Outcome.OK and "ranges" not in op.value:
            raise KeyError("ranges")
        return (
            op.index,
            invoke.index,
            op.time_ns,
            invoke.time_ns,
            op.process,
            outcome,
            self.topics[op.value["topic"]],
            self._queue_of(op.value, outcome),
            UNKNOWN,
        )

    def _send_row(self, op: Op[SendValue], invoke: Op[SendValue], outcome: Outcome) -> SendRow:
        value = op.value
        get = value.get
        topic = value["topic"]
        queue = self._queue_of(value, outcome)
        if outcome is Outcome.OK:
            integer(value["queue_offset"])
        sharding_key, tag = get("sharding_key"), get("tag")
        properties, size = value.get("properties"), value.get("size")
        return (
            op.index,
            invoke.index,
            op.time_ns,
            invoke.time_ns,
            op.process,
            outcome,
            value["key"],
            self.topics[topic],
            queue,
            get("queue_offset", UNKNOWN),
            get("physical_offset", UNKNOWN),
            get("attempts", 0),
            UNKNOWN if sharding_key is None else self.sharding_keys[sharding_key],
            UNKNOWN if tag is None else self.tags[tag],
            invoke.time_ns + integer(value["delay_ms"]) * NS_PER_MS if "delay_ms" in value else -1,
            int(TRANSACTIONS[value["transaction"]]) if "transaction" in value else 0,
            invoke.time_ns + integer(value["check_after_s"]) * NS_PER_S
            if "check_after_s" in value
            else -1,
            get("id", UNKNOWN),
            digest_of_properties(properties) if properties else NO_PROPERTIES,
            size if type(size) is int else UNKNOWN,
        )

    def _probe(self, note: Callable[[Op], None], op: Op) -> None:
        if "key" in op.value:  # its message counts as a send
            self._send(op)
        note(op)

    def _consume(self, op: Op, *, rows: str = "messages") -> None:
        value = op.value
        messages = value[rows]
        if not messages:
            return
        # A consumer may run its listener on several queues at once, and twice on one queue that it lost meanwhile.
        last = messages[-1]
        ends = (messages[0][1], last[1] if isinstance(last, list | tuple) else None)
        identity = (
            op.process,
            value["group"],
            value["topic"],
            value["broker"],
            value["queue"],
            *ends,
        )
        if op.type == "invoke":
            self._open_consumes.setdefault(identity, []).append(op)
            return
        # Of several such calls the last one ends first; a call that never ends is unfinished.
        began = self._open_consumes.get(identity)
        invoke = op if began is None else began.pop()
        if not began:
            self._open_consumes.pop(identity, None)
        if op.type == "fail":
            if self._on_pair is not None:
                self._on_pair(op, invoke, 0)
        else:
            self._deliver(op, invoke, Outcome.OK if op.type == "ok" else Outcome.UNKNOWN)

    def _deliver(self, op: Op, invoke: Op, outcome: Outcome) -> None:
        value = op.value
        topic = value["topic"]
        shared = (
            op.index,
            invoke.index,
            op.time_ns,
            invoke.time_ns,
            op.process,
            outcome,
            self.topics[topic],
            self.queues[topic, value["broker"], value["queue"]],
            self.groups[value["group"]],
        )
        if op.stamp is not None or invoke.stamp is not None:
            self._stamps.add(op, invoke)
        if op.f == CONSUME_MANY:
            events = self._ranges.add_delivery(op, shared)
        else:
            events = self._add_messages(value["messages"], invoke.value["messages"], shared)
        if self._on_pair is not None:
            self._on_pair(op, invoke, events)

    def _add_messages(
        self, messages: Sequence[Any], given: Sequence[Any], shared: tuple[int, ...]
    ) -> int:
        """Take the messages of a delivery; return their number. Usually only the invocation, `given`, has contents."""
        delivered, events = self._delivered, len(messages)
        contents = None
        if widest(messages) > EVENT_WIDTH:
            messages, contents = split(messages, EVENT_WIDTH)
        elif len(given) == events and widest(given) > EVENT_WIDTH:
            _, contents = split(given, EVENT_WIDTH)
        if contents is not None:
            self._contents.add(shared[0], len(delivered), contents)
        self._consumes.append(shared + (events,))  # noqa: RUF005 (half the time of unpacking)
        delivered.extend(messages)
        return events

    def _commit(self, note: Callable[[Op], None], op: Op[CommitReport]) -> None:
        note(op)
        if op.type == "ok":
            group, topic = self.groups[op.value["group"]], op.value["topic"]
            for broker, number, offset in op.value["offsets"]:
                queue = self.queues[topic, broker, number]
                self._commits.append((op.index, op.time_ns, op.process, group, queue, offset))
            if self._on_pair is not None:
                self._on_pair(op, op, len(op.value["offsets"]))

    def take(self) -> tuple[MessageEvents, MessageEvents, Commits]:
        """Return the sends, the deliveries and the commits since the last call. Raises HistoryError."""
        sends = send_events(self._sends, self.messages)
        contents = self._contents.take(len(self._delivered))
        deliveries = delivery_events(self._consumes, self._delivered, self.messages, contents)
        commits = commit_columns(self._commits)
        if self._ranges.events:
            many_sends, many_deliveries = self._ranges.take()
            sends = _sorted(MessageEvents, [sends, many_sends])
            deliveries = _sorted(MessageEvents, [deliveries, many_deliveries])
        sends, deliveries = self._stamps.take(sends, deliveries)
        self._sends, self._consumes, self._delivered, self._commits = [], [], [], []
        return sends, deliveries, commits

    def forget(self) -> None:
        """Free the memory that only a timeline of the whole history needs, and the keys that follow from their ids."""
        self.messages.forget()
        self.timeline.forget()

    def finish(self) -> None:
        """End all open ops as unknown, because the history has ended; `take` returns them. Raises HistoryError."""
        try:
            for op in self._open_sends.values():
                self._sent(op, op, Outcome.UNKNOWN)
            for op in chain.from_iterable(self._open_consumes.values()):
                self._deliver(op, op, Outcome.UNKNOWN)
        except BAD_VALUE as error:
            raise bad_op(op, error) from error
        self._open_sends, self._open_consumes = {}, {}

    @contextmanager
    def ended_for_now(self) -> Iterator[None]:
        """Do the same as `finish` inside the `with` block; afterwards the ops are open again. Raises HistoryError."""
        sends, consumes = self._open_sends, self._open_consumes
        self.finish()
        yield
        self._open_sends, self._open_consumes = sends, consumes

    def names(self) -> Names:
        """Return all names so far. Raises HistoryError for a value that is no name."""
        return make_names(
            self.messages, self.topics, self.queues, self.groups, self.tags, self.sharding_keys
        )


def check_sent_once(sends: MessageEvents, names: Names) -> None:
    """Raise HistoryError for a key that was sent twice, because checkers cannot distinguish the two messages."""
    order = np.argsort(sends.message, kind="stable")
    message = sends.message[order]
    again = np.flatnonzero(message[1:] == message[:-1])
    if len(again):
        row = max(
            order[again[0]], order[again[0] + 1], key=lambda row: int(sends.invoke_index[row])
        )
        what = SENT_TWICE.format(names.key(int(sends.message[row])))
        raise HistoryError(f"op {sends.op_index[row]} (process {sends.process[row]}): {what}")


def _outcome(op: Op[SendValue]) -> Outcome:
    if op.type == "fail":
        return Outcome.FAILED
    if op.type == "ok":
        # Only SEND_OK is a promise, whatever type the client that wrote this history gave the op.
        return Outcome.OK if op.value.get("status", "SEND_OK") == "SEND_OK" else Outcome.WEAK
    weak = op.error in WEAK_STATUSES or op.value.get("status") in WEAK_STATUSES
    return Outcome.WEAK if weak else Outcome.UNKNOWN
