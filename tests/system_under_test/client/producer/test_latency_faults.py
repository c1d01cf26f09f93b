from __future__ import annotations

import pytest

from staticfire.system_under_test.client.producer.latency_faults import (
    NOT_AVAILABLE_OF_ROCKETMQ_MS,
    LatencyFaults,
    not_available_ms,
)


@pytest.mark.parametrize(
    ("latency_ms", "duration_ms"),
    [
        (0, 0),
        (49, 0),
        (100, 0),
        (549, 0),
        (550, 3000),
        (999, 3000),
        (1000, 6000),
        (2000, 12000),
        (3000, 18000),
        (15000, 60000),
        (30000, 60000),
    ],
)
def test_how_long_a_broker_is_left_alone(latency_ms: int, duration_ms: int) -> None:
    assert not_available_ms(latency_ms) == duration_ms


@pytest.mark.parametrize(
    ("latency_ms", "duration_ms"),
    [(549, 0), (550, 30_000), (1000, 60_000), (2000, 120_000), (3000, 180_000), (15_000, 600_000)],
)
def test_how_long_rocketmq_leaves_a_broker_alone(latency_ms: int, duration_ms: int) -> None:
    assert not_available_ms(latency_ms, NOT_AVAILABLE_OF_ROCKETMQ_MS) == duration_ms
    faults = LatencyFaults(NOT_AVAILABLE_OF_ROCKETMQ_MS)
    faults.record("a", latency_ms, now_ms=0)
    assert faults.is_available("a", duration_ms)
    assert not duration_ms or not faults.is_available("a", duration_ms - 1)


def test_a_slow_broker_is_available_again_when_its_time_is_over() -> None:
    faults = LatencyFaults()
    faults.record("a", 1000, now_ms=500)
    assert not faults.is_available("a", 6499)
    assert faults.is_available("a", 6500)


def test_an_unknown_broker_is_available() -> None:
    assert LatencyFaults().is_available("a", 0)


def test_a_fast_answer_makes_a_slow_broker_available() -> None:
    faults = LatencyFaults()
    faults.record("a", 3000, now_ms=0)
    faults.record("a", 10, now_ms=1)
    assert faults.is_available("a", 1)


def test_lift_forgets_what_was_bad() -> None:
    faults = LatencyFaults()
    faults.record("a", 30_000, now_ms=0)
    faults.lift("a")
    assert faults.is_available("a", 1)


def test_the_last_resort_is_taken_in_turn_from_the_better_half() -> None:
    faults = LatencyFaults()
    for name, latency_ms in (("slow", 3000), ("slowest", 15000), ("best", 600), ("good", 700)):
        faults.record(name, latency_ms, now_ms=0)
    picks = {faults.pick_one_at_least(now_ms=1) for _ in range(4)}
    assert picks == {"best", "good"}


def test_nothing_recorded_nothing_picked() -> None:
    assert LatencyFaults().pick_one_at_least(0) is None
