"""Ops to columns, fast: a tuple an op, a slice a delivery, and the arrays in one go at the end.

What the system under test did is never an error here, however odd; an op that breaks the conventions of
values is a HistoryError, because no verdict could be trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from checkers.column_arrays import (
    ConsumeRow,
    Ids,
    SendRow,
    commit_columns,
    delivery_touches,
    make_names,
    send_touches,
)
from checkers.column_values import integer, text
from checkers.columns import UNKNOWN, Columns, Outcome, QueueKey
from checkers.history import NEMESIS, HistoryError, Op, check_function
from checkers.timeline import (
    Commit,
    Drain,
    Found,
    LookUp,
    Opened,
    Ownership,
    Probe,
    QueueEnd,
    Timeline,
)

WEAK_STATUSES = frozenset({"FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE"})


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


class _Builder:
    __slots__ = (
        "_assigned",
        "_assignments",
        "_commits",
        "_consumes",
        "_delivered",
        "_drains",
        "_groups",
        "_look_ups",
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
        self._sends: list[SendRow] = []
        self._sent: set[str] = set()
        self._open_sends: dict[str, Op] = {}
        self._consumes: list[ConsumeRow] = []  # an op each: what its touches share
        self._delivered: list[Sequence[Any]] = []  # a touch each
        self._open_consumes: dict[tuple[Any, ...], Op] = {}
        self._topics, self._groups, self._queues = Ids(), Ids(), Ids()
        self._commits: dict[tuple[str, QueueKey], list[Commit]] = {}
        self._ownership: dict[tuple[str, QueueKey], list[Ownership]] = {}
        self._assigned: dict[tuple[int, str, str], set[QueueKey]] = {}
        self._assignments: dict[int, list[int]] = {}
        self._drains: dict[tuple[str, str], Drain] = {}
        self._probes: list[Probe] = []
        self._opens: list[Opened] = []
        self._look_ups: list[LookUp] = []
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
            "look_up": self._look_up,
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

    def _send_row(self, op: Op, invoke: Op, outcome: Outcome) -> SendRow:
        value = op.value
        topic = value["topic"]
        if outcome is Outcome.OK:
            queue = self._queues[topic, value["broker"], value["queue"]]
            integer(value["queue_offset"])
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
                    broker=text(op.value["broker"]),
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
        group, topic = text(op.value["group"]), text(op.value["topic"])
        now = {
            QueueKey(topic, text(broker), integer(queue)) for broker, queue in op.value["queues"]
        }
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
        group, topic = text(op.value["group"]), text(op.value["topic"])
        for broker, number, offset in op.value["offsets"]:
            queue = QueueKey(topic, text(broker), integer(number))
            commit = Commit(op.index, op.time_ns, op.process, integer(offset))
            self._commits.setdefault((group, queue), []).append(commit)

    def _drain(self, op: Op) -> None:
        if op.type in ("invoke", "fail"):
            return
        group, topic = text(op.value["group"]), text(op.value["topic"])
        ends = {
            QueueKey(topic, text(broker), integer(number)): QueueEnd(
                integer(low), integer(end), integer(done)
            )
            for broker, number, low, end, done in op.value["queues"]
        }
        self._drains[group, topic] = Drain(
            op_index=op.index,
            time_ns=op.time_ns,
            complete=op.type == "ok",
            lag=integer(op.value["lag"]),
            ends=ends,
        )

    def _look_up(self, op: Op) -> None:
        value = op.value
        self._look_ups.append(
            LookUp(
                op_index=op.index,
                time_ns=op.time_ns,
                topic=text(value["topic"]),
                broker=text(value["broker"]),
                is_indexed=bool(value["indexed"]),
                found=[
                    Found(text(key), integer(queue), integer(offset), *map(bool, found))
                    for key, queue, offset, *found in value["messages"]
                ],
                error=None if op.type == "ok" else op.error or "no answer",
            )
        )

    def columns(self) -> Columns:
        for invoke in self._open_sends.values():
            self._sends.append(self._send_row(invoke, invoke, Outcome.UNKNOWN))
        for invoke in self._open_consumes.values():
            self._deliver(invoke, invoke, Outcome.UNKNOWN)
        messages = Ids()
        sends = send_touches(self._sends, messages)
        deliveries = delivery_touches(self._consumes, self._delivered, messages)
        commits = commit_columns(self._commits, self._groups, self._queues)
        names = make_names(messages, self._topics, self._queues, self._groups)
        return Columns(names=names, sends=sends, deliveries=deliveries, commits=commits)

    def timeline(self) -> Timeline:
        return Timeline(
            commits=self._commits,
            ownership=self._ownership,
            assignments=self._assignments,
            drains=self._drains,
            probes=self._probes,
            opens=self._opens,
            look_ups=self._look_ups,
            nodes=self._nodes,
        )


def _outcome(op: Op) -> Outcome:
    if op.type == "fail":
        return Outcome.FAILED
    if op.type == "ok":
        # Only SEND_OK is a promise, whatever the client that wrote this history thought of it.
        return Outcome.OK if op.value.get("status", "SEND_OK") == "SEND_OK" else Outcome.WEAK
    return Outcome.WEAK if op.error in WEAK_STATUSES else Outcome.UNKNOWN
