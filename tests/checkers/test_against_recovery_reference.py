"""Recovery, coverage, the hot key and routes against plain references, on random histories.

`HISTORIES=2000 pytest tests/checkers/test_against_recovery_reference.py` tries more of them.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.checkers.guarantees.verdict import Verdict
from staticfire.checkers.verdicts.compose import KERNELS
from staticfire.checkers.white_box.routes import ROUTES
from tests.support import recovery_histories, reference_recovery, reference_routes
from tests.support.chunked_kernels import check_chunks
from tests.support.history_language import facts
from tests.support.one_checker import judged_by, read_ops
from tests.support.recovery_histories import Recovered, recovery_history
from tests.support.route_histories import SelectedRows, route_history

STEADY = settings(max_examples=int(os.environ.get("HISTORIES", "60")))
SEEDS = st.integers(0, 2**32)  # a history is made by one: shrinking it would take minutes


def verdict_of(run: Recovered | SelectedRows, name: str, **known: object) -> Verdict:
    return judged_by(name, run.ops, run.observations, facts(faults=run.faults, **known))


def recovered(run: Recovered, name: str) -> Verdict:
    return verdict_of(run, name, **recovery_histories.FACTS)


@pytest.mark.slow
@STEADY
@given(SEEDS)
def test_recovery_times(seed: int) -> None:
    run = recovery_history(seed)
    verdict = recovered(run, "recovery_times")
    rows = reference_recovery.recovery_times(run.ops, recovery_histories.FACTS, run.faults)

    assert verdict.series.get("faults", []) == rows
    sent = [row["sends_after_ms"] for row in rows]
    late = [of for row in rows for of in row["caught_up_after_ms"].values()]
    assert verdict.counts == {
        "slowest_recovery_ms": max([of for of in sent if of is not None], default=0),
        "slowest_catch_up_ms": max([of for of in late if of is not None], default=0),
        "never_recovered": sent.count(None),
        "never_caught_up": late.count(None),
    }


@pytest.mark.slow
@STEADY
@given(SEEDS)
def test_read_beyond_recovery(seed: int) -> None:
    run = recovery_history(seed)
    verdict = recovered(run, "recovery")
    expected = reference_recovery.read_beyond_recovery(
        run.ops, run.observations, recovery_histories.FACTS
    )

    assert verdict.counts.get("read_beyond_recovery", 0) == expected.total()
    found = {
        (of.anomaly, of.key, of.group)
        for of in verdict.findings
        if of.anomaly == "read_beyond_recovery"
    }
    assert found <= set(expected)


@pytest.mark.slow
@STEADY
@given(SEEDS)
def test_coverage(seed: int) -> None:
    run = recovery_history(seed)
    expected = reference_recovery.coverage(run.ops, recovery_histories.FACTS)

    counts = recovered(run, "coverage").counts
    assert {name: count for name, count in counts.items() if count} == {
        name: count for name, count in expected.items() if count
    }


@pytest.mark.slow
@STEADY
@given(SEEDS)
def test_the_hot_key(seed: int) -> None:
    run = recovery_history(seed)
    findings = recovered(run, "sharding_keys").findings
    found = [
        (of.key, (of.topic, of.broker, of.queue)) for of in findings if of.anomaly == "hot_key"
    ]
    expected = reference_recovery.hot_key(run.ops)

    assert found == ([] if expected is None else [expected])


@pytest.mark.slow
@STEADY
@given(seed=SEEDS, chunks=st.integers(2, 7))
def test_any_cut_says_the_same_of_observations(seed: int, chunks: int) -> None:
    run = recovery_history(seed)
    columns, context = read_ops(
        run.ops, run.observations, faults=run.faults, **recovery_histories.FACTS
    )
    for kernel in KERNELS:
        if kernel.name in ("recovery", "recovery_times", "coverage"):
            whole = kernel.check(columns, context)
            assert check_chunks(kernel, columns, context, chunks).to_json() == whole.to_json()


@pytest.mark.slow
@STEADY
@given(SEEDS)
def test_routes(seed: int) -> None:
    run = route_history(seed)
    verdict = verdict_of(run, "routes", **run.facts)
    expected = reference_routes.wrong_answers(run.observations, run.facts, run.faults)

    counted = Counter(anomaly for anomaly, *_ in expected.elements())
    assert Counter({name: verdict.counts.get(name, 0) for name in ROUTES.anomalies}) == counted
    for finding in verdict.findings:
        reported = [of for of in expected if of[0] == finding.anomaly and of[1] in finding.detail]
        assert any(of[2] in finding.detail and of[3] * 10**9 == finding.time_ns for of in reported)


@pytest.mark.slow
@STEADY
@given(SEEDS)
def test_switches(seed: int) -> None:
    run = route_history(seed)
    verdict = verdict_of(run, "name_server_switch", **run.facts)
    waits_s = reference_routes.switches(run.ops, run.observations, run.faults)

    assert verdict.counts == {
        "switches": len(waits_s),
        "slowest_switch_ms": 1000 * max(waits_s, default=0),
        **({"slow_failover": slow} if (slow := sum(wait > 10 for wait in waits_s)) else {}),
    }


@pytest.mark.slow
def test_everything_occurs() -> None:
    """Or the histories would prove nothing."""
    seen: Counter[str] = Counter()
    for seed in range(100):
        run = recovery_history(seed)
        known = recovery_histories.FACTS
        seen.update(
            of
            for of, *_ in reference_recovery.read_beyond_recovery(run.ops, run.observations, known)
        )
        seen.update(+Counter(reference_recovery.coverage(run.ops, known)))
        seen["hot_key"] += reference_recovery.hot_key(run.ops) is not None
        for row in reference_recovery.recovery_times(run.ops, known, run.faults):
            seen["recovered"] += row["sends_after_ms"] is not None
            seen["never recovered"] += row["sends_after_ms"] is None
            for late in row["caught_up_after_ms"].values():
                seen["never caught up" if late is None else "at once" if not late else "late"] += 1
        asked = route_history(seed)
        seen.update(
            of
            for of, *_ in reference_routes.wrong_answers(
                asked.observations, asked.facts, asked.faults
            )
        )
        waits_s = reference_routes.switches(asked.ops, asked.observations, asked.faults)
        seen.update("slow_failover" if wait > 10 else "switch" for wait in waits_s)
    assert {name for name, count in seen.items() if count >= 3} == {
        *("read_beyond_recovery", "hot_key", "recovered", "never recovered", "late", "at once"),
        *("never caught up", "retried_sends", "retried_deliveries", "rebalanced_at_work"),
        *("handed_over", "filtered_out", "colliding_tags", "wrong_route", "stale_route"),
        *("missing_route", "switch", "slow_failover"),
    }
