"""Ops to columns, fast: a tuple an op, a slice a delivery, and the arrays in one go at the end.

Types are checked by column (a set of types), and only a bad column is searched for its culprit. What
the system under test did is never an error here, however odd; an op that breaks the conventions of
values is a HistoryError, because no verdict could be trusted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import numpy as np

from checkers.columns import (
    INTERNAL_TOPICS,
    UNKNOWN,
    Columns,
    Commits,
    Ints,
    Names,
    Outcome,
    QueueKey,
    Touches,
)
from checkers.history import NEMESIS, HistoryError, Op, check_function
from checkers.timeline import Commit, Drain, Opened, Ownership, Probe, QueueEnd, Timeline

WEAK_STATUSES = frozenset({"FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE"})
_TOUCH_WIDTH = 5  # key, queue offset, physical offset, body_ok, reconsume times


def build_columns(ops: Iterable[Op]) -> tuple[Columns, Timeline]:
    """Turn a history into columns and a timeline. Raises HistoryError naming the op."""
    builder = _Builder()
    handlers = builder.handlers()
    for op in ops:
        if op.process == NEMESIS:
            continue
        handler = handlers.get(op.f)
        try:
            if handler is None:
                check_function(op.f, op.process)
            else:
                handler(op)
        except KeyError as error:
            raise HistoryError(f"{_place(op)}: the value lacks {error}") from error
        except (TypeError, ValueError, AttributeError, IndexError) as error:
            raise HistoryError(f"{_place(op)}: {error}") from error
    return builder.columns(), builder.timeline()


def _place(op: Op) -> str:
    return f"op {op.index} ({op.process} {op.type} {op.f})"


class _Ids(defaultdict[Any, int]):
    """Numbers things 0, 1, 2, ... in order of first use. Look up with []."""

    def __init__(self) -> None:
        super().__init__()
        self.default_factory = self.__len__


class _Builder:
    __slots__ = (
        "_assigned",
        "_assignments",
        "_commits",
        "_consumes",
        "_delivered",
        "_drains",
        "_groups",
        "_nodes",
        "_open_consumes",
        "_open_sends",
        "_opens",
        "_ownership",
        "_probes",
        "_queues",
        "_sends",
        "_sent",
        "_topics",
    )

    def __init__(self) -> None:
        self._sends: list[tuple[Any, ...]] = []  # a row each, the order of _send_row
        self._sent: set[str] = set()
        self._open_sends: dict[str, Op] = {}
        self._consumes: list[tuple[int, ...]] = []  # an op each: what its touches share
        self._delivered: list[Sequence[Any]] = []  # a touch each
        self._open_consumes: dict[tuple[Any, ...], Op] = {}
        self._topics, self._groups, self._queues = _Ids(), _Ids(), _Ids()
        self._commits: dict[tuple[str, QueueKey], list[Commit]] = {}
        self._ownership: dict[tuple[str, QueueKey], list[Ownership]] = {}
        self._assigned: dict[tuple[int, str, str], set[QueueKey]] = {}
        self._assignments: dict[int, list[int]] = {}
        self._drains: dict[tuple[str, str], Drain] = {}
        self._probes: list[Probe] = []
        self._opens: list[Opened] = []
        self._nodes: dict[int, str] = {}

    def handlers(self) -> dict[str, Callable[[Op], None]]:
        return {
            "send": self._send,
            "probe": self._probe,
            "consume": self._consume,
            "assign": self._assign,
            "commit": self._commit,
            "drain": self._drain,
            "open": self._open,
        }

    def _send(self, op: Op) -> None:
        key = op.value["key"]
        if op.type == "invoke":
            self._begin_send(key)
            self._open_sends[key] = op
            if op.node is not None:
                self._nodes[op.process] = op.node
            return
        invoke = self._open_sends.pop(key, None)
        if invoke is None:
            self._begin_send(key)
            invoke = op
        self._sends.append(self._send_row(op, invoke, _outcome(op)))

    def _begin_send(self, key: str) -> None:
        if key in self._sent:
            raise HistoryError(f"key {key!r} is sent a second time; keys are unique in a history")
        self._sent.add(key)

    def _send_row(self, op: Op, invoke: Op, outcome: Outcome) -> tuple[Any, ...]:
        value = op.value
        topic = value["topic"]
        if outcome is Outcome.OK:
            queue = self._queues[topic, value["broker"], value["queue"]]
            _int(value["queue_offset"])
        elif value.get("broker") is None or value.get("queue") is None:
            queue = UNKNOWN
        else:
            queue = self._queues[topic, value["broker"], value["queue"]]
        return (
            op.index,
            invoke.index,
            op.time_ns,
            invoke.time_ns,
            op.process,
            outcome,
            value["key"],
            self._topics[topic],
            queue,
            value.get("queue_offset", UNKNOWN),
            value.get("physical_offset", UNKNOWN),
            value.get("attempts", 0),
        )

    def _probe(self, op: Op) -> None:
        if "key" in op.value:  # it is a message like any other
            self._send(op)
        if op.type != "invoke":
            self._probes.append(
                Probe(
                    op_index=op.index,
                    time_ns=op.time_ns,
                    broker=_text(op.value["broker"]),
                    type=op.type,
                    error=op.error,
                )
            )

    def _open(self, op: Op) -> None:
        if op.type == "ok" and op.node is not None:
            self._opens.append(Opened(op.time_ns, op.process, op.node))
            self._nodes[op.process] = op.node

    def _consume(self, op: Op) -> None:
        value = op.value
        messages = value["messages"]
        if not messages:
            return
        # One consumer runs its listener on several queues at a time.
        place = (value["topic"], value["broker"], value["queue"], messages[0][1])
        identity = (op.process, value["group"], *place)
        invoke = self._open_consumes.pop(identity, None)
        if op.type == "invoke":
            if invoke is not None:
                self._deliver(invoke, invoke, Outcome.UNKNOWN)
            self._open_consumes[identity] = op
        elif op.type != "fail":
            ended = Outcome.OK if op.type == "ok" else Outcome.UNKNOWN
            self._deliver(op, op if invoke is None else invoke, ended)

    def _deliver(self, op: Op, invoke: Op, outcome: Outcome) -> None:
        value = op.value
        messages = value["messages"]
        topic = value["topic"]
        self._consumes.append(
            (
                op.index,
                invoke.index,
                op.time_ns,
                invoke.time_ns,
                op.process,
                outcome,
                self._topics[topic],
                self._queues[topic, value["broker"], value["queue"]],
                self._groups[value["group"]],
                len(messages),
            )
        )
        self._delivered.extend(messages)

    def _assign(self, op: Op) -> None:
        if op.type != "ok":
            return
        group, topic = _text(op.value["group"]), _text(op.value["topic"])
        now = {QueueKey(topic, _text(broker), _int(queue)) for broker, queue in op.value["queues"]}
        before = self._assigned.get((op.process, group, topic), set())
        for queue in sorted(now ^ before):
            change = Ownership(
                op.index, op.time_ns, op.process, "gained" if queue in now else "lost"
            )
            self._ownership.setdefault((group, queue), []).append(change)
        self._assigned[op.process, group, topic] = now
        self._assignments.setdefault(op.process, []).append(op.index)

    def _commit(self, op: Op) -> None:
        if op.type != "ok":
            return
        group, topic = _text(op.value["group"]), _text(op.value["topic"])
        for broker, number, offset in op.value["offsets"]:
            queue = QueueKey(topic, _text(broker), _int(number))
            commit = Commit(op.index, op.time_ns, op.process, _int(offset))
            self._commits.setdefault((group, queue), []).append(commit)

    def _drain(self, op: Op) -> None:
        if op.type in ("invoke", "fail"):
            return
        group, topic = _text(op.value["group"]), _text(op.value["topic"])
        ends = {
            QueueKey(topic, _text(broker), _int(number)): QueueEnd(_int(low), _int(end), _int(done))
            for broker, number, low, end, done in op.value["queues"]
        }
        self._drains[group, topic] = Drain(
            op_index=op.index,
            time_ns=op.time_ns,
            complete=op.type == "ok",
            lag=_int(op.value["lag"]),
            ends=ends,
        )

    def columns(self) -> Columns:
        for invoke in self._open_sends.values():
            self._sends.append(self._send_row(invoke, invoke, Outcome.UNKNOWN))
        for invoke in self._open_consumes.values():
            self._deliver(invoke, invoke, Outcome.UNKNOWN)
        messages = _Ids()
        sends = self._send_touches(messages)
        deliveries = self._delivery_touches(messages)
        commits = self._commit_columns()
        return Columns(
            names=self._names(messages), sends=sends, deliveries=deliveries, commits=commits
        )

    def timeline(self) -> Timeline:
        return Timeline(
            commits=self._commits,
            ownership=self._ownership,
            assignments=self._assignments,
            drains=self._drains,
            probes=self._probes,
            opens=self._opens,
            nodes=self._nodes,
        )

    def _send_touches(self, messages: _Ids) -> Touches:
        rows = _transpose(self._sends, 12)
        keys = rows[6]
        at = rows[0]
        _check_types(keys, {str}, "key", at)
        size = len(keys)
        return Touches(
            op_index=_ints(at, "index", at),
            invoke_index=_ints(rows[1], "index", at),
            time_ns=_ints(rows[2], "time_ns", at),
            invoke_ns=_ints(rows[3], "time_ns", at),
            process=_ints(rows[4], "process", at),
            outcome=np.array(rows[5], np.int64),
            message=np.array(list(map(messages.__getitem__, keys)), np.int64),
            topic=np.array(rows[7], np.int64),
            queue=np.array(rows[8], np.int64),
            group=np.full(size, UNKNOWN, np.int64),
            queue_offset=_ints(rows[9], "queue_offset", at),
            physical_offset=_ints(rows[10], "physical_offset", at),
            tries=_ints(rows[11], "attempts", at),
            body_ok=np.ones(size, np.bool_),
        )

    def _delivery_touches(self, messages: _Ids) -> Touches:
        ops = np.array(self._consumes, np.int64).reshape(len(self._consumes), 10)
        shared = np.repeat(ops[:, :9], ops[:, 9], axis=0).T.copy()
        at = shared[0]
        _check_widths(self._delivered, at)
        keys, offsets, physical, body_ok, tries = _transpose(self._delivered, _TOUCH_WIDTH)
        _check_types(keys, {str, type(None)}, "key", at)
        _check_types(body_ok, {bool}, "body_ok", at)
        return Touches(
            op_index=shared[0],
            invoke_index=shared[1],
            time_ns=shared[2],
            invoke_ns=shared[3],
            process=shared[4],
            outcome=shared[5],
            message=_message_ids(keys, messages),
            topic=shared[6],
            queue=shared[7],
            group=shared[8],
            queue_offset=_ints(offsets, "queue_offset", at),
            physical_offset=_ints(physical, "physical_offset", at),
            tries=_ints(tries, "reconsume_times", at),
            body_ok=np.array(body_ok, np.bool_),
        )

    def _commit_columns(self) -> Commits:
        rows = [
            (*commit[:3], self._groups[group], self._queues[queue], commit.offset)
            for (group, queue), commits in self._commits.items()
            for commit in commits
        ]
        op_index, time_ns, process, group, queue, offset = (
            np.array(rows, np.int64).reshape(len(rows), 6).T.copy()
        )
        return Commits(
            op_index=op_index,
            time_ns=time_ns,
            process=process,
            group=group,
            queue=queue,
            offset=offset,
        )

    def _names(self, messages: _Ids) -> Names:
        queues = [
            QueueKey(_text(topic), _text(broker), _int(number))
            for topic, broker, number in self._queues
        ]
        brokers = _Ids()
        broker_of_queue = np.array([brokers[queue.broker] for queue in queues], np.int64)
        topic_of_queue = np.array([self._topics[queue.topic] for queue in queues], np.int64)
        topics = list(map(_text, self._topics))
        return Names(
            messages=list(messages),
            topics=topics,
            brokers=list(brokers),
            queues=queues,
            groups=list(map(_text, self._groups)),
            broker_of_queue=broker_of_queue,
            topic_of_queue=topic_of_queue,
            internal_topic=np.array([t.startswith(INTERNAL_TOPICS) for t in topics], np.bool_),
        )


def _outcome(op: Op) -> Outcome:
    if op.type == "fail":
        return Outcome.FAILED
    if op.type == "ok":
        # Only SEND_OK is a promise, whatever the client that wrote this history thought of it.
        return Outcome.OK if op.value.get("status", "SEND_OK") == "SEND_OK" else Outcome.WEAK
    return Outcome.WEAK if op.error in WEAK_STATUSES else Outcome.UNKNOWN


def _transpose(rows: Sequence[Sequence[Any]], width: int) -> tuple[tuple[Any, ...], ...]:
    return tuple(zip(*rows, strict=True)) or ((),) * width


def _message_ids(keys: Sequence[str | None], messages: _Ids) -> Ints:
    if None not in keys:
        return np.array(list(map(messages.__getitem__, keys)), np.int64)
    return np.array([UNKNOWN if key is None else messages[key] for key in keys], np.int64)


def _ints(values: Sequence[Any], what: str, at: Sequence[int] | Ints) -> Ints:
    _check_types(values, {int}, what, at)
    try:
        return np.array(values, np.int64)
    except OverflowError as error:
        raise HistoryError(f"a {what} does not fit 64 bits: {error}") from error


def _check_types(
    values: Sequence[Any], wanted: set[type], what: str, at: Sequence[int] | Ints
) -> None:
    if set(map(type, values)) <= wanted:
        return
    row = next(row for row, value in enumerate(values) if type(value) not in wanted)
    names = " or ".join(sorted(kind.__name__ for kind in wanted))
    raise HistoryError(f"op {at[row]}: {what} is {values[row]!r}; expected {names}")


def _check_widths(touches: Sequence[Sequence[Any]], at: Ints) -> None:
    if set(map(len, touches)) <= {_TOUCH_WIDTH}:
        return
    row = next(row for row, touch in enumerate(touches) if len(touch) != _TOUCH_WIDTH)
    raise HistoryError(
        f"op {at[row]}: message {touches[row]!r} has {len(touches[row])} fields; expected "
        "key, queue offset, physical offset, body_ok, reconsume times"
    )


def _text(value: Any) -> str:
    return value if type(value) is str else _refuse(value, "text")


def _int(value: Any) -> int:
    return value if type(value) is int else _refuse(value, "an integer")


def _refuse(value: Any, wanted: str) -> NoReturn:
    raise HistoryError(f"{value!r} is not {wanted}")
