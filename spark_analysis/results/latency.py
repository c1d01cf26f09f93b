"""Latency and availability over time, from ops in the order of time. Integer histograms are equal on every engine.

Latencies are counted in the buckets of `checkers/model/histogram.py`, so a percentile is at most a sixteenth above the
true one. A slice is one second long, or longer in a history with very many seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from staticfire.checkers.guarantees.promises import NS_PER_S
from staticfire.checkers.model.columns import Ints
from staticfire.checkers.model.histogram import BUCKETS, buckets_of, percentile_us
from staticfire.checkers.op_kinds.consumer import CONSUME_MANY
from staticfire.checkers.op_kinds.producer import SEND_MANY

SLICES_MAX = 2000
FUNCTIONS = ("send", "consume")
# a batch is one op, since all of its messages take the same time
CONDENSED = (SEND_MANY, CONSUME_MANY)
COLUMNS = ("time_ns", "invoke_ns", "type", "f")


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Counts of ok ops in each (slice, function, bucket), and of other ops in each (slice, function).

    `cells` and `counts` have the same shape; a cell is (slice * functions + function) * BUCKETS + bucket. `failed` and
    `failures` are the same for ops that did not end ok; such a cell is slice * functions + function.
    """

    slice_s: int
    cells: Ints
    counts: Ints
    failed: Ints
    failures: Ints

    def merge(self, other: Histogram) -> Histogram:
        """Return the sum of both. Merging is associative and commutative."""
        cells, counts = _added((self.cells, other.cells), (self.counts, other.counts))
        failed, failures = _added((self.failed, other.failed), (self.failures, other.failures))
        return Histogram(
            slice_s=self.slice_s, cells=cells, counts=counts, failed=failed, failures=failures
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One function in one slice of time. Latencies are microseconds; None: no ok op."""

    at_s: int
    f: str
    ok: int
    not_ok: int
    p50_us: int | None
    p99_us: int | None
    max_us: int | None

    def to_json(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


def tally(table: pa.Table, slice_s: int) -> Histogram:
    """Count the rows of a table with the columns COLUMNS."""
    function = np.maximum(_codes(table["f"], FUNCTIONS), _codes(table["f"], CONDENSED))
    known = function >= 0
    done_ns, invoke_ns = table["time_ns"].to_numpy(), table["invoke_ns"].to_numpy()
    cell = done_ns // (NS_PER_S * slice_s) * len(FUNCTIONS) + function
    ok = known & (_codes(table["type"], ("ok",)) == 0)
    bucket = buckets_of(done_ns[ok] - invoke_ns[ok])
    cells, counts = np.unique(cell[ok] * BUCKETS + bucket, return_counts=True)
    failed, failures = np.unique(cell[known & ~ok], return_counts=True)
    return Histogram(slice_s=slice_s, cells=cells, counts=counts, failed=failed, failures=failures)


def merged(histograms: Iterable[Histogram], slice_s: int) -> Histogram:
    """Return the sum of all histograms; an empty histogram for none."""
    nothing = np.zeros(0, np.int64)
    total = Histogram(
        slice_s=slice_s, cells=nothing, counts=nothing, failed=nothing, failures=nothing
    )
    for histogram in histograms:
        total = total.merge(histogram)
    return total


def slices_of(histogram: Histogram) -> list[Slice]:
    """Return the slices in the order of time. Percentiles are by nearest rank."""
    ok_cells = histogram.cells // BUCKETS
    slices = []
    for cell in np.union1d(ok_cells, histogram.failed).tolist():
        rows = slice(*np.searchsorted(ok_cells, [cell, cell + 1]).tolist())
        buckets, counts = histogram.cells[rows] % BUCKETS, histogram.counts[rows]
        slot, function = divmod(cell, len(FUNCTIONS))
        at = int(np.searchsorted(histogram.failed, cell))
        failed = at < len(histogram.failed) and histogram.failed[at] == cell
        slices.append(
            Slice(
                at_s=slot * histogram.slice_s,
                f=FUNCTIONS[function],
                ok=int(counts.sum()),
                not_ok=int(histogram.failures[at]) if failed else 0,
                p50_us=_percentile(buckets, counts, 50),
                p99_us=_percentile(buckets, counts, 99),
                max_us=_percentile(buckets, counts, 100),
            )
        )
    return slices


def gaps_of(slices: Sequence[Slice], slice_s: int) -> list[tuple[int, int]]:
    """Return intervals (from, until), in seconds, without ok sends between the first and the last ok send."""
    served = [at.at_s for at in slices if at.f == "send" and at.ok]
    pairs = pairwise(served)
    return [(before + slice_s, after) for before, after in pairs if after > before + slice_s]


def _percentile(buckets: Ints, counts: Ints, percent: int) -> int | None:
    if not len(counts):
        return None
    return percentile_us(buckets.tolist(), counts.tolist(), percent * 100)


def _codes(column: pa.ChunkedArray, words: Sequence[str]) -> Ints:
    """Return the index of each text in `words`, -1 for other texts."""
    found = pc.index_in(column, value_set=pa.array(words, pa.string()))
    codes: Ints = pc.fill_null(found, -1).to_numpy().astype(np.int64)
    return codes


def _added(keys: tuple[Ints, Ints], counts: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    distinct, at = np.unique(np.concatenate(keys), return_inverse=True)
    total = np.zeros(len(distinct), np.int64)
    np.add.at(total, at, np.concatenate(counts))
    return distinct, total
