"""Lines of logs that name an error of a wrong program, and lines that do not."""

from __future__ import annotations

import pytest

from staticfire.harness.log_line import LogLine
from staticfire.harness.rocketmq.observers import internal_errors as observer
from staticfire.harness.rocketmq.observers.internal_errors import internal_errors


def line(error: object, time_ns: int = 0, event: str = "request failed") -> LogLine:
    return LogLine(time_ns, "error", event, {"code": 10, "error": error})


@pytest.mark.parametrize(
    ("error", "is_internal"),
    [
        ("KeyError: 'queue'", True),
        (repr(AttributeError("no attribute")), True),
        ("error('unpack requires a buffer of 4 bytes')", True),
        ("ValueError: 3", True),
        (repr(OSError(28, "No space left on device")), False),
        ("ConnectionResetError(104)", False),
        ("StoreFailed: store /store failed", False),
        ("request 104 to 10.0.0.1:9876 had no answer in 3 s", False),
        ("ValueErrors may follow", False),
        ("", False),
    ],
)
def test_only_errors_of_wrong_programs_count(error: str, is_internal: bool) -> None:
    assert bool(list(internal_errors([line(error)]))) is is_internal


def test_each_kind_is_reported_once_with_its_first_time() -> None:
    lines = [line("KeyError: 1", 5), line("KeyError: 2", 6), line("KeyError: 1", 7)]
    first, other = internal_errors(lines)
    assert first == {"at_ns": 5, "event": "request failed", "error": "KeyError: 1", "times": 2}
    assert (other["at_ns"], other["times"]) == (6, 1)


def test_kinds_and_texts_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observer, "KINDS_MAX", 2)
    found = list(internal_errors([line(f"KeyError: {n}{'x' * 999}") for n in range(5)]))
    assert [len(one["error"]) for one in found] == [observer.TEXT_MAX] * 2
