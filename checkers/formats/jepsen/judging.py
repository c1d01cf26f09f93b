"""Judges a history of Jepsen's workload for Kafka, after it converts the ops to the conventions of the checkers.

* **Unclear sends.** A send that ended `info` promises nothing, and an offset that it carries is no position, unless a
  successful poll got a message of the same op. Then the op has happened as a whole, and its sends are acknowledged at
  the end of the history.
* **Offsets.** A message without a reported offset has the lowest offset at which it was polled.
* **Positions.** Members choose their positions themselves (`RunFacts.assigned`). Between two ops of a process that has
  subscribed, its queues may have been with another process. The same holds for a queue that a process polls without
  having it.
* **Order within an op.** Other messages may lie between those of one op, so the order is judged op by op.
* **No retries.** A send has one attempt, so a message at two positions is a duplicate.
* **The drain** is that of `final_polls.py`.

Verdicts use Kafka's guarantees: no acknowledged message is lost, unless `flush` and `replication` allow it after a
nemesis that loses unsynced writes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from staticfire.checkers.formats.jepsen.final_polls import FinalPolls
from staticfire.checkers.formats.jepsen.reading import ASSIGNED, BROKER, GROUP, TOPIC, message_key
from staticfire.checkers.guarantees.facts import (
    FaultFacts,
    Flush,
    MinimumEvidence,
    Replication,
    RunFacts,
)
from staticfire.checkers.guarantees.fault_effects import default_damage
from staticfire.checkers.guarantees.verdict import Verdict, combine
from staticfire.checkers.log.storage_order import STORAGE_ORDER
from staticfire.checkers.model.building.column_builder import WEAK_STATUSES
from staticfire.checkers.model.columns import UNKNOWN
from staticfire.checkers.model.history import NEMESIS, Op
from staticfire.checkers.verdicts.compose import ALL_CHECKERS, RunVerdict, check_run

# Checkers that need only sends, polls and transactions.
ASKED = (*("loss", "provenance", "duplication", "order", "polls", "txn_reads", "cycles"),)
CHECKERS = tuple(checker for checker in ALL_CHECKERS if checker.name in ASKED)
NO_RETENTION_S = 1e9
# Jepsen's nemesis for a file system that forgets unsynced writes
LOSES_WRITES = "lose-unfsynced-writes"


def judge_jepsen(
    ops: Sequence[Op],
    *,
    flush: Flush,
    replication: Replication,
    groups: Collection[str] = (),
    torn: bool = False,
) -> RunVerdict:
    """Judge ops that a JepsenReader read with `transactions=True`. Raises HistoryError.

    `groups`: those that must see every message and never go back, like our ordinary consumer groups.
    """
    read = {op.value["group"] for op in ops if op.f in ("assign", "consume")} or {ASSIGNED}
    facts = RunFacts(
        flush=flush,
        replication=replication,
        groups=dict.fromkeys(sorted(read), (TOPIC,)),
        assigned=tuple(sorted(read.difference(groups))),
        topics=(TOPIC,),
        replica_sets={
            BROKER: (BROKER, f"{BROKER}-replica") if replication != "none" else (BROKER,)
        },
        faults=tuple(map(_fault, filter(_is_fault, ops))),
        reserved_s=NO_RETENTION_S,
        floors=MinimumEvidence(bitten_min=0),
        disks_observed=False,
        files_observed=False,
        torn=torn,
    )
    judged = list(_as_judged(ops, facts))
    run = check_run(judged, [], facts, CHECKERS)
    of_ops = _order_within_ops(judged, facts)
    return replace(run, valid=combine((run.valid, of_ops.valid)), verdicts=(*run.verdicts, of_ops))


def _order_within_ops(judged: Sequence[Op], facts: RunFacts) -> Verdict:
    """Return the verdict of `storage_order` on the acknowledged sends, as if each op had queues of its own."""
    own: dict[tuple[int, int], int] = {}  # by queue, and the number of the op: a queue
    sends: list[Op] = []
    op_of: dict[str, int] = {}  # by key: the number of the first send of its op
    began: dict[int, tuple[int, int]] = {}  # by process: when its op began, and its number
    for number, op in enumerate(judged):
        if op.f == "send" and op.type == "invoke":
            # The sends of one op begin at the same time, and a process has one op in progress.
            before = began.get(op.process)
            together = before is not None and before[0] == op.time_ns
            began[op.process] = op.time_ns, before[1] if before and together else number
            op_of[op.value["key"]] = began[op.process][1]
            sends.append(op)
        elif op.f == "send" and op.type == "ok":
            request = op.value["queue"], op_of.get(op.value["key"], number)
            queue = own.setdefault(request, len(own))
            sends.append(replace(op, value={**op.value, "queue": queue}))
    sends = [replace(op, index=index) for index, op in enumerate(sends)]
    [verdict] = check_run(sends, [], facts, (STORAGE_ORDER.as_checker(),)).verdicts
    queues = [queue for queue, _ in own]
    findings = [
        replace(finding, queue=None if finding.queue is None else queues[finding.queue])
        for finding in verdict.findings
    ]
    return replace(verdict, findings=tuple(findings))


def _is_fault(op: Op) -> bool:
    return op.process == NEMESIS and op.f.startswith("start_")


def _fault(op: Op) -> FaultFacts:
    loses = LOSES_WRITES in str(op.value.get("f"))
    kind = "power_cut" if loses else op.f.removeprefix("start_").replace("-", "_")
    return FaultFacts(
        fault_id=str(op.index),
        kind=kind,
        targets=(BROKER,) if default_damage(kind) != "none" else (),
        fired_ns=op.time_ns,
        bitten_ns=op.time_ns,
        healed_ns=op.time_ns,
    )


def _as_judged(ops: Sequence[Op], facts: RunFacts) -> Iterator[Op]:
    happened, polled_at = _happened(ops), _polled_at(ops)
    holds_transactions = any(op.f == "txn" and len(op.value["mops"]) > 1 for op in ops)
    final_polls, positions = FinalPolls(), _Positions(facts)
    made: list[Op] = []
    late: list[Op] = []
    for op in ops:
        if op.process == NEMESIS:
            continue
        if op.f == "send":
            sent = _send(op, happened, polled_at)
            is_late = sent.type != op.type
            (late if is_late else made).append(sent)
            if not is_late:
                final_polls.see(sent)
            continue
        final_polls.see(op)
        made.extend(positions.before(op))
        if op.f != "drain" and (op.f != "txn" or holds_transactions):
            made.append(op)
    end_ns = ops[-1].time_ns if ops else 0
    for sent in late:
        final_polls.see(sent)
    ends = (*late, *final_polls.drains(facts.groups))
    for index, op in enumerate((*made, *(replace(op, time_ns=end_ns) for op in ends))):
        yield replace(op, index=index)


def _polled_at(ops: Sequence[Op]) -> dict[str, int]:
    """Return the lowest offset at which each message was polled, by key."""
    found: dict[str, int] = {}
    for op in ops:
        if op.f == "consume":
            for key, offset, *_ in op.value["messages"]:
                found[key] = min(offset, found.get(key, offset))
    return found


def _happened(ops: Sequence[Op]) -> dict[str, int]:
    """Return the queue of each message of an unclear op of which a successful poll got a message, by key."""
    polled = {
        row[0]
        for op in ops
        if op.f == "consume" and op.type == "ok"
        for row in op.value["messages"]
    }
    found: dict[str, int] = {}
    for op in ops:
        if op.f == "txn" and op.type == "info":
            sent = dict(_sent(op.value["mops"]))
            if not polled.isdisjoint(sent):
                found.update(sent)
    return found


def _sent(mops: Sequence[Sequence[Any]]) -> Iterator[tuple[str, int]]:
    for mop in mops:
        if mop[0] == "send":
            _, queue, sent = mop
            value = sent[-1] if isinstance(sent, list) else sent
            yield message_key(int(queue), value), int(queue)


def _send(op: Op, happened: dict[str, int], polled_at: dict[str, int]) -> Op:
    """Return a send with its one attempt, and with an offset only if it has one."""
    key, value = op.value["key"], {"attempts": 1, **op.value}
    offset = op.value.get("queue_offset", UNKNOWN)
    offset = polled_at.get(key, UNKNOWN) if offset == UNKNOWN else offset
    if op.type == "ok":
        value["queue_offset"] = offset
    if op.type != "info" or op.error in WEAK_STATUSES:
        return replace(op, value=value)
    value = {name: value[name] for name in ("key", "topic", "attempts")}
    if key not in happened or value["attempts"] == 0:
        return replace(op, value=value)
    value |= {"broker": BROKER, "queue": happened[key], "status": "SEND_OK"}
    value |= {"queue_offset": offset, "physical_offset": UNKNOWN}
    return replace(op, type="ok", value=value, error=None)


class _Positions:
    """The queues of each process, according to its assignments and subscriptions."""

    def __init__(self, facts: RunFacts) -> None:
        self._assigned = facts.assigned
        self._has: dict[tuple[int, str], set[int]] = {}
        self._polled: set[tuple[int, int]] = set()  # process and queue, in the current op

    def before(self, op: Op) -> Iterator[Op]:
        """Yield an assignment before a poll whose position need not be that at which the last poll ended."""
        if op.f == "txn":
            self._polled = {
                (process, queue) for process, queue in self._polled if process != op.process
            }
        elif op.f == "assign" and op.type in ("ok", "info"):
            self._has[op.process, op.value["group"]] = {queue for _, queue in op.value["queues"]}
        elif op.f == "consume" and op.type == "invoke" and op.value["group"] in self._assigned:
            yield from self._regained(op, op.value["group"], op.value["queue"])

    def _regained(self, op: Op, group: str, queue: int) -> Iterator[Op]:
        has = self._has.get((op.process, group))
        is_first = (op.process, queue) not in self._polled
        self._polled.add((op.process, queue))
        if has is None or not is_first or (group != GROUP and queue in has):
            return
        has.add(queue)
        queues = [[BROKER, one] for one in sorted(has)]
        value: dict[str, Any] = {"group": group, "topic": TOPIC, "queues": queues}
        if group == GROUP:
            value["from_beginning"] = (
                True  # wherever the queue was in between, the position is another one
            )
        yield replace(op, type="ok", f="assign", value=value)
