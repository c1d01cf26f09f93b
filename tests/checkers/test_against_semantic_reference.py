"""The kernels of the semantics against plain references, on random histories in which every anomaly occurs.

`HISTORIES=2000 pytest tests/checkers/test_against_semantic_reference.py` tries more of them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.checkers.guarantees.verdict import Verdict
from staticfire.checkers.model.histogram import EDGES_US
from staticfire.checkers.model.history import Op
from tests.support import reference_semantics as reference
from tests.support.history_language import facts, fault
from tests.support.one_checker import judged_by
from tests.support.reference_checkers import inconsistent_offsets
from tests.support.semantic_histories import (
    CHECK_AFTER_S,
    CHECK_EVERY_S,
    CHECK_MAX,
    FACTS,
    GROUPS,
    LEVELS_MS,
    semantic_history,
)

STEADY = settings(max_examples=int(os.environ.get("HISTORIES", "60")))
SEEDS = st.integers(0, 2**32)  # a history is made by one: shrinking it would take minutes
REFERENCES: dict[str, Callable[[Sequence[Op]], reference.Found]] = {
    "filters": lambda ops: reference.unwanted(ops, FACTS["wanted_tags"]),
    "delays": reference.early,
    "delayed_order": reference.delayed_out_of_order,
    "late_deliveries": lambda ops: reference.late(ops, LEVELS_MS),
    "listeners": lambda ops: reference.two_listeners(ops, FACTS["orderly"]),
    "orderly": lambda ops: (
        reference.order_violated(ops, FACTS["orderly"])
        + reference.retry_uncounted(ops, FACTS["orderly"])
    ),
    "sharding_keys": reference.moved_keys,
    "retries": lambda ops: reference.retries(ops, FACTS["retries_max"], LEVELS_MS),
    "transactions": lambda ops: reference.transactions(
        ops, GROUPS, FACTS["wanted_tags"], CHECK_AFTER_S, CHECK_MAX, CHECK_EVERY_S
    ),
    "broadcasting": lambda ops: reference.missed_by_members(ops, GROUPS, FACTS["broadcasting"]),
    "recovery": reference.lost_from_log,
    "offsets": reference.rewound,
}
NOT_REFERRED_TO = {"commit_ahead", "read_beyond_recovery", "hot_key"}


def verdict_of(ops: list[Op], name: str) -> Verdict:
    return judged_by(name, ops, [], facts(**FACTS))


def anomalies_of(verdict: Verdict) -> Counter[str]:
    """How often each anomaly was found, whatever it was judged to be."""
    names = sorted({finding.anomaly for finding in verdict.findings} - NOT_REFERRED_TO)
    return Counter(
        {
            name: sum(
                n
                for count, n in verdict.counts.items()
                if count in (name, f"{name}_allowed", f"{name}_informational")
            )
            for name in names
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", REFERENCES)
@STEADY
@given(seed=SEEDS)
def test_a_kernel_finds_what_the_reference_finds(name: str, seed: int) -> None:
    ops = semantic_history(Random(seed))
    verdict = verdict_of(ops, name)
    expected = REFERENCES[name](ops)

    by_anomaly: Counter[str] = Counter()
    for (anomaly, *_), times in expected.items():
        by_anomaly[anomaly] += times
    assert anomalies_of(verdict) == by_anomaly
    keys = {(anomaly, key) for anomaly, key, *_ in expected if isinstance(key, str)}
    for finding in verdict.findings:
        if finding.key is not None and finding.anomaly not in NOT_REFERRED_TO:
            assert (finding.anomaly, finding.key) in keys


@pytest.mark.slow
@STEADY
@given(seed=SEEDS)
def test_what_is_unwanted_around_a_change_of_filter(seed: int) -> None:
    ops = semantic_history(Random(seed))
    change = fault("filter_change", "c0", at_s=20.0, healed_s=40.0)
    known = {
        "wanted_before": {"h": ("red",)},
        "wanted_tags": {"h": ("blue",)},
        "filters_changed_ns": {"h": 40 * 10**9},
        "faults": (change,),
    }
    verdict = judged_by("filters", ops, [], facts(**{**FACTS, **known}))

    expected = reference.unwanted_around_a_change(
        ops, "h", ("red",), ("blue",), 20 * 10**9, 40 * 10**9
    )
    assert verdict.counts.get("unwanted_delivery", 0) == sum(expected.values())


@pytest.mark.slow
@STEADY
@given(seed=SEEDS)
def test_what_queues_that_begin_late_have_deleted_early(seed: int) -> None:
    kept_s = 30.0
    ops = [_begun_late(op) for op in semantic_history(Random(seed))]
    verdict = judged_by("recovery", ops, [], facts(**FACTS, kept_s=kept_s))

    expected = sum(reference.lost_from_log(ops, kept_s).values())
    assert anomalies_of(verdict)["lost_from_log"] == expected


def _begun_late(op: Op) -> Op:
    if op.f != "drain":
        return op
    queues = [[*row[:2], op.index % 3, *row[3:]] for row in op.value["queues"]]
    return replace(op, value={**op.value, "queues": queues})


def test_overtaking_among_messages_without_a_send_is_found() -> None:
    assert verdict_of(semantic_history(Random(1)), "orderly").counts["order_violated"] == 3


def test_every_anomaly_occurs_in_random_histories() -> None:
    seen: Counter[str] = Counter()
    for seed in range(100):
        ops = semantic_history(Random(seed))
        for find in REFERENCES.values():
            seen.update(anomaly for anomaly, *_ in find(ops))

    assert set(seen) == {
        *(
            "unwanted_delivery",
            "early_delivery",
            "late_delivery",
            "two_listeners",
            "order_violated",
        ),
        *("key_moved", "retried_too_often", "retry_unprovoked", "consumed_too_long", "retry_early"),
        *(
            "duplicate_dead_letter",
            "premature_dead_letter",
            "rolled_back_visible",
            "unresolved_transaction",
            "check_too_early",
        ),
        *("checked_too_often", "member_missed", "lost_from_log", "commit_rewound"),
    }


@pytest.mark.slow
@STEADY
@given(seed=SEEDS)
def test_latency(seed: int) -> None:
    ops = semantic_history(Random(seed))
    if inconsistent_offsets(ops):
        sends = [op for op in ops if op.f == "send"]
        ops = [replace(op, index=index) for index, op in enumerate(sends)]
    verdict = verdict_of(ops, "latency")
    expected = reference.latencies(ops, list(GROUPS))

    slices = {row["what"]: row.get("seconds", 1) for row in verdict.series["seconds"]}
    sliced: dict[tuple[str, int], list[int]] = {}
    for (what, second), durations in expected.items():
        place = what, second // slices[what] * slices[what]
        sliced[place] = sorted([*sliced.get(place, []), *durations])
    assert {(row["what"], row["second"]) for row in verdict.series["seconds"]} == set(sliced)
    for row in verdict.series["seconds"]:
        durations = sliced[row["what"], row["second"]]
        assert (row["count"], row["max"]) == (len(durations), durations[-1] // 1000)
        for name, share in (("p50", 50), ("p99", 99)):
            true_us = durations[max(-(-len(durations) * share // 100), 1) - 1] // 1000
            end_us = next(edge_us - 1 for edge_us in EDGES_US if edge_us > true_us)
            assert row[name] == min(end_us, row["max"])
