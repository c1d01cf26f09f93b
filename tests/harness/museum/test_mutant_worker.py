"""A failure of the harness counts as a finding only if it names the node that failed."""

from __future__ import annotations

import pytest

from staticfire.harness.museum.mutant_worker import (
    finding,
    shortened,
    spin_in,
    spin_of,
    start_failure,
)


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ({"valid": True}, ""),
        ({"valid": "unknown"}, ""),
        ({"valid": False, "checkers": ["loss", "order"]}, "loss, order"),
        ({"valid": "unknown", "failed": "RunError: broker-a-0 did not come up"}, "broker-a-0"),
        ({"valid": "unknown", "failed": "RunError: ns-1 did not come up"}, "ns-1"),
        ({"valid": "unknown", "failed": "broker-a did not serve in 60 s"}, "broker-a"),
        ({"valid": "unknown", "failed": "KeyError: 'columns-3'"}, ""),
        ({"valid": "unknown", "failed": "SimulationError: no event left"}, ""),
    ],
)
def test_a_finding_is_a_verdict_or_names_a_node(row: dict[str, object], found: str) -> None:
    assert found in finding(row)
    assert bool(finding(row)) == bool(found)


def test_a_long_finding_is_cut_between_words() -> None:
    assert shortened("") == ""
    assert shortened("the codes are 0; expected 1") == "the codes are 0; expected 1"
    words = " ".join(["expected"] * 40)
    assert set(shortened(words).split()) == {"expected", "..."}
    assert len(shortened(words)) <= 200


def test_an_error_of_the_harness_is_no_failed_start() -> None:
    with pytest.raises(ValueError, match="no number") as caught:
        int("no number")
    assert start_failure(caught.value) == ""


def test_a_spin_counts_in_code_of_a_node() -> None:
    code = compile("import sys\nframe = sys._getframe()", "/x/system_under_test/m.py", "exec")
    names: dict[str, object] = {}
    exec(code, names)
    frame = names["frame"]
    said = spin_of("broker-a-0", frame)  # type: ignore[arg-type]
    assert said == "broker-a-0 spins at system_under_test/m.py:2 in <module>"
    assert spin_of("", frame) == ""  # type: ignore[arg-type]
    assert spin_of("broker-a-0", None) == ""


def test_a_node_spins_that_half_of_the_samples_name() -> None:
    a, b, scheduler = ("broker-a-0", "a spins"), ("ns-1", "ns spins"), ("", "")
    assert spin_in([a] * 10 + [b] * 4 + [scheduler] * 6) == "a spins"
    assert spin_in([a] * 9 + [b] * 9 + [scheduler] * 2) == ""  # all work on
    assert spin_in([a] * 9 + [("broker-a-0", "")] * 11) == ""  # code of the harness
    assert spin_in([scheduler] * 20) == ""
