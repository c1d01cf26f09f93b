"""Checker of sends in transactions: none is lost, and each has one position, in the order of its transaction.

**lost_write**: a transaction has committed, and one of its messages was skipped: an `ok` transaction polled a message
at or above its offset, and no `ok` transaction polled this one. A message without a known offset is lost if every drain
was complete and no transaction polled it. A transaction without a clear end has committed if an `ok` one polled any of
its messages (all or nothing). **txn_duplicate**: a message is at two offsets of its log: acknowledged at one and
polled at another, or polled at both. **txn_inconsistent_offsets**: two values are at one offset of a log, by sends of
committed transactions and by polls. **txn_nonmonotonic_send**: a transaction sent two consecutive messages to one key,
and the later one got the lower offset.

Cannot see: the end of a log that no poll reached; messages whose offsets are not known, while something is unread.

Source: `lost-write`, `duplicate`, `inconsistent-offsets` and `int-nonmonotonic-send` of Jepsen's Kafka workload.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from staticfire.checkers.cycles.txn_log import Message, TxnLog, Value, reads_of, sends_of
from staticfire.checkers.engine.kernel import Checker, Context, no_rows
from staticfire.checkers.guarantees.promises import judge
from staticfire.checkers.guarantees.verdict import Finding, Tally, Verdict
from staticfire.checkers.model.columns import Columns
from staticfire.checkers.model.timeline import Txn

Found = tuple[str, Txn, str, str]  # anomaly, transaction, key, detail


def check_txn_writes(_columns: Columns, context: Context) -> Verdict:
    """Judge the sends of each transaction."""
    log = TxnLog(context.timeline.txns)
    drains = context.timeline.drains.values()
    is_read = bool(drains) and all(drain.complete for drain in drains)
    found = (
        *_lost(log, is_read=is_read),
        *_at_two_positions(log),
        *_two_values(log),
        *_misordered(log),
    )
    findings = [
        Finding(
            anomaly=anomaly,
            judgement=judge(context.facts.mode, anomaly),
            op_index=txn.op_index,
            time_ns=txn.time_ns,
            detail=detail,
            key=key,
        )
        for anomaly, txn, key, detail in found
    ]
    tally = Tally.of(findings, transactions=len(log.txns))
    return Verdict(
        checker="txn_writes", valid=not findings, counts=tally.counts, findings=tally.findings
    )


def _lost(log: TxnLog, *, is_read: bool) -> Iterator[Found]:
    polled: set[Message] = set()
    highest: dict[str, int] = {}
    for txn in log.txns:
        if txn.type == "ok":
            for key, offset, value in reads_of(txn):
                polled.add((key, value))
                highest[key] = max(offset, highest.get(key, offset))
    for number, txn in enumerate(log.txns):
        for sent in sends_of(txn) if log.committed[number] else ():
            if (sent.key, sent.value) in polled:
                continue
            position = log.offset_of.get((sent.key, sent.value))
            if position is None:
                if is_read:
                    yield "lost_write", txn, sent.key, f"sent {sent.value}, and no poll got it"
            elif position <= highest.get(sent.key, -1):
                detail = f"sent {sent.value} to offset {position}, and no poll got it, but offset {highest[sent.key]}"
                yield "lost_write", txn, sent.key, detail


def _at_two_positions(log: TxnLog) -> Iterator[Found]:
    """Yield one finding for each message, with its two lowest offsets."""
    positions: dict[Message, set[int]] = {}
    for _, key, offset, value in log.sightings():
        positions.setdefault((key, value), set()).add(offset)
    for message, offsets in positions.items():
        writer = log.writer_of.get(message)
        if len(offsets) > 1 and writer is not None:
            first, second, *_ = sorted(offsets)
            key, value = message
            detail = f"{value} is at offset {first} and at offset {second}"
            yield "txn_duplicate", log.txns[writer], key, detail


def _two_values(log: TxnLog) -> Iterator[Found]:
    """Yield one finding for each offset, with the first transaction that reported a second value."""
    first: dict[tuple[str, int], Value] = {}
    reported: set[tuple[str, int]] = set()
    for number, key, offset, value in log.sightings():
        held = first.setdefault((key, offset), value)
        if held != value and (key, offset) not in reported:
            reported.add((key, offset))
            detail = f"offset {offset} holds {held} and {value}"
            yield "txn_inconsistent_offsets", log.txns[number], key, detail


def _misordered(log: TxnLog) -> Iterator[Found]:
    """Yield one finding for each transaction and key."""
    for txn in log.txns:
        placed = [sent for sent in sends_of(txn) if sent.offset is not None]
        for key in dict.fromkeys(sent.key for sent in placed):
            of_key = [sent for sent in placed if sent.key == key]
            for before, after in pairwise(of_key):
                assert before.offset is not None
                assert after.offset is not None
                if after.offset < before.offset:
                    detail = f"sent {before.value} to offset {before.offset}, then {after.value} to {after.offset}"
                    yield "txn_nonmonotonic_send", txn, key, detail
                    break


TXN_WRITES = Checker(
    name="txn_writes",
    anomalies=(
        "lost_write",
        "txn_duplicate",
        "txn_inconsistent_offsets",
        "txn_nonmonotonic_send",
    ),
    check=check_txn_writes,
    rows=no_rows,
    applies=lambda context: bool(context.timeline.txns),
)
