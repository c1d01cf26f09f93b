"""Findings, tallies and the text that reports them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticfire.checkers.guarantees.promises import Judgement
from staticfire.checkers.guarantees.verdict import (
    WITNESSES_MAX,
    Finding,
    Tally,
    Validity,
    Verdict,
    combine,
    explain,
    seconds,
)

LOST = Finding(
    anomaly="lost",
    judgement=Judgement.VIOLATION,
    op_index=7,
    time_ns=12_408_000_000,
    detail="acknowledged, delivered to no consumer; sync flush: it must survive",
    key="p3-17",
    topic="orders",
    broker="broker-a",
    queue=3,
    queue_offset=1841,
    physical_offset=90_112,
)


def test_a_finding_takes_two_lines() -> None:
    assert explain(LOST) == (
        "LOST  key p3-17  topic orders  broker broker-a  queue 3  offset 1841  "
        "physical offset 90112  acked SEND_OK at t=12.408s\n"
        "  violation: acknowledged, delivered to no consumer; sync flush: it must survive"
    )


def test_unknown_fields_are_left_out() -> None:
    finding = Finding(
        anomaly="not_serving",
        judgement=Judgement.VIOLATION,
        op_index=1,
        time_ns=1_000_000,
        detail="the last probe after heal answered timeout",
        broker="b",
    )

    assert explain(finding).splitlines()[0] == "NOT SERVING  broker b  at t=0.001s"


@pytest.mark.parametrize(("time_ns", "text"), [(0, "0.000s"), (1_999_999_999, "1.999s")])
def test_times_are_virtual_seconds(time_ns: int, text: str) -> None:
    assert seconds(time_ns) == text


@pytest.mark.parametrize(
    ("valid", "expected"),
    [
        ([], "unknown"),
        ([True, True], True),
        ([True, "unknown"], "unknown"),
        ([True, "unknown", False], False),
    ],
)
def test_false_beats_unknown_and_unknown_beats_true(
    valid: list[Validity], expected: Validity
) -> None:
    assert combine(valid) == expected


FINDINGS = st.builds(
    Finding,
    anomaly=st.sampled_from(["lost", "unseen"]),
    judgement=st.sampled_from(list(Judgement)),
    op_index=st.integers(0, 5),
    time_ns=st.integers(0, 5),
    detail=st.sampled_from(["x", "y"]),
    key=st.none() | st.sampled_from("ab"),
    queue=st.none() | st.integers(0, 2),
)
TALLIES = st.lists(FINDINGS, max_size=40).map(lambda findings: Tally.of(findings, acked=1))


@pytest.mark.slow
@given(TALLIES, TALLIES, TALLIES)
def test_tallies_merge(a: Tally, b: Tally, c: Tally) -> None:
    assert a.merge(b).merge(c) == a.merge(b.merge(c))
    assert a.merge(b) == b.merge(a)
    assert Tally().merge(a) == a


def test_witnesses_are_sorted_before_they_are_cut() -> None:
    findings = [
        Finding(anomaly="lost", judgement=Judgement.ALLOWED, op_index=at, time_ns=0, detail="")
        for at in reversed(range(100))
    ]

    tally = Tally.of(findings)

    assert [finding.op_index for finding in tally.findings] == list(range(WITNESSES_MAX))
    assert tally.counts == {"lost_allowed": 100}


def test_a_verdict_survives_json() -> None:
    verdict = Verdict(
        checker="loss", valid=False, counts={"lost": 1}, findings=(LOST,), reason=None
    )

    assert Verdict.from_json(verdict.to_json()) == verdict
