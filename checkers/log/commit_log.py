"""Holes in a commit log: a power loss may destroy a suffix of the log, but no record in its middle.

**log_hole**: no consumer received an acknowledged copy from its broker. The loss is excused as part of a lost suffix,
but the log reached beyond the copy. The proof is a recovery observation, or a message further up in the log that was
acknowledged before the fault and survived. A message certainly survived if the drained queue continues past its offset
and the offset holds no other message.

The kernel judges copies. If a producer retried a send, consumers may have received it from another broker, but this
broker must not have lost a message that it acknowledged. Only copies with a known physical offset can be judged.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from staticfire.checkers.derived.message_positions import first_at, placements_of, position_ids
from staticfire.checkers.engine.kernel import Context, Kernel, finding_at, rows_by_id, unless_unread
from staticfire.checkers.engine.position_index import index_of
from staticfire.checkers.guarantees.promises import RESYNC_NS, DamageEvent, Loss, LossRule, judge
from staticfire.checkers.guarantees.verdict import Finding, Tally
from staticfire.checkers.model.columns import UNKNOWN, Columns, Ints, Mask, MessageEvents, Outcome
from staticfire.checkers.model.message_ids import dense_numbers


def tally_log_holes(columns: Columns, context: Context) -> Tally:
    """Judge the acknowledged copies of whole commit logs (partition key: stream)."""
    sends = columns.sends
    acked = sends.where((sends.outcome == Outcome.OK) & (sends.position != UNKNOWN))
    if not len(acked) or not context.promises.any_suffix_excused():
        return Tally(counts={"excused_copies": 0})
    missing = ~_delivered_from_broker(columns, acked) & _passed(columns, context, acked)
    findings: list[Finding] = []
    excused = 0
    for brokers, rows in rows_by_id(columns.names.stream_of_log[acked.log]):
        broker = columns.names.streams[int(brokers[0])]
        log = _Log(columns, context, broker, acked.where(rows), missing[rows])
        excused += len(log.excused)
        findings.extend(log.holes())
    return Tally.of(findings, excused_copies=excused)


def _delivered_from_broker(columns: Columns, acked: MessageEvents) -> Mask:
    """Whether a consumer received each copy from the broker that acknowledged it, shape (acked,)."""
    brokers = columns.names.stream_of_log
    size = len(columns.names.streams)
    read = columns.deliveries.where(columns.deliveries.message != UNKNOWN)
    messages, (got, wanted) = dense_numbers(read.message, acked.message)
    delivered = np.zeros(messages * size, np.bool_)
    delivered[got * size + brokers[read.log]] = True
    found: Mask = delivered[wanted * size + brokers[acked.log]]
    return found


def _passed(columns: Columns, context: Context, acked: MessageEvents) -> Mask:
    """Whether a group that wants the copy has read past it, shape (acked,)."""
    passed = np.zeros(len(acked), np.bool_)
    for group in context.facts.groups:
        passed |= context.wants(columns, acked, group) & context.resolved(columns, acked, group)
    return passed


class _Log:
    """The acknowledged copies in one broker's log."""

    __slots__ = ("_acked", "_broker", "_columns", "_context", "_missing", "_survived", "excused")

    def __init__(
        self, columns: Columns, context: Context, broker: str, acked: MessageEvents, missing: Mask
    ) -> None:
        self._columns, self._context, self._broker = columns, context, broker
        self._acked, self._missing = acked, missing
        self._survived: MessageEvents | None = None
        self.excused = [
            (row, rule)
            for row in np.flatnonzero(missing).tolist()
            if (rule := context.promises.rule(broker, int(acked.invoke_ns[row]))).loss
            is Loss.SUFFIX
        ]

    def holes(self) -> Iterator[Finding]:
        for row, rule in self.excused:
            if reason := self._reached_beyond(int(self._acked.position[row]), rule):
                yield finding_at(
                    self._columns,
                    self._acked,
                    row,
                    anomaly="log_hole",
                    judgement=judge(self._context.facts.mode, "log_hole"),
                    detail=f"lost, and no suffix of the log: {reason}",
                )

    def _reached_beyond(self, physical_offset: int, rule: LossRule) -> str | None:
        """Return the proof that the log kept bytes above `physical_offset`, as a text; None if there is none."""
        recovered = self._recovered_end(rule.hits)
        if recovered is not None:
            above = recovered > physical_offset
            return f"it was recovered up to {recovered}" if above else None
        survivor = self._survivor_above(physical_offset, min(hit.start_ns for hit in rule.hits))
        if survivor is None:
            return None
        return f"key {survivor}, further up and acknowledged before the fault, has survived"

    def _recovered_end(self, hits: tuple[DamageEvent, ...]) -> int | None:
        """Return the highest end of log among the damaged replicas after recovery in this episode; None: not observed.

        A node may recover more than once. Its shortest log counts, because later ones hold new messages at the offsets
        of the lost ones.
        """
        nodes = {hit.node for hit in hits} & set(self._context.promises.holders(self._broker))
        first_ns = min(hit.start_ns for hit in hits)
        last_ns = max(hit.healed_ns for hit in hits) + RESYNC_NS
        shortest: dict[str, int] = {}
        for seen in self._context.observations:
            if seen["kind"] != "recovery" or "end_offset" not in seen:
                continue
            if seen["node"] in nodes and first_ns <= seen["time_ns"] <= last_ns:
                node, end = seen["node"], int(seen["end_offset"])
                shortest[node] = min(end, shortest.get(node, end))
        return max(shortest.values()) if shortest else None

    def _survivor_above(self, physical_offset: int, fault_ns: int) -> str | None:
        if self._survived is None:
            certain = (
                ~self._missing
                & self._is_last_at_its_position()
                & _below_the_end(self._columns, self._context, self._acked)
            )
            self._survived = self._acked.where(certain)
        survived = self._survived
        last = _furthest_before(survived, fault_ns)
        if last is None or survived.position[last] <= physical_offset:
            return None
        return self._columns.names.key(int(survived.message[last]))

    def _is_last_at_its_position(self) -> Mask:
        """Whether no other message has the (queue, offset) of each copy, shape (acked,)."""
        columns = self._columns
        positions = placements_of(
            columns, np.arange(len(columns.sends)), np.arange(len(columns.deliveries))
        )
        ids = position_ids(positions.queue, positions.offset)
        changed = positions.message != positions.message[first_at(ids)]
        shared = np.zeros(int(ids.max()) + 1, np.bool_)
        shared[ids[changed]] = True
        unshared = np.zeros(len(self._columns.sends), np.bool_)
        from_send = positions.from_send
        unshared[positions.row[from_send]] = ~shared[ids[from_send]]
        # A message is sent once, so its id identifies the row of a copy in columns.sends.
        return unshared[_rows_of_messages(self._columns.sends, self._acked)]


