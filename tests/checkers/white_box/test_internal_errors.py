"""Errors that nodes log and only a wrong program can raise."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.checkers.verdicts.compose import check_run
from tests.support.history_language import facts, history
from tests.support.one_checker import only

SEEN = {
    "kind": "internal_error",
    "time_ns": 7,
    "node": "n0",
    "event": "request failed",
    "error": "KeyError: 'offsets'",
    "times": 3,
}
READ = {"kind": "events", "time_ns": 9, "log": {}, "history": {}}


@pytest.mark.parametrize("mode", ["hardened", "faithful"])
def test_each_is_a_violation(mode: str) -> None:
    known = facts(errors_observed=True, mode=mode)
    (verdict,) = check_run(
        history("0 ok send a"), [SEEN, READ], known, only("internal_errors")
    ).verdicts
    (finding,) = verdict.findings
    assert verdict.valid is False
    assert (finding.anomaly, finding.time_ns, finding.broker) == ("internal_error", 7, "b")
    assert finding.detail == "n0 logged 3 times: request failed: KeyError: 'offsets'"


@pytest.mark.parametrize(
    ("known", "seen", "valid"),
    [
        ({"errors_observed": True}, [READ], [True]),
        ({"errors_observed": True}, [], ["unknown"]),  # it ended before logs were read
        ({}, [READ], []),
    ],
)
def test_logs_that_hold_none_are_right_if_they_were_read(
    known: dict[str, Any], seen: list[dict[str, Any]], valid: list[bool | str]
) -> None:
    run = check_run(history("0 ok send a"), seen, facts(**known), only("internal_errors"))
    assert [verdict.valid for verdict in run.verdicts] == valid
