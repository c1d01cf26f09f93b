"""Latency by slices of time: percentiles, gaps, and parts that merge."""

from __future__ import annotations

from math import isnan
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.model.histogram import buckets_of
from staticfire.spark_analysis.results.latency import (
    COLUMNS,
    Slice,
    gaps_of,
    merged,
    slices_of,
    tally,
)
from staticfire.spark_analysis.results.plot import can_plot, plot_latency, with_gaps

OPS = st.lists(
    st.tuples(
        st.integers(0, 10**10),
        st.integers(0, 10**9),
        st.sampled_from(["ok", "info", "fail", "invoke"]),
        st.sampled_from(["send", "consume", "commit"]),
    ),
    max_size=60,
)
Rows = list[tuple[int, int, str, str]]


def table_of(ops: Rows) -> pa.Table:
    """Ops as (time_ns, latency_ns, type, f)."""
    rows = [(at + took, at, kind, f) for at, took, kind, f in ops]
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    types = (pa.int64(), pa.int64(), pa.string(), pa.string())
    return pa.table(
        {name: pa.array(of, kind) for name, of, kind in zip(COLUMNS, columns, types, strict=True)}
    )


@pytest.mark.slow
@given(OPS, st.integers(1, 3), st.integers(0, 60))
def test_any_cut_gives_the_same_and_all_ops_are_counted(ops: Rows, slice_s: int, cut: int) -> None:
    whole = slices_of(tally(table_of(ops), slice_s))
    parts = [tally(table_of(part), slice_s) for part in (ops[:cut], ops[cut:])]
    assert slices_of(merged(parts, slice_s)) == whole
    assert slices_of(merged(reversed(parts), slice_s)) == whole
    for f in ("send", "consume"):
        of_f = [kind for _, _, kind, name in ops if name == f]
        assert sum(at.ok for at in whole if at.f == f) == of_f.count("ok")
        assert sum(at.not_ok for at in whole if at.f == f) == len(of_f) - of_f.count("ok")


@pytest.mark.slow
@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=200))
def test_percentiles_are_those_of_the_plain_definition(latencies_ns: list[int]) -> None:
    [found] = slices_of(tally(table_of([(0, ns, "ok", "send") for ns in latencies_ns]), 10))
    ranked = sorted(latencies_ns)
    for got, percent in ((found.p50_us, 50), (found.p99_us, 99), (found.max_us, 100)):
        exact_ns = ranked[-(-len(ranked) * percent // 100) - 1]
        assert got is not None
        same = buckets_of(np.array([got * 1000, exact_ns]))
        assert same[0] == same[1]


def test_a_batch_counts_as_what_it_is_a_batch_of() -> None:
    one_by_one = [(0, 5, "ok", "send"), (0, 7, "info", "consume")]
    batches = [(at, took, kind, f"{f}_many") for at, took, kind, f in one_by_one]
    assert slices_of(tally(table_of(batches), 1)) == slices_of(tally(table_of(one_by_one), 1))


def test_gaps_lie_between_acknowledged_sends() -> None:
    second = 10**9
    ops = [
        (at * second, 5, kind, "send")
        for at, kind in ((1, "ok"), (2, "info"), (4, "ok"), (5, "ok"))
    ]
    assert gaps_of(slices_of(tally(table_of(ops), 1)), 1) == [(2, 4)]


@pytest.mark.slow
@pytest.mark.skipif(not can_plot(), reason="needs matplotlib")
def test_a_history_in_which_everything_takes_no_time_has_a_plot_all_the_same(
    tmp_path: Path,
) -> None:
    at_once = Slice(at_s=0, f="send", ok=1, not_ok=0, p50_us=0, p99_us=0, max_us=0)
    facts = RunFacts(flush="sync", replication="none", groups={}, topics=(), replica_sets={})
    plot_latency(tmp_path / "plot.svg", [at_once], facts, "run")
    assert (tmp_path / "plot.svg").stat().st_size > 0


def test_a_line_is_interrupted_where_slices_are_missing() -> None:
    seconds, ms = with_gaps([0, 2, 22, 44], [1000, None, 3000, 4000])
    assert seconds == [0, 2, 22, 44, 44]  # 20 s are ten slices, 22 are more
    assert ms[:3] == [1.0, 0.0, 3.0]
    assert isnan(ms[3])
    assert ms[4:] == [4.0]
