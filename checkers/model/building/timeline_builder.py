"""Builds a timeline from a history, op by op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from staticfire.checkers.model.building.column_values import BAD_VALUE, bad_op, integer, text
from staticfire.checkers.model.columns import LogKey
from staticfire.checkers.model.history import INT64_MAX, NEMESIS, Op, OpType
from staticfire.checkers.model.message_ids import OTHER, MessageIds
from staticfire.checkers.model.timeline import (
    Begun,
    CheckBack,
    Commit,
    CommitTo,
    Drain,
    Exchange,
    FaultOp,
    Forward,
    Found,
    LookUp,
    Opened,
    Ownership,
    Polled,
    Probe,
    QueueEnd,
    Refusal,
    RefusedRead,
    Searched,
    Sent,
    SentBack,
    Subscribed,
    Timeline,
    Torn,
    TriedRead,
    Txn,
)
from staticfire.checkers.op_kinds.message_fields import MANY_MAX
from staticfire.checkers.op_kinds.producer import SEND_MANY
from staticfire.checkers.op_kinds.values import (
    AnswerReport,
    AssignReport,
    BeginReport,
    CheckBackReport,
    CommitReport,
    CommitToReport,
    DrainReport,
    ForwardReport,
    LookUpReport,
    OpenReport,
    ProbeReport,
    RefusedReport,
    ReplyReport,
    SendBackReport,
    SendValue,
    TryReadReport,
    TxnReport,
)


def has_weak_half(op: Op[SendValue]) -> bool:
    """Whether a producer left a transaction undecided, and its half message was stored with a weak status."""
    is_open = op.type == "fail" and op.value.get("transaction") == "unknown"
    return is_open and op.value.get("status", "SEND_OK") != "SEND_OK"


def has_code(op: Op[SendValue]) -> bool:
    """Whether a broker answered a legal send with a response code other than success."""
    ended = op.type in ("fail", "info")
    return ended and "code" in op.value and "illegal" not in op.value


class TimelineBuilder:
    """Collects the ops that the timeline holds: all but deliveries and sends, and sends that need a note."""

    __slots__ = (
        "_answers",
        "_assigned",
        "_begins",
        "_check_backs",
        "_commits_to",
        "_drains",
        "_faults",
        "_forwards",
        "_handlers",
        "_look_ups",
        "_open_txns",
        "_opens",
        "_ownership",
        "_probes",
        "_refused",
        "_replies",
        "_sent_back",
        "_subscriptions",
        "_tried_reads",
        "_txns",
        "_unclear_commits",
        "_unreported",
        "_weak_halves",
        "commits",
        "nodes",
    )

    def __init__(self) -> None:
        self.commits: dict[tuple[str, LogKey], list[Commit]] = {}
        self._unclear_commits: dict[tuple[str, LogKey], list[Commit]] = {}
        self.nodes: dict[int, str] = {}  # those of clients that opened or sent
        self._begins: dict[tuple[str, LogKey], list[Begun]] = {}
        self._commits_to: dict[tuple[str, str, int], list[CommitTo]] = {}
        self._ownership: dict[tuple[str, LogKey], list[Ownership]] = {}
        self._assigned: dict[tuple[int, str, str], set[LogKey]] = {}
        self._drains: dict[tuple[str, str], Drain] = {}
        self._probes: list[Probe] = []
        self._opens: list[Opened] = []
        self._look_ups: list[LookUp] = []
        self._txns: list[Txn] = []
        self._open_txns: dict[int, Op] = {}
        self._check_backs: list[CheckBack] = []
        self._replies: list[Exchange] = []
        self._answers: list[Exchange] = []
        self._subscriptions: list[Subscribed] = []
        self._forwards: list[Forward] = []
        self._sent_back: dict[str, list[SentBack]] = {}
        self._faults: list[FaultOp] = []
        self._tried_reads: list[TriedRead] = []
        self._refused: list[Refusal] = []
        self._unreported: set[str] = set()
        self._weak_halves: set[str] = set()
        self._handlers = self.handlers()

    def add(self, op: Op) -> None:
        """Take the next op; ops that the timeline does not hold are ignored. Raises HistoryError naming it."""
        if op.process == NEMESIS:
            self._fault(op)
            return
        handler = self._handlers.get(op.f)
        if handler is not None:
            try:
                handler(op)
            except BAD_VALUE as error:
                raise bad_op(op, error) from error

    def handlers(self) -> dict[str, Callable[[Op[Any]], None]]:
        """Return the handlers by `f`. A handler raises one of BAD_VALUE for a value that breaks the conventions."""
        return {
            "probe": self._probe,
            "send": self.send,
            SEND_MANY: self.send,
            "assign": self._assign,
            "begin": self._begin,
            "commit": self._commit,
            "commit_to": self._commit_to,
            "drain": self._drain,
            "open": self._open,
            "look_up": self._look_up,
            "txn": self._txn,
            "check_back": self._check_back,
            "reply": self._reply,
            "answer": self._answer,
            "send_back": self._send_back,
            "try_read": self._try_read,
            "refused": self._refuse,
            "forward": self._forward,
        }

    def _fault(self, op: Op) -> None:
        verb, _, kind = op.f.partition("_")
        if verb not in (
            "start",
            "stop",
        ):  # the fault is about to start, a node ended, or the cluster is gone
            return
        targets, fault_id = op.value.get("targets"), op.value.get("fault_id")
        nodes = targets if isinstance(targets, list | tuple) else ()
        evidence = op.value.get("evidence")
        bitten = evidence.get("bitten") if verb == "stop" and isinstance(evidence, dict) else None
        self._faults.append(
            FaultOp(
                op.time_ns,
                verb,
                kind,
                tuple(map(str, nodes)),
                None if fault_id is None else str(fault_id),
                bitten if isinstance(bitten, bool) else None,
            )
        )

    def _probe(self, op: Op[ProbeReport]) -> None:
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

    def _open(self, op: Op[OpenReport]) -> None:
        if op.type == "ok" and op.node is not None:
            self._opens.append(Opened(op.time_ns, op.process, op.node))
            self.nodes[op.process] = op.node
            if "expression" in op.value:
                self._subscribe(op, op.node)

    def _subscribe(self, op: Op[OpenReport], node: str) -> None:
        value = op.value
        self._subscriptions.append(
            Subscribed(
                op_index=op.index,
                time_ns=op.time_ns,
                process=op.process,
                node=node,
                group=text(value["group"]),
                topic=text(value["topic"]),
                expression=text(value["expression"]),
                model=text(value.get("model", "clustering")),
                orderly=bool(value.get("orderly", False)),
            )
        )

    def _check_back(self, op: Op[CheckBackReport]) -> None:
        self._check_backs.append(
            CheckBack(
                op.index,
                op.time_ns,
                text(op.value["topic"]),
                text(op.value["key"]),
                text(op.value["state"]),
                op.node,
                _earliest_ns(op),
                None if (broker := op.value.get("broker")) is None else text(broker),
            )
        )

    def _reply(self, op: Op[ReplyReport]) -> None:
        if op.type != "invoke":
            self._replies.append(_exchange(op, op.value["key"]))

    def _answer(self, op: Op[AnswerReport]) -> None:
        self._answers.append(_exchange(op, op.value["reply"]))

    def _forward(self, op: Op[ForwardReport]) -> None:
        value = op.value
        copy, originals = MessageIds()[text(value["key"])], tuple(map(_range, value["originals"]))
        if copy & OTHER:
            raise ValueError(f"key {value['key']!r} of a copy; expected the form p<process>-<n>")
        if op.type == "ok":
            queue = LogKey(text(value["topic"]), text(value["broker"]), integer(value["queue"]))
            forward = Forward(
                op.index, op.time_ns, op.process, text(value["group"]), queue, originals, copy
            )
            self._forwards.append(forward)

    def _assign(self, op: Op[AssignReport]) -> None:
        # an assignment of unknown outcome counts, because it may have happened
        if op.type not in ("ok", "info"):
            return
        group, topic = text(op.value["group"]), text(op.value["topic"])
        now = {LogKey(topic, text(broker), integer(queue)) for broker, queue in op.value["queues"]}
        before = self._assigned.get((op.process, group, topic), set())
        changed = now ^ before | (now if op.value.get("from_beginning") else set())
        for queue in sorted(changed):
            change = Ownership(
                op.index, op.time_ns, op.process, "gained" if queue in now else "lost"
            )
            self._ownership.setdefault((group, queue), []).append(change)
        self._assigned[op.process, group, topic] = now

    def _commit(self, op: Op[CommitReport]) -> None:
        if op.type not in ("ok", "info"):
            return
        found = self.commits if op.type == "ok" else self._unclear_commits
        group, topic = text(op.value["group"]), text(op.value["topic"])
        for broker, number, offset in op.value["offsets"]:
            queue = LogKey(topic, text(broker), integer(number))
            commit = Commit(op.index, op.time_ns, op.process, integer(offset))
            found.setdefault((group, queue), []).append(commit)

    def _begin(self, op: Op[BeginReport]) -> None:
        value = op.value
        group = text(value["group"])
        queue = LogKey(text(value["topic"]), text(value["broker"]), integer(value["queue"]))
        reported = (value.get("offset"), value.get("broker_id"))
        offset, broker_id = (None if of is None else integer(of) for of in reported)
        begun = Begun(op.index, op.time_ns, op.process, offset, broker_id)
        if op.type == "ok":
            self._begins.setdefault((group, queue), []).append(begun)

    def _commit_to(self, op: Op[CommitToReport]) -> None:
        group = text(op.value["group"])
        for name, broker_id, arrived in op.value["brokers"]:
            sent = CommitTo(op.index, op.time_ns, integer(broker_id), bool(arrived))
            if op.type == "ok":
                self._commits_to.setdefault((group, text(name), op.process), []).append(sent)

    def _send_back(self, op: Op[SendBackReport]) -> None:
        if op.type == "invoke":
            return
        group, topic, broker = (text(op.value[name]) for name in ("group", "topic", "broker"))
        copied, code = op.value.get("copied"), op.value.get("code")
        for key, _, tries in op.value["messages"]:
            self._sent_back.setdefault(text(key), []).append(
                SentBack(
                    group=group,
                    tries=integer(tries),
                    by_broker=copied is False,
                    is_clear=op.type == "ok",
                    time_ns=op.time_ns,
                    process=op.process,
                    broker=broker,
                    op_index=op.index,
                    is_declined=copied is True or "code" in op.value,
                    is_unanswered="code" in op.value and code is None,
                    attempts=integer(op.value.get("attempts", 0)),
                )
            )
            if code is not None:
                refused = Refusal(
                    op.index, op.time_ns, topic, text(key), None, integer(code), broker
                )
                self._refused.append(refused._replace(is_sent_back=True))

    def _try_read(self, op: Op[TryReadReport]) -> None:
        if op.type != "invoke":
            group, topic, broker = (text(op.value[name]) for name in ("group", "topic", "broker"))
            tried = TriedRead(op.index, op.time_ns, group, topic, broker, op.type, op.error)
            self._tried_reads.append(tried)

    def send(self, op: Op[SendValue]) -> None:
        """Record the code with which a broker refused a legal send; illegal sends have an op kind of their own.

        Also record the keys of transactions whose end was not sent, or whose half has a weak status.
        """
        value = op.value
        if value.get("end_sent") is False:
            self._unreported.add(text(value["key"]))
        if has_weak_half(op):
            self._weak_halves.add(text(value["key"]))
        if not has_code(op):
            return
        broker = value.get("refused_by")
        self._refused.append(
            Refusal(
                op.index,
                op.time_ns,
                text(value["topic"]),
                text(value["key"]),
                None,
                integer(value["code"]),
                None if broker is None else text(broker),
                "account" in value,
            )
        )

    def _refuse(self, op: Op[RefusedReport]) -> None:
        value = op.value
        topic, key, illegal = (text(value[name]) for name in ("topic", "key", "illegal"))
        code, broker = integer(value["code"]), value.get("broker")
        self._refused.append(
            Refusal(
                op.index,
                op.time_ns,
                topic,
                key,
                illegal,
                code,
                None if broker is None else text(broker),
            )
        )

    def _drain(self, op: Op[DrainReport]) -> None:
        if op.type in ("invoke", "fail"):
            return
        group, topic = text(op.value["group"]), text(op.value["topic"])
        ends = {
            LogKey(topic, text(broker), integer(number)): QueueEnd(
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
            still_s=integer(op.value["still_s"]) if "still_s" in op.value else None,
        )

    def _look_up(self, op: Op[LookUpReport]) -> None:
        value = op.value
        self._look_ups.append(
            LookUp(
                op_index=op.index,
                time_ns=op.time_ns,
                topic=text(value["topic"]),
                broker=text(value["broker"]),
                is_indexed=bool(value["indexed"]),
                found=_found(value["messages"]),
                first_offsets={
                    integer(queue): integer(offset)
                    for queue, offset in value.get("first_offsets", ())
                },
                error=None if op.type == "ok" else op.error or "no answer",
                node=text(value.get("node", "")),
                torn=[
                    Torn(text(key), integer(queue), integer(offset), text(error))
                    for key, queue, offset, error in value.get("torn", ())
                ],
                asked=integer(value["asked"]) if "asked" in value else None,
                searched=[_searched(*row) for row in value.get("searched", ())],
                search_error=text(value["search_error"]) if "search_error" in value else None,
                refused=[
                    RefusedRead(text(key), integer(queue), integer(offset), text(error))
                    for key, queue, offset, error in value.get("refused", ())
                ],
            )
        )

    def _txn(self, op: Op[TxnReport]) -> None:
        before = self._open_txns.pop(op.process, None)
        if op.type == "invoke":
            if before is not None:
                self._end_txn(before, before, "info")
            self._open_txns[op.process] = op
        else:
            self._end_txn(op, op if before is None else before, op.type)

    def _end_txn(self, op: Op, invoke: Op, type_: OpType) -> None:
        mops = [_mop(*mop) for mop in op.value["mops"]]
        txn = Txn(invoke.index, op.index, op.time_ns, op.process, type_, mops)
        self._txns.append(txn)

    def forget(self) -> None:
        """Drop all collected events. Nodes of processes, current assignments and open transactions remain."""
        self.commits.clear()
        self._unclear_commits.clear()
        self._ownership.clear()
        self._begins.clear()
        self._commits_to.clear()
        self._drains.clear()
        self._probes.clear()
        self._opens.clear()
        self._look_ups.clear()
        self._txns.clear()
        self._check_backs.clear()
        self._replies.clear()
        self._answers.clear()
        self._subscriptions.clear()
        self._forwards.clear()
        self._sent_back.clear()
        self._faults.clear()
        self._tried_reads.clear()
        self._refused.clear()
        self._unreported.clear()
        self._weak_halves.clear()

    def timeline(self) -> Timeline:
        for op in self._open_txns.values():
            self._end_txn(op, op, "info")
        self._open_txns.clear()
        return Timeline(
            commits=self.commits,
            unclear_commits=self._unclear_commits,
            ownership=self._ownership,
            begins=self._begins,
            commits_to=self._commits_to,
            drains=self._drains,
            probes=self._probes,
            opens=self._opens,
            look_ups=self._look_ups,
            txns=self._txns,
            check_backs=self._check_backs,
            replies=self._replies,
            answers=self._answers,
            subscriptions=self._subscriptions,
            forwards=self._forwards,
            sent_back=self._sent_back,
            faults=self._faults,
            tried_reads=self._tried_reads,
            refused=self._refused,
            unreported=self._unreported,
            weak_halves=self._weak_halves,
            nodes=self.nodes,
        )


def _found(messages: Sequence[Sequence[object]]) -> list[Found]:
    """Return the messages that a broker found. They can be as many as the sends, so types are checked by column."""
    if not messages:
        return []
    keys, queues, offsets, *found = zip(*messages, strict=True)
    if set(map(type, keys)) != {str}:
        list(map(text, keys))
    for column in (queues, offsets):
        if set(map(type, column)) != {int} or max(map(abs, column)) > INT64_MAX:
            list(map(integer, column))
    by_key, by_id, in_queue = found
    ids = [None if value is None else bool(value) for value in by_id]
    return list(map(Found, keys, queues, offsets, map(bool, by_key), ids, map(bool, in_queue)))


def _searched(*row: object) -> Searched:
    key, queue, offset, stored_ms, answer, *times = row
    answer_ms, before_ms = (None if time is None else integer(time) for time in times)
    position = text(key), integer(queue), integer(offset)
    return Searched(*position, integer(stored_ms), integer(answer), answer_ms, before_ms)


def _mop(f: Any, *rest: Any) -> Sent | Polled:
    """Read a micro-op of Jepsen: ["send", key, value], ["send", key, [offset, value]] or ["poll", {key: [...]}]."""
    if f == "send":
        key, value = rest
        offset, value = value if isinstance(value, list | tuple) else (None, value)
        return Sent(str(key), _value(value), None if offset is None else integer(offset))
    if f == "poll":
        polled = rest[0] if rest else {}
        return Polled(
            {
                str(key): [(integer(offset), _value(value)) for offset, value in messages]
                for key, messages in polled.items()
            }
        )
    raise ValueError(f"a micro-op is {f!r}; allowed are send and poll")


def _value(value: Any) -> int | str:
    return value if type(value) is str else integer(value)


def _range(row: Sequence[object]) -> tuple[int, int]:
    """Return the first of several consecutive offsets, and their number. Raises ValueError, HistoryError."""
    first, count = map(integer, row)
    if first < 0 or not 1 <= count <= MANY_MAX or first > INT64_MAX - count:
        raise ValueError(f"{row!r} is no offset and how many follow; allowed are 1 to {MANY_MAX}")
    return first, count


def _exchange(op: Op, reply: object) -> Exchange:
    key, is_taken = text(op.value["key"]), op.type == "ok"
    properties = op.value.get("properties")
    if properties is not None:
        integer(properties)
    return Exchange(op.index, op.time_ns, op.process, key, text(reply), is_taken, properties)


def _earliest_ns(op: Op) -> int:
    """Return the earliest time at which the event can have happened, by its client's clock if the op has a stamp."""
    if op.stamp is None:
        return op.time_ns
    return min(op.stamp.at_ns - op.stamp.within_ns, op.time_ns)
