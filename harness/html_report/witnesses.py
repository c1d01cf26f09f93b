"""Chooses the findings whose messages the page shows, and collects the history's rows about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from staticfire.checkers.guarantees.judgement import Judgement
from staticfire.checkers.guarantees.verdict import Finding
from staticfire.checkers.model.columns import UNKNOWN, LogKey, Mask, Names
from staticfire.checkers.model.history import Op
from staticfire.checkers.model.message_ids import MessageIds
from staticfire.checkers.verdicts.compose import RunVerdict
from staticfire.harness.explain.event import Event
from staticfire.harness.explain.life import Record, life_of
from staticfire.harness.html_report.history_rows import HistoryRows, QueueEvents, Rows
from staticfire.harness.recording.stored_logs import StoredLogs
from staticfire.harness.results.fingerprint import CAUSES

WITNESSES_MAX = 16  # findings with a life; the table of findings has more
ROWS_MAX = 400  # rows of the history about one witness
NEIGHBOURS = 30  # offsets on each side of the order view
ORDER_ROWS_MAX = 300
AROUND_NS = 5_000_000_000  # time on each side of a finding without an offset
SLOWEST = "slowest_delivery"  # name of the witness of a run without findings


@dataclass(slots=True)
class Witness:
    """A finding, with the history's rows of its message and of the offsets around it."""

    finding: Finding
    message: int  # id; UNKNOWN for a finding without a message
    queue: int  # id; UNKNOWN for a finding without a queue
    # queue, rows, whether they are sends
    touching: list[tuple[int, Rows, bool]] = field(default_factory=list)
    order_sends: Rows | None = None
    order_deliveries: Rows | None = None
    order_is_cut: bool = False  # there were more than ORDER_ROWS_MAX rows
    events: Sequence[Event] = ()

    def take(self, events: QueueEvents) -> None:
        """Keep the rows of one queue that belong to the witness."""
        for rows, are_sends in ((events.sends, True), (events.deliveries, False)):
            found = rows.where(np.flatnonzero(self._touched(events.queue, rows))[:ROWS_MAX])
            if len(found):
                self.touching.append((events.queue, found, are_sends))
        if events.queue != UNKNOWN and events.queue == self.queue:
            self.order_sends = self._neighbours(events.sends)
            self.order_deliveries = self._neighbours(events.deliveries)

    def _touched(self, queue: int, rows: Rows) -> Mask:
        found: Mask = np.zeros(len(rows), np.bool_)
        if self.message != UNKNOWN:
            found |= rows["message"] == self.message
        if queue == self.queue and self.finding.queue_offset is not None and queue != UNKNOWN:
            found |= rows["queue_offset"] == self.finding.queue_offset
        return found

    def _neighbours(self, rows: Rows) -> Rows:
        offset = self.finding.queue_offset
        if offset is not None and offset >= 0:
            distance = np.abs(rows["queue_offset"] - offset)
            near = (distance <= NEIGHBOURS) & (rows["queue_offset"] >= 0)
        else:
            distance = np.abs(rows["time_ns"] - self.finding.time_ns)
            near = (distance <= AROUND_NS) & (rows["queue_offset"] >= 0)
        found = np.flatnonzero(near)
        if len(found) > ORDER_ROWS_MAX:
            self.order_is_cut = True
            found = np.sort(found[np.argsort(distance[found], kind="stable")[:ORDER_ROWS_MAX]])
        return rows.where(found)


def choose_witnesses(verdict: RunVerdict, names: Names) -> list[Witness]:
    """Return at most WITNESSES_MAX findings: the first violation of each anomaly, the leading ones first; then further
    violations; then allowed findings.
    """
    return [_witness(finding, names) for finding in _chosen(verdict.findings())]


def slowest_witness(
    names: Names, message: int, queue: int, lag_ns: int, time_ns: int, offset: int | None = None
) -> Witness:
    """Return the message with the longest time from acknowledgement to listener, for a run without findings."""
    of = names.logs[queue]
    finding = Finding(
        anomaly=SLOWEST,
        judgement=Judgement.ALLOWED,
        op_index=-1,
        time_ns=time_ns,
        detail=f"no anomaly was found; this message waited longest: {lag_ns / 1e9:.3f} s from its acknowledgement "
        "to a listener",
        key=names.key(message),
        topic=of.topic,
        broker=of.home,
        queue=of.partition,
        queue_offset=offset,
    )
    return Witness(finding, message, queue)


def _chosen(findings: Sequence[Finding]) -> list[Finding]:
    order = {name: number for number, name in enumerate(_leading_first())}
    violations = [finding for finding in findings if finding.judgement == Judgement.VIOLATION]
    violations.sort(key=lambda finding: order.get(finding.anomaly, len(order)))
    allowed = [finding for finding in findings if finding.judgement != Judgement.VIOLATION]
    firsts, further = _first_of_each(violations)
    return [*firsts, *further[: WITNESSES_MAX // 4], *_first_of_each(allowed)[0]][:WITNESSES_MAX]


def _leading_first() -> Iterator[str]:
    for anomalies in CAUSES.values():
        yield from anomalies


def _first_of_each(findings: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
    firsts: dict[str, Finding] = {}
    further = []
    for finding in findings:
        if finding.anomaly in firsts:
            further.append(finding)
        else:
            firsts[finding.anomaly] = finding
    return list(firsts.values()), further


def _witness(finding: Finding, names: Names) -> Witness:
    log_key = LogKey(
        finding.topic or "", finding.broker or "", -1 if finding.queue is None else finding.queue
    )
    queue = names.logs.index(log_key) if log_key in names.logs else UNKNOWN
    message = UNKNOWN
    if finding.key is not None:
        message = MessageIds(names.other_keys)[finding.key]
    return Witness(finding, message, queue)


def find_lives(
    witnesses: Sequence[Witness],
    history: HistoryRows,
    observations: Sequence[Record],
    faults: Sequence[Record],
    brokers: Mapping[str, Sequence[str]],
    stored_logs: StoredLogs | None,
) -> None:
    """Set the events of each witness. Raises HistoryError, OSError."""
    events = history.events()
    rows = [touching for witness in witnesses for touching in witness.touching]
    ops = {op.index: op for op in history.ops(rows)} if rows else {}
    for witness in witnesses:
        mine: dict[int, Op] = {op.index: op for op in events}
        for _, of, _ in witness.touching:
            for name in ("op_index", "invoke_index"):
                mine |= {index: ops[index] for index in of[name].tolist() if index in ops}
        finding = witness.finding
        nodes = brokers.get(finding.broker or "", ())
        in_order = [mine[index] for index in sorted(mine)]
        witness.events = life_of(finding, in_order, observations, faults, nodes, stored_logs)
