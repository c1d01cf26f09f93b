"""Checkers with nothing but defaults: a violation for each row, so whatever an engine hides from them is missed."""

from __future__ import annotations

from staticfire.checkers.engine.kernel import Checker, Context, Kernel, every_row, nothing_missing
from staticfire.checkers.guarantees.verdict import Tally, Verdict
from staticfire.checkers.model.columns import Columns, PartitionKey


def count_rows(columns: Columns, _context: Context) -> Tally:
    """Every row is a violation."""
    return Tally(
        counts={
            "a_send": len(columns.sends),
            "a_delivery": len(columns.deliveries),
            "a_commit": len(columns.commits),
        }
    )


def default_kernel(partition_by: PartitionKey) -> Checker:
    """A kernel as a newcomer writes it."""
    return Kernel(
        name=f"rows_by_{partition_by}",
        partition_by=partition_by,
        anomalies=("a_send", "a_delivery", "a_commit"),
        partial=count_rows,
        unknown_reason=nothing_missing,
    ).as_checker()


def check_rows(columns: Columns, context: Context) -> Verdict:
    """The same question, asked by a checker that is no kernel."""
    counts = count_rows(columns, context).counts
    return Verdict(checker="rows", valid=not any(counts.values()), counts=counts)


DEFAULTS = (
    *(default_kernel(key) for key in ("message", "stream", "log")),
    Checker(name="rows", anomalies=("a_send",), check=check_rows, rows=every_row),
)