def _furthest_before(copies: MessageEvents, fault_ns: int) -> int | None:
    """Return the row of the copy furthest up in the log among those acknowledged before `fault_ns`; None if none is."""
    rows = np.flatnonzero(copies.time_ns < fault_ns)
    if not len(rows):
        return None
    highest = copies.position[rows].max()
    rows = rows[copies.position[rows] == highest]
    return int(rows[np.argmin(copies.op_index[rows])])


def possible_survivors(columns: Columns, context: Context, cleared: Mask) -> Ints:
    """Select cleared messages that may prove a hole in their log: the last one of each queue before each fault."""
    sends = columns.sends
    if not context.promises.any_suffix_excused():
        return np.zeros(0, np.int64)
    index = index_of(columns)
    certain = cleared & (sends.outcome == Outcome.OK) & (sends.position != UNKNOWN)
    certain &= index.delivered_at[index.send_position] & _below_the_end(columns, context, sends)
    found: list[int] = []
    for _, rows in rows_by_id(np.where(certain, sends.log, UNKNOWN)):
        copies = sends.where(rows)
        if copies.log[0] != UNKNOWN:
            for fault_ns in context.promises.fault_starts():
                last = _furthest_before(copies, fault_ns)
                if last is not None:
                    found.append(int(copies.message[last]))
    return np.unique(np.array(found, np.int64))


def _below_the_end(columns: Columns, context: Context, sends: MessageEvents) -> Mask:
    """Whether each send is below the end that its queue had after a complete drain, shape (sends,)."""
    names = columns.names
    ends = np.zeros(len(names.logs) + 1, np.int64)  # the last element: no queue
    for drain in context.timeline.drains.values():
        for row, queue in enumerate(names.logs):
            if drain.complete and queue in drain.ends:
                ends[row] = max(ends[row], drain.ends[queue].max_offset)
    below: Mask = sends.queue_offset < ends[sends.log]
    return below


def _rows_of_messages(sends: MessageEvents, acked: MessageEvents) -> Ints:
    order = np.argsort(sends.message, kind="stable")
    return order[np.searchsorted(sends.message[order], acked.message)]


LOG_HOLES = Kernel(
    name="log_holes",
    partition_by="stream",
    screened=True,
    anomalies=("log_hole",),
    partial=tally_log_holes,
    unknown_reason=unless_unread,
    counts_of_screened_out=lambda _counts: {"excused_copies": 0},
    more_candidates=possible_survivors,
)
