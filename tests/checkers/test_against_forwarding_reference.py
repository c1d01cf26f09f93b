"""Forwarding against a plain reference: on random histories, in chunks of whole queues, and in files."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.checkers.features.forwarding import FORWARDING
from staticfire.checkers.formats.chunks.check_files import check_files
from staticfire.checkers.guarantees.verdict import WITNESSES_MAX, Verdict
from staticfire.checkers.verdicts.compose import check_run
from tests.checkers.formats.columnar.test_round_trip import record
from tests.support import reference_forwarding
from tests.support.chunked_kernels import check_chunks
from tests.support.forwarding_histories import FACTS, forwarding_history
from tests.support.history_language import facts
from tests.support.one_checker import read_ops

STEADY = settings(max_examples=int(os.environ.get("HISTORIES", "100")))
SEEDS = st.integers(0, 2**32)


def verdict_of(seed: int) -> Verdict:
    [verdict] = check_run(forwarding_history(seed), [], facts(**FACTS), [FORWARDING]).verdicts
    return verdict


@pytest.mark.slow
@STEADY
@given(SEEDS)
def test_forwarding(seed: int) -> None:
    verdict = verdict_of(seed)
    expected = reference_forwarding.forwarded(forwarding_history(seed), FACTS)

    counted = Counter({name: verdict.counts.get(name, 0) for name in FORWARDING.anomalies})
    assert +counted == sum((Counter({of[0]: times}) for of, times in expected.items()), Counter())
    assert verdict.valid is not bool(expected)
    if max(counted.values()) <= WITNESSES_MAX:
        places = Counter(
            (of.anomaly,)
            if of.queue is None
            else (of.anomaly, (of.topic, of.broker, of.queue), of.queue_offset)
            for of in verdict.findings
        )
        assert places == expected


@pytest.mark.slow
@STEADY
@given(seed=SEEDS, chunks=st.integers(2, 5))
def test_any_cut_says_the_same(seed: int, chunks: int) -> None:
    columns, context = read_ops(forwarding_history(seed), **FACTS)
    kernel = FORWARDING.kernel
    assert kernel is not None
    whole = kernel.check(columns, context)
    assert check_chunks(kernel, columns, context, chunks).to_json() == whole.to_json()


@pytest.mark.slow
@settings(STEADY, max_examples=20)
@given(seed=SEEDS, whole_rows=st.integers(4, 20))
def test_files_and_pieces_of_queues_say_the_same(seed: int, whole_rows: int) -> None:
    with TemporaryDirectory() as folder:
        history = record(forwarding_history(seed), Path(folder) / "h", part_rows=5)
        run = check_files(
            history, [], facts(**FACTS), [FORWARDING], partition_rows=1, whole_rows=whole_rows
        )
        [verdict] = run.verdicts
    assert verdict.to_json() == verdict_of(seed).to_json()


def test_each_anomaly_occurs() -> None:
    found = Counter(of.anomaly for seed in range(60) for of in verdict_of(seed).findings)
    assert set(found) == set(FORWARDING.anomalies)
    assert any(verdict_of(seed).valid is True for seed in range(60))
