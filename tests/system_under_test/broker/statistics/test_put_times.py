"""The durations of puts, as code 28 reports them."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.broker.statistics.put_times import (
    BUCKET_ENDS_MS,
    NS_PER_MS,
    PutTimes,
)


def times_of(*elapsed_ms: int) -> PutTimes:
    times = PutTimes()
    for each_ms in elapsed_ms:
        times.took(each_ms * NS_PER_MS + 999_999)
    return times


def test_without_puts() -> None:
    times = PutTimes()
    assert (times.longest_ms, times.quantile_ms(0.99)) == (0, 0.0)
    assert times.text().startswith("[<=0ms]:0 [0~10ms]:0 ")


@pytest.mark.parametrize(
    ("elapsed_ms", "name"),
    [
        (0, "[<=0ms]"),
        (1, "[0~10ms]"),
        (9, "[0~10ms]"),
        (10, "[10~50ms]"),
        (499, "[200~500ms]"),
        (1000, "[1~2s]"),
        (9999, "[5~10s]"),
        (10_000, "[10s~]"),
    ],
)
def test_ranges_begin_with_their_start(elapsed_ms: int, name: str) -> None:
    filled = [part for part in times_of(elapsed_ms).text().split() if not part.endswith(":0")]
    assert filled == [f"{name}:1"]


def test_buckets() -> None:
    assert len(BUCKET_ENDS_MS) == 75
    assert [end for end in BUCKET_ENDS_MS if end in (20, 50, 100, 200, 500, 1000, 10_000)] == [
        20, 50, 100, 200, 500, 1000, 10_000,
    ]  # fmt: skip


def test_quantiles_are_interpolated_in_their_bucket() -> None:
    times = times_of(*[1] * 90, *[60] * 10)
    assert times.quantile_ms(0.9) == 1.0
    assert times.quantile_ms(0.95) == 57.5  # half of the bucket from 55 to 60
    assert times.quantile_ms(1.0) == 60.0


def test_what_is_longer_than_every_bucket() -> None:
    assert times_of(1, 12_345).quantile_ms(1.0) == 12_345.0


def test_the_last_whole_round_is_reported() -> None:
    times = times_of(7)
    assert "[0~10ms]:1 " in times.text()  # the first round is shown while it lasts
    times.begin_round()
    times.took(30 * NS_PER_MS, 3)
    assert "[0~10ms]:1 [10~50ms]:0 " in times.text()
    assert times.longest_ms == 30
    times.begin_round()
    assert "[0~10ms]:0 [10~50ms]:3 " in times.text()
    times.begin_round()
    assert (times.quantile_ms(0.99), times.longest_ms) == (0.0, 30)
