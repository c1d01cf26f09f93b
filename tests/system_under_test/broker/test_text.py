"""Times as text."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.broker.text import stamp_text, time_text


@pytest.mark.parametrize(
    ("time_ms", "utc_offset_s", "text"),
    [
        (1_600_000_000_007, 0, "2020-09-13 12:26:40,007"),
        (1_600_000_000_007, -19_800, "2020-09-13 06:56:40,007"),
        (-1, 0, "1969-12-31 23:59:59,999"),
        (1 << 62, 0, ""),  # a damaged record
    ],
)
def test_text(time_ms: int, utc_offset_s: int, text: str) -> None:
    assert time_text(time_ms, utc_offset_s) == text


def test_stamp_text() -> None:
    assert stamp_text(1_600_000_000_007, 7200) == "2020-09-13#14:26:40:007"
    assert stamp_text(1 << 62, 0) == ""
