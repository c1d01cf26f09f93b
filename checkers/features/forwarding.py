"""Forwarding: each message that a member forwards reaches the other topic at least once.

**not_forwarded**: a forwarder acknowledged a message before it had reported any copy of it. If the forwarder then ends,
no other member will receive the message. One more finding covers the whole run: members reported copies that no send
acknowledged. **phantom_copy**: a member reported a copy of a message that it had not received by then. One more finding
covers the whole run: members reported copies of messages in queues that no op concerns.

A forwarder reports a copy (op `forward`) when it is stored as safely as the forwarder's options require. From then on
the copy is a message like any other: `loss` judges its delivery, and `provenance` its body. Forwarding is at least
once, so a message that is forwarded twice is not an anomaly.

Cannot see: whether a copy has the contents of its original (copies have their own keys, and bodies made of these); a
message that the forwarder skipped at a position from which another message was lost, if it had reported a copy of the
other message.

Source: at-least-once forwarding, the usual remedy in RocketMQ for a backlog in too few queues.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from staticfire.checkers.engine.kernel import Context, Kernel, finding_at, nothing_missing
from staticfire.checkers.guarantees.promises import judge
from staticfire.checkers.guarantees.verdict import Finding, Tally, Verdict
from staticfire.checkers.model.columns import (
    UNKNOWN,
    Columns,
    Ints,
    LogKey,
    MessageEvents,
    Outcome,
)
from staticfire.checkers.model.timeline import Forward

ANOMALIES = ("not_forwarded", "phantom_copy")
NEVER = np.iinfo(np.int64).max


def tally_forwarding(columns: Columns, context: Context) -> Tally:
    """Judge the deliveries to forwarders by the copies that they reported (partition key: log)."""
    findings: list[Finding] = []
    consumed = originals = 0
    for given, forwards in _by_queue(columns, context):
        reported = _Reported(columns, given, forwards)
        findings += (_not_forwarded(columns, context, given, row) for row in reported.left_out())
        findings += (_made_up(context, *one) for one in reported.made_up())
        consumed += int(np.count_nonzero(given.outcome == Outcome.OK))
        originals += len(reported)
    copies = _copies_acknowledged(columns.sends, context.timeline.forwards)
    return Tally.of(findings, consumed=consumed, originals=originals, copies=copies)


def _by_queue(columns: Columns, context: Context) -> Iterator[tuple[MessageEvents, list[Forward]]]:
    """Yield the deliveries of each queue to forwarders, and the copies that they reported."""
    reported: dict[LogKey, list[Forward]] = {}
    for forward in context.timeline.forwards:
        reported.setdefault(forward.queue, []).append(forward)
    nodes = context.timeline.nodes
    mine = {process for process, node in nodes.items() if node in context.facts.forwarders}
    mine.update(forward.process for forward in context.timeline.forwards)
    deliveries = columns.deliveries
    given = deliveries.where(np.isin(deliveries.process, sorted(mine)))
    for queue in _queues_here(columns):
        forwards = reported.get(columns.names.logs[queue], [])
        of_queue = given.where(given.log == queue)
        if forwards or len(of_queue):
            yield of_queue, forwards


def _queues_here(columns: Columns) -> list[int]:
    """Return the queues of the sends and deliveries; in a chunk, its queue."""
    if columns.chunk is not None:
        return [columns.chunk.queue]
    touched = np.unique(np.concatenate((columns.sends.log, columns.deliveries.log)))
    queues: list[int] = touched[touched != UNKNOWN].tolist()
    return queues


class _Reported:
    """The reports about one queue: the offset of each original, and the `forward` op that names it."""

    def __init__(self, columns: Columns, given: MessageEvents, forwards: Sequence[Forward]) -> None:
        self._given, self._forwards = given, forwards
        self._offsets, self._forward = _originals(columns, forwards)
        self._reported_at = np.array([of.op_index for of in forwards], np.int64)[self._forward]
        reported_by = np.array([of.process for of in forwards], np.int64)[self._forward]
        self._position = _numbers(given.queue_offset, self._offsets)
        self._member = _numbers(given.process, reported_by)

    def __len__(self) -> int:
        return len(self._offsets)

    def left_out(self) -> list[int]:
        """Return the rows of messages that members acknowledged before they had reported any copy of them."""
        given = self._given
        position_given, position_reported, positions = self._position
        first_reported = np.full(positions, NEVER)
        np.minimum.at(first_reported, position_reported, self._reported_at)
        left = (given.outcome == Outcome.OK) & (first_reported[position_given] > given.op_index)
        rows: list[int] = np.flatnonzero(left).tolist()
        return rows

    def made_up(self) -> Iterator[tuple[Forward, int]]:
        """Yield the `forward` and the offset of each original that the member had not received."""
        (position_given, position_reported, positions), (member, teller, members) = (
            self._position,
            self._member,
        )
        first_given = np.full(positions * members, NEVER)
        np.minimum.at(first_given, position_given * members + member, self._given.invoke_index)
        wrong = first_given[position_reported * members + teller] > self._reported_at
        for row in np.flatnonzero(wrong).tolist():
            yield self._forwards[self._forward[row]], int(self._offsets[row])


def _numbers(one: Ints, other: Ints) -> tuple[Ints, Ints, int]:
    """Number the values of two columns from 0 on. Return both columns as numbers, same shapes, and their count."""
    values, numbers = np.unique(np.concatenate((one, other)), return_inverse=True)
    return numbers[: len(one)], numbers[len(one) :], len(values)


def _originals(columns: Columns, forwards: Sequence[Forward]) -> tuple[Ints, Ints]:
    """Return the offsets of originals in this queue or chunk, and the index of the `forward` of each."""
    lowest, highest = -NEVER, NEVER
    if columns.chunk is not None:
        lowest, highest = columns.chunk.first_offset, columns.chunk.last_offset
    offsets, numbers = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for number, forward in enumerate(forwards):
        for first, count in forward.originals:
            start, end = max(first, lowest), min(first + count - 1, highest)
            if start <= end:
                offsets.append(np.arange(start, end + 1))
                numbers.append(np.full(end + 1 - start, number))
    return np.concatenate(offsets), np.concatenate(numbers)


def _copies_acknowledged(sends: MessageEvents, forwards: Sequence[Forward]) -> int:
    """Return the number of acknowledged sends that are copies."""
    if not forwards:
        return 0
    copies = sorted((forward.copy, forward.messages) for forward in forwards)
    first, count = np.array(copies, np.int64).T
    end = np.maximum.accumulate(first + count)
    acked = sends.message[sends.outcome == Outcome.OK]
    at = np.searchsorted(first, acked, side="right") - 1
    return int(np.count_nonzero((at >= 0) & (acked < end[at])))


def _not_forwarded(columns: Columns, context: Context, given: MessageEvents, row: int) -> Finding:
    return finding_at(
        columns,
        given,
        row,
        anomaly="not_forwarded",
        judgement=judge(context.facts.mode, "not_forwarded"),
        detail="a member that forwards acknowledged it, and no copy had been acknowledged by then",
        group=columns.names.groups[given.group[row]],
    )


def _made_up(context: Context, forward: Forward, offset: int) -> Finding:
    return Finding(
        anomaly="phantom_copy",
        judgement=judge(context.facts.mode, "phantom_copy"),
        op_index=forward.op_index,
        time_ns=forward.time_ns,
        detail="a copy of what the member had not been given by then",
        topic=forward.queue.topic,
        broker=forward.queue.home,
        queue=forward.queue.partition,
        queue_offset=offset,
        group=forward.group,
    )


def finish_forwarding(tally: Tally, context: Context) -> Verdict:
    """Judge whether every reported copy and original exists, which needs the tallies of all queues."""
    reported = sum(forward.messages for forward in context.timeline.forwards)
    gone = reported - tally.counts.get("copies", 0)
    strange = reported - tally.counts.get("originals", 0)
    of_run = []
    if gone:
        of_run.append(_of_run(context, "not_forwarded", f"{gone} copies were never acknowledged"))
    if strange:
        of_run.append(
            _of_run(context, "phantom_copy", f"{strange} originals lie in no queue that is known")
        )
    whole = tally.merge(Tally.of(of_run))
    return Verdict(
        checker="forwarding",
        valid=not any(whole.counts.get(anomaly, 0) for anomaly in ANOMALIES),
        counts=whole.counts,
        findings=whole.findings,
    )


def _of_run(context: Context, anomaly: str, detail: str) -> Finding:
    return Finding(
        anomaly=anomaly,
        judgement=judge(context.facts.mode, anomaly),
        op_index=-1,
        time_ns=context.timeline.forwards[-1].time_ns,
        detail=detail,
    )


FORWARDING = replace(
    Kernel(
        name="forwarding",
        partition_by="log",
        anomalies=ANOMALIES,
        partial=tally_forwarding,
        unknown_reason=nothing_missing,
        finished=finish_forwarding,
    ).as_checker(),
    applies=lambda context: bool(context.facts.forwarders),
)
