"""Checker of polls in transactions: no aborted, uncommitted, phantom or misordered message, and no partial write.

**G1a**: a successful transaction polled a message whose transaction has certainly failed. **G1b**: it polled a part of
the messages that another transaction had sent to a key: one between the first and the last that it polled is missing.
It saw an intermediate state. **precommitted_read**: a transaction polled its own send before it was committed.
**txn_phantom**: a transaction of any outcome polled a value that no transaction of any outcome sent to that key.
**txn_nonmonotonic_poll**: within one poll, the offsets of a key do not ascend. A rebalance excuses a step back between
two polls, but not within one.

Cannot see: an intermediate state at the ends of a poll, because a poll may begin and stop anywhere; messages without an
offset; a step back from one poll of a transaction to the next.

Source: Adya's phenomena, as in Jepsen's Kafka workload (which has no check for G1b and phantoms), and its
`int-nonmonotonic-poll`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from staticfire.checkers.cycles.txn_log import TxnLog, Value, reads_of, sends_of
from staticfire.checkers.engine.kernel import Checker, Context, no_rows
from staticfire.checkers.guarantees.promises import judge
from staticfire.checkers.guarantees.verdict import Finding, Tally, Verdict
from staticfire.checkers.model.columns import Columns
from staticfire.checkers.model.timeline import Polled, Txn


def check_txn_reads(_columns: Columns, context: Context) -> Verdict:
    """Judge the polls of each transaction."""
    log = TxnLog(context.timeline.txns)
    found = (
        *_aborted(log),
        *_intermediate(log),
        *_own(log),
        *_never_sent(log),
        *_going_back(log),
    )
    findings = [_finding(context, anomaly, txn, key, text) for anomaly, txn, key, text in found]
    tally = Tally.of(findings, transactions=len(log.txns))
    return Verdict(
        checker="txn_reads", valid=not findings, counts=tally.counts, findings=tally.findings
    )


Found = tuple[str, Txn, str, str]  # anomaly, transaction that polled, key, detail


def _finding(context: Context, anomaly: str, txn: Txn, key: str, detail: str) -> Finding:
    return Finding(
        anomaly=anomaly,
        judgement=judge(context.facts.mode, anomaly),
        op_index=txn.op_index,
        time_ns=txn.time_ns,
        detail=detail,
        key=key,
    )


def _aborted(log: TxnLog) -> Iterator[Found]:
    for txn in log.txns:
        if txn.type != "ok":
            continue
        for key, offset, value in reads_of(txn):
            writer = log.writer_of.get((key, value))
            if writer is not None and log.txns[writer].type == "fail":
                detail = f"polled {value} at offset {offset}, sent by op {log.txns[writer].op_index}, which failed"
                yield "G1a", txn, key, detail


def _intermediate(log: TxnLog) -> Iterator[Found]:
    for number, txn in enumerate(log.txns):
        if txn.type != "ok":
            continue
        polled: dict[str, dict[Value, int]] = {}
        for key, offset, value in reads_of(txn):
            polled.setdefault(key, {})[value] = offset
        for key, values in polled.items():
            writers = {log.writer_of.get((key, value)) for value in values} - {None, number}
            for writer in sorted(writer for writer in writers if writer is not None):
                yield from _partly(log, txn, key, values, log.txns[writer])


def _partly(
    log: TxnLog, txn: Txn, key: str, values: Mapping[Value, int], other: Txn
) -> Iterator[Found]:
    """Yield a finding that lists the messages of `other` missing between the first and the last that `txn` polled."""
    first, last = min(values.values()), max(values.values())
    missed = [
        sent.value
        for sent in sends_of(other)
        if sent.key == key and sent.value not in values
        if first < log.offset_of.get((key, sent.value), -1) < last
    ]
    if missed:
        detail = (
            f"polled offsets {first} to {last} and saw only a part of op {other.op_index}: "
            f"not {', '.join(map(str, missed))}"
        )
        yield "G1b", txn, key, detail


def _own(log: TxnLog) -> Iterator[Found]:
    for txn in log.txns:
        own = {(sent.key, sent.value) for sent in sends_of(txn)}
        first: dict[str, str] = {}
        for key, offset, value in reads_of(txn):
            if (key, value) in own:
                first.setdefault(key, f"polled {value} at offset {offset}, its own send")
        for key, detail in first.items():
            yield "precommitted_read", txn, key, detail


def _never_sent(log: TxnLog) -> Iterator[Found]:
    """Yield one finding for each transaction and key."""
    for txn in log.txns:
        first: dict[str, str] = {}
        for key, offset, value in reads_of(txn):
            if (key, value) not in log.writer_of:
                first.setdefault(key, f"polled {value} at offset {offset}, which was never sent")
        for key, detail in first.items():
            yield "txn_phantom", txn, key, detail


def _going_back(log: TxnLog) -> Iterator[Found]:
    """Yield one finding for each transaction and key."""
    for txn in log.txns:
        first: dict[str, str] = {}
        for polled in (mop for mop in txn.mops if isinstance(mop, Polled)):
            for key, messages in polled.messages.items():
                for (before, _), (after, value) in pairwise(messages):
                    if after <= before:
                        detail = f"one poll got {value} at offset {after} after offset {before}"
                        first.setdefault(key, detail)
        for key, detail in first.items():
            yield "txn_nonmonotonic_poll", txn, key, detail


TXN_READS = Checker(
    name="txn_reads",
    anomalies=("G1a", "G1b", "precommitted_read", "txn_phantom", "txn_nonmonotonic_poll"),
    check=check_txn_reads,
    rows=no_rows,
    applies=lambda context: bool(context.timeline.txns),
)
