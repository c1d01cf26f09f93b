"""What RMQ-LIM-07 says of the answers of a broker whose disk is stuck."""

from __future__ import annotations

import pytest

from staticfire.harness.conformance.cases.limits.requests import require_answered_in_time
from staticfire.harness.conformance.failures import ClauseBroken
from staticfire.system_under_test.protocol.codes import ResponseCode

OK, BUSY = int(ResponseCode.SUCCESS), int(ResponseCode.SYSTEM_BUSY)
LATE, ERROR = int(ResponseCode.FLUSH_DISK_TIMEOUT), int(ResponseCode.SYSTEM_ERROR)


@pytest.mark.parametrize(
    "answers",
    [
        [(OK, 0.05), (BUSY, 0.2)],
        [(OK, 1.0), (LATE, 5.0)],
        [(OK, 0.05), (OK, 2.0)],  # slow, and flushed in time
    ],
)
def test_a_broker_keeps_it(answers: list[tuple[int, float]]) -> None:
    require_answered_in_time(answers)


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([(OK, 0.05), (OK, 7.0)], "after up to 7.00 s"),
        ([(OK, 0.05), (OK, 0.06)], "after up to 0.06 s"),  # answered without the disk
        ([(OK, 0.05), (BUSY, 0.2), (ERROR, 0.2)], r"answered with \[0, 1, 2\]"),
    ],
)
def test_a_broker_breaks_it(answers: list[tuple[int, float]], said: str) -> None:
    with pytest.raises(ClauseBroken, match=said):
        require_answered_in_time(answers)
