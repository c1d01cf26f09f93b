"""Logs of replicas are compared where both have one: each deletes its oldest files by itself."""

from __future__ import annotations

import pytest

from harness.inspector import LogBytes, first_difference


@pytest.mark.parametrize(
    ("master", "slave", "expected"),
    [
        (LogBytes(0, b"abcd"), LogBytes(0, b"abcd"), None),
        (LogBytes(0, b"abcd"), LogBytes(0, b"ab"), None),
        (LogBytes(0, b"abcd"), LogBytes(0, b"aXcd"), 1),
        (LogBytes(0, b"abcd"), LogBytes(2, b"cd"), None),
        (LogBytes(2, b"cd"), LogBytes(0, b"abcd"), None),
        (LogBytes(2, b"cd"), LogBytes(0, b"abcX"), 3),
        (LogBytes(2, b"cd"), LogBytes(0, b"abcde"), 4),
        (LogBytes(8, b"ij"), LogBytes(0, b"abcd"), None),
        (LogBytes(0, b"abcd"), LogBytes(0, b""), None),
    ],
)
def test_first_difference(master: LogBytes, slave: LogBytes, expected: int | None) -> None:
    assert first_difference(master, slave) == expected
