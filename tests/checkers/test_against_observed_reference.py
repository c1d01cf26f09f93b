"""Observations of the harness and ends of runs against plain references, on random runs that cover every case.

`HISTORIES=2000 pytest tests/checkers/test_against_observed_reference.py` tries more of them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.checkers.guarantees.verdict import WITNESSES_MAX, Finding, Validity, Verdict
from staticfire.checkers.verdicts.compose import check_run
from staticfire.checkers.white_box.resources import RESOURCES
from staticfire.checkers.white_box.send_status import DURABLE_BEFORE_ACK
from tests.support import reference_copies, reference_endings
from tests.support.chunked_kernels import check_chunks
from tests.support.history_language import facts
from tests.support.observed_histories import Observed, observed_history
from tests.support.one_checker import only, read_ops
from tests.support.reference_semantics import Found

STEADY = settings(max_examples=int(os.environ.get("HISTORIES", "100")))
SEEDS = st.integers(0, 2**32)  # a history is made by one: shrinking it would take minutes


def verdict_of(run: Observed, name: str) -> Verdict | None:
    """Nothing if the checker had nothing to judge."""
    verdicts = check_run(run.ops, run.observations, facts(**run.facts), only(name)).verdicts
    return next((verdict for verdict in verdicts if verdict.checker == name), None)


def judged(run: Observed, name: str) -> Verdict:
    verdict = verdict_of(run, name)
    assert verdict is not None
    return verdict


def validity(*, wrong: object, missing: object) -> Validity:
    return False if wrong else "unknown" if missing else True


def times_of(verdict: Verdict, *anomalies: str) -> Counter[str]:
    """How often each was found, whatever it was judged to be."""
    return Counter(
        {
            of: sum(
                verdict.counts.get(f"{of}{end}", 0) for end in ("", "_informational", "_allowed")
            )
            for of in anomalies
        }
    )


def same(verdict: Verdict, expected: Found, of: Callable[[Finding], tuple[object, ...]]) -> None:
    """The same findings, and they are counted so."""
    assert Counter((one.anomaly, *of(one)) for one in verdict.findings) == expected
    counted: Counter[str] = Counter()
    for (anomaly, *_), times in expected.items():
        counted[anomaly] += times
    assert times_of(verdict, *(of.anomaly for of in verdict.findings)) == counted


def agrees(
    verdict: Verdict,
    *,
    counts: Counter[str],
    violating: Sequence[str],
    informational: Sequence[str] = (),
    wrong: object,
    missing: object,
) -> None:
    """So much of each is counted, the findings are of these messages, and it is valid or not because of these."""
    assert Counter({name: count for name, count in verdict.counts.items() if count}) == +counts
    for keys, is_informational in ((violating, False), (informational, True)):
        found = Counter(
            of.key
            for of in verdict.findings
            if (of.judgement == "informational") is is_informational
        )
        assert found <= Counter(keys)
        assert found.total() == min(len(keys), WITNESSES_MAX)
    assert verdict.valid == validity(wrong=wrong, missing=missing)


@pytest.mark.slow
@STEADY
@given(SEEDS)
def test_acknowledgements(seed: int) -> None:
    run = observed_history(seed)
    expected = reference_copies.acknowledged(*run)
    unseen = expected.looked_at < expected.acks

    agrees(
        judged(run, "durable_before_ack"),
        counts=Counter(
            acks=expected.acks,
            acks_observed=expected.looked_at,
            acks_proven=len(expected.proven),
            acks_excused=len(expected.excused),
            acks_unclear=len(expected.unclear),
            acked_not_durable=len(expected.not_durable),
        ),
        violating=expected.not_durable,
        wrong=expected.not_durable,
        missing=unseen or expected.unclear or not expected.proven,
    )


@pytest.mark.slow
@STEADY
@given(seed=SEEDS, chunks=st.integers(2, 7))
def test_any_cut_says_the_same_of_acknowledgements(seed: int, chunks: int) -> None:
    run = observed_history(seed)
    columns, context = read_ops(run.ops, run.observations, **run.facts)
    kernel = DURABLE_BEFORE_ACK.kernel
    assert kernel is not None
    whole = kernel.check(columns, context)
    assert check_chunks(kernel, columns, context, chunks).to_json() == whole.to_json()


@pytest.mark.slow
@STEADY
@given(SEEDS)
def test_weak_statuses(seed: int) -> None:
    run = observed_history(seed)
    expected = reference_copies.weak(*run)

    agrees(
        judged(run, "weak_statuses"),
        counts=Counter(
            weak=expected.weak,
            weak_observed=expected.looked_at,
            spurious_weak_status=len(expected.wrong),
            spurious_weak_status_informational=len(expected.excused) + len(expected.behind),
        ),
        violating=expected.wrong,
        informational=[*expected.excused, *expected.behind],
        wrong=expected.wrong,
        missing=expected.looked_at < expected.weak,
    )


@pytest.mark.slow
@STEADY
@given(SEEDS)
def test_replicas(seed: int) -> None:
    run = observed_history(seed)
    verdict = verdict_of(run, "replica_prefix")
    pairs = reference_endings.pairs_left(run.facts)
    assert (verdict is not None) == bool(pairs)
    if verdict is not None:
        expected = reference_endings.replicas(run.observations)
        same(verdict, expected, lambda of: (of.broker, of.physical_offset))
        compared = {of["broker_name"] for of in run.observations if of["kind"] == "replica"}
        wrong = expected and run.facts["mode"] == "hardened"
        assert verdict.valid == validity(wrong=wrong, missing=pairs - compared)


@pytest.mark.slow
@STEADY
@given(SEEDS)
def test_queue_entries(seed: int) -> None:
    run = observed_history(seed)
    verdict = judged(run, "queue_entries")
    expected = reference_endings.queue_entries(run.observations)
    same(verdict, expected, lambda of: (of.broker, of.topic, of.queue, of.queue_offset))
    looked = any(of["kind"] == "queue_entries" for of in run.observations)
    unread = reference_endings.nodes_unread(run.observations, run.facts)
    wrong = expected and run.facts["mode"] == "hardened"
    assert verdict.valid == validity(wrong=wrong, missing=unread or not looked)


@pytest.mark.slow
@STEADY
@given(SEEDS)
def test_look_ups(seed: int) -> None:
    run = observed_history(seed)
    verdict = verdict_of(run, "look_ups")
    assert (verdict is not None) == any(op.f == "look_up" for op in run.ops)
    if verdict is not None:
        mode = run.facts["mode"]
        expected = reference_endings.look_ups(run.ops, mode)
        same(verdict, expected, lambda of: (of.key, of.broker, of.queue, of.queue_offset))
        missing = reference_endings.not_answered(run.ops)
        known = {"wrong_time_search"} if mode == "faithful" else set()
        wrong = {anomaly for anomaly, *_ in expected} - known
        assert verdict.valid == validity(wrong=wrong, missing=missing)


@pytest.mark.slow
@STEADY
@given(SEEDS)
def test_exits(seed: int) -> None:
    run = observed_history(seed)
    verdict = judged(run, "node_exits")
    expected = reference_endings.died(run.facts)
    same(verdict, expected, lambda of: (of.detail.split()[0], of.time_ns))
    assert verdict.valid is not bool(expected)


@pytest.mark.slow
@STEADY
@given(SEEDS)
def test_liveness(seed: int) -> None:
    run = observed_history(seed)
    verdict = judged(run, "liveness")
    expected = reference_endings.liveness(run.ops, run.facts)
    missing = reference_endings.never_asked(run.ops, run.facts)
    same(verdict, expected, lambda of: (of.broker, of.group, of.topic))
    assert verdict.valid == validity(wrong=expected, missing=missing)
    assert (verdict.reason or "").split("; ") == (missing or [""])


@pytest.mark.slow
@STEADY
@given(SEEDS)
def test_offsets_at_the_drain(seed: int) -> None:
    run = observed_history(seed)
    verdict = judged(run, "drained_offsets")
    expected = reference_endings.drained_offsets(run.ops, run.facts)
    same(
        verdict,
        expected,
        lambda of: (
            of.judgement == "allowed",
            *(of.group, of.topic, of.broker, of.queue, of.queue_offset),
        ),
    )
    drained = any(op.f == "drain" and op.type in ("ok", "info") for op in run.ops)
    wrong = [found for found in expected if not found[1]]
    assert verdict.valid == validity(wrong=wrong, missing=not drained)


@pytest.mark.slow
def test_everything_occurs() -> None:
    """Or the histories would prove nothing."""
    seen: Counter[str] = Counter()
    for seed in range(600):
        run = observed_history(seed)
        acked, weak = reference_copies.acknowledged(*run), reference_copies.weak(*run)
        seen.update({f"acknowledged: {name}": bool(of) for name, of in acked._asdict().items()})
        seen.update({f"weak: {name}": bool(of) for name, of in weak._asdict().items()})
        seen["all proven"] += len(acked.proven) == acked.acks > 0
        seen["never asked"] += bool(reference_endings.never_asked(run.ops, run.facts))
        seen["not answered"] += reference_endings.not_answered(run.ops)
        seen["unread"] += bool(reference_endings.nodes_unread(run.observations, run.facts))
        seen["no pair left"] += not reference_endings.pairs_left(run.facts)
        ended = reference_endings.died(run.facts)
        seen["disk failed"] += len(run.facts["exits"]) > ended.total()
        for found in (
            reference_endings.replicas(run.observations),
            reference_endings.queue_entries(run.observations),
            reference_endings.look_ups(run.ops),
            reference_endings.liveness(run.ops, run.facts),
            reference_endings.drained_offsets(run.ops, run.facts),
            ended,
        ):
            seen.update(f"{of[0]} allowed" if of[1] is True else of[0] for of in found)
    assert {name for name, count in seen.items() if count >= 5} == {
        *(f"acknowledged: {name}" for name in reference_copies.Acknowledged._fields),
        *(f"weak: {name}" for name in reference_copies.Weak._fields),
        *("all proven", "never asked", "not answered", "unread", "no pair left", "disk failed"),
        *("replica_diverged", "replica_ahead", "queue_hole", "queue_entry_wrong"),
        *(
            "queue_entry_missing",
            "not_found_by_id",
            "not_found_by_key",
            "torn_answer",
            "refused_read",
            "wrong_time_search",
            "not_serving",
            "not_drained",
        ),
        *("commit_beyond_end", "commit_beyond_end allowed", "commit_behind", "node_died"),
    }


@pytest.mark.slow
@STEADY
@given(SEEDS)
def test_resources(seed: int) -> None:
    run = observed_history(seed)
    expected = reference_endings.resources(run.observations)
    verdict = judged(run, "resources")

    same(verdict, expected, lambda of: (of.detail.split(" ", 1)[0].rstrip(":"),))
    missing = reference_endings.servers_not_measured(run.observations, run.facts)
    assert verdict.valid == validity(wrong=expected, missing=missing)


@pytest.mark.slow
@STEADY
@given(SEEDS)
def test_internal_errors(seed: int) -> None:
    run = observed_history(seed)
    expected = reference_endings.internal_errors(run.observations)
    verdict = judged(run, "internal_errors")
    same(verdict, expected, lambda of: (of.detail.split()[0], of.detail.split("failed: ")[1]))
    assert verdict.valid is not bool(expected)


def test_every_leak_occurs() -> None:
    found: Counter[str] = Counter()
    complete = 0
    for seed in range(60):
        run = observed_history(seed)
        found.update(anomaly for anomaly, _ in reference_endings.resources(run.observations))
        complete += not reference_endings.servers_not_measured(run.observations, run.facts)
    assert set(found) == set(RESOURCES.anomalies)
    assert 0 < complete < 60


@pytest.mark.slow
@STEADY
@given(SEEDS)
def test_contents_of_routes(seed: int) -> None:
    run = observed_history(seed)
    expected = reference_endings.routes(run.observations, run.facts)
    verdict = judged(run, "route_contents")

    same(verdict, expected, lambda of: (of.broker, of.topic))
    missing = reference_endings.brokers_not_compared(run.observations, run.facts)
    assert verdict.valid == validity(wrong=expected, missing=missing)
