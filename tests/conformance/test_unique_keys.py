"""What RMQ-SND-14 says of the time in a unique key."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from staticfire.harness.conformance.cases.client.reports import is_of_time

NOW_MS = round(datetime(2026, 3, 15, 12, tzinfo=UTC).timestamp() * 1000)
MONTH_MS = 14 * 86_400_000 + 43_200_000  # since its month began
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    "zone_ms", [0, HOUR_MS, -5 * HOUR_MS, 14 * HOUR_MS, 5 * HOUR_MS + 2_700_000]
)
@pytest.mark.parametrize("clock_ms", [-4_000, 0, 4_000])
def test_a_month_of_any_zone(zone_ms: int, clock_ms: int) -> None:
    assert is_of_time(MONTH_MS + zone_ms + clock_ms, NOW_MS)


@pytest.mark.parametrize("wrong_ms", [60_000, -60_000, 15 * HOUR_MS, 24 * HOUR_MS, -24 * HOUR_MS])
def test_another_time(wrong_ms: int) -> None:
    assert not is_of_time(MONTH_MS + wrong_ms, NOW_MS)


def test_a_client_whose_clock_is_still_in_the_month_before() -> None:
    start_ms = NOW_MS - MONTH_MS

    assert is_of_time(28 * 86_400_000 - 1, start_ms)
