from __future__ import annotations

import pytest

from staticfire.system_under_test.name_server.pause_guard import GRACE_NS, PauseGuard

SECOND_NS = 1_000_000_000


@pytest.mark.parametrize(
    ("looks_s", "waits"),
    [
        ([0.5, 1.0, 1.5], [False, False, False]),
        ([1.0, 2.0], [False, False]),
        ([1.001], [True]),
        ([200.0, 200.5, 239.0], [True, True, True]),  # the last gap is a pause again
        ([200.0, 400.0], [True, True]),
    ],
)
def test_a_gap_of_more_than_a_second_is_a_pause(looks_s: list[float], waits: list[bool]) -> None:
    guard = PauseGuard(0)
    assert [guard.note_time(int(at_s * SECOND_NS)) for at_s in looks_s] == waits


def test_the_grace_ends() -> None:
    guard = PauseGuard(0)
    guard.note_time(200 * SECOND_NS)
    now_ns = 200 * SECOND_NS
    while guard.note_time(now_ns):
        now_ns += SECOND_NS // 2
    assert now_ns == 200 * SECOND_NS + GRACE_NS
