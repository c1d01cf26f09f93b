"""Unique message ids: no two messages have the same one.

**shared_id**: a client reports the same unique message id (UNIQ_KEY) for the sends of two messages. Users look up and
trace messages, and discard duplicates, by this id. The producer makes it from its address, its process, the time and a
counter, and keeps it for all attempts of a send.

Cannot see: ids of sends that no broker answered, of condensed batches, and of clients that do not report them. If more
than 250,000 sends have ids, the checker compares a sample of about 125,000 to 250,000. The digest of the id decides
whether a message is in it, so two messages with one id are both in the sample, or both not.

Source: MessageClientIDSetter of Apache RocketMQ 4.9.
"""

from __future__ import annotations

import numpy as np

from staticfire.checkers.engine.kernel import Checker, Context, finding_at, some_rows
from staticfire.checkers.guarantees.promises import judge
from staticfire.checkers.guarantees.verdict import Tally, Verdict
from staticfire.checkers.model.columns import UNKNOWN, Columns, Ints, is_constant

ANOMALY = "shared_id"
COMPARED_MAX = 250_000  # most sends that are compared, because memory must hold them
_ESTIMATED_BY = 4096  # the number of ids is estimated from one of this many


def estimating_rows(columns: Columns, _context: Context) -> Columns:
    """Select the sends from which the number of ids is estimated."""
    return some_rows(columns, sends=_sampled(columns, _ESTIMATED_BY))


def compared_rows(columns: Columns, _context: Context, estimating: Columns) -> Columns:
    """Select the sends that are compared; `estimating` has the `estimating_rows` of all queues."""
    return some_rows(columns, sends=_sampled(columns, _one_of(estimating)))


def check_shared_ids(columns: Columns, context: Context) -> Verdict:
    """Judge the ids of all sends, or of the sample."""
    sends = columns.sends
    rows = _sampled(columns, _one_of(columns))
    rows = rows[np.lexsort((sends.op_index[rows], sends.message_id[rows]))]
    ids, messages = sends.message_id[rows], sends.message[rows]
    later = 1 + np.flatnonzero((ids[1:] == ids[:-1]) & (messages[1:] != messages[:-1]))
    tally = Tally.of(
        finding_at(
            columns,
            sends,
            int(rows[at]),
            anomaly=ANOMALY,
            judgement=judge(context.facts.mode, ANOMALY),
            detail=f"key {columns.names.key(int(messages[at - 1]))} has the same unique message id",
            other=int(messages[at - 1]),
        )
        for at in later.tolist()
    )
    return Verdict(
        checker="shared_ids",
        valid=ANOMALY not in tally.counts,
        counts=tally.counts,
        findings=tally.findings,
    )


def _one_of(columns: Columns) -> int:
    """Return n, a power of two: one in n sends is compared. `columns` may have all sends, or only a sample of them."""
    estimated = len(_sampled(columns, _ESTIMATED_BY)) * _ESTIMATED_BY
    one_of = 1
    while one_of < _ESTIMATED_BY and estimated > COMPARED_MAX * one_of:
        one_of *= 2
    return one_of


def _sampled(columns: Columns, one_of: int) -> Ints:
    """Return the rows of the sends whose id is in a sample of one in `one_of` ids."""
    ids = columns.sends.message_id
    if is_constant(ids) and ids[0] == UNKNOWN:
        return np.zeros(0, np.int64)
    known = ids != UNKNOWN
    rows: Ints = np.flatnonzero(known if one_of == 1 else known & (ids % one_of == 0))
    return rows


SHARED_IDS = Checker(
    name="shared_ids",
    anomalies=(ANOMALY,),
    check=check_shared_ids,
    rows=estimating_rows,
    rows_again=compared_rows,
)
