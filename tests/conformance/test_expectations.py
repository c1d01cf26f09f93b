"""Expected failures: strict both ways."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from staticfire.harness.conformance.clause import contract
from staticfire.harness.conformance.expectations import (
    ExpectationError,
    apply_expectations,
    read_expectations,
)
from staticfire.harness.conformance.result import CaseResult, Outcome

ENTRY = """
[[expect]]
id = "RMQ-NS-06"
reason = "R32"
issue = "#5374"
expires = 2027-01-31
"""


def outcome_of(outcome: Outcome, today: date, tmp_path: Path) -> CaseResult:
    path = tmp_path / "expectations.toml"
    path.write_text(ENTRY)
    result = CaseResult(clause=contract()["RMQ-NS-06"], outcome=outcome, reason="it is gone")
    return apply_expectations(result, read_expectations(path), today)


def test_expected_failure_is_none(tmp_path: Path) -> None:
    result = outcome_of(Outcome.FAILED, date(2027, 1, 31), tmp_path)

    assert result.outcome is Outcome.EXPECTED
    assert result.reason == "R32 (#5374): it is gone"


def test_unexpected_pass_fails(tmp_path: Path) -> None:
    result = outcome_of(Outcome.PASSED, date(2026, 1, 1), tmp_path)

    assert result.outcome is Outcome.FAILED
    assert "although it is expected to fail" in result.reason


def test_expired_entry_fails(tmp_path: Path) -> None:
    result = outcome_of(Outcome.FAILED, date(2027, 2, 1), tmp_path)

    assert result.outcome is Outcome.FAILED
    assert "expired on 2027-01-31" in result.reason


def test_what_did_not_run_is_not_excused(tmp_path: Path) -> None:
    assert outcome_of(Outcome.NOT_RUN, date(2026, 1, 1), tmp_path).outcome is Outcome.NOT_RUN


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no [[expect]] entry"),
        ("expect = 5", "expect is no list of tables"),
        ("[[expect", "is not valid TOML"),
        (ENTRY.replace("RMQ-NS-06", "RMQ-NS-99"), "there is no clause 'RMQ-NS-99'"),
        (ENTRY.replace("2027-01-31", "'soon'"), "lacks expires"),
        (ENTRY + "colour = 'red'", "unknown field 'colour'"),
        (ENTRY + ENTRY, "is there twice"),
    ],
)
def test_damaged_file_is_one_sentence(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text(text)

    with pytest.raises(ExpectationError) as error:
        read_expectations(path)

    assert said in str(error.value)


def test_expired_entry_of_a_quirk_fails(tmp_path: Path) -> None:
    assert outcome_of(Outcome.QUIRK, date(2027, 2, 1), tmp_path).outcome is Outcome.FAILED
    assert outcome_of(Outcome.QUIRK, date(2027, 1, 31), tmp_path).outcome is Outcome.QUIRK
