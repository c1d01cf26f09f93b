"""Send-backs that brokers decline at rest, or do not answer. Times are seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticfire.checkers.formats.columnar.reader import ColumnarHistory
from staticfire.checkers.formats.columnar.recording import ColumnarRecorder
from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.checkers.guarantees.verdict import Verdict
from staticfire.checkers.model.building.column_builder import build_columns
from staticfire.checkers.model.history import Op
from tests.support import reference_waits
from tests.support.history_language import GROUP, facts, fault
from tests.support.one_checker import judged_by

S = 10**9
BROKERS = {"a": ("n2",), "b": ("n0", "n1")}
PLACE = {"group": GROUP, "topic": "t", "broker": "b", "queue": 0}
COPIED, MADE = {"copied": True}, {"copied": False}
UNANSWERED = {"copied": True, "code": None}


def history(*reports: dict[str, Any], since_s: float = 130, each_s: float = 2) -> list[Op]:
    """A member c1 that reports one send-back after the other."""
    opened = Op(
        index=0,
        time_ns=0,
        process=7,
        type="ok",
        f="open",
        value={"group": GROUP, "topic": "t"},
        node="c1",
    )
    return [
        opened,
        *(
            Op(
                index=number,
                time_ns=round((since_s + number * each_s) * S),
                process=7,
                type="ok",
                f="send_back",
                value={**PLACE, "messages": [[f"p0-{number}", number, 0]], **report},
                node="c1",
            )
            for number, report in enumerate(reports, start=1)
        ),
    ]


def verdict_of(ops: list[Op], *faults: FaultFacts, **known: Any) -> Verdict:
    of_run = facts(faults=faults, **{"replica_sets": BROKERS, **known})
    return judged_by("stuck_producers", ops, [], of_run)


def is_found(ops: list[Op], *faults: FaultFacts, **known: Any) -> bool:
    verdict = verdict_of(ops, *faults, **known)
    assert {finding.anomaly for finding in verdict.findings} <= {"refused_at_rest"}
    return verdict.valid is False


def test_copies_that_no_broker_makes_are_reported_with_the_first() -> None:
    verdict = verdict_of(history(MADE, *[COPIED] * 12))
    [finding] = verdict.findings
    assert (finding.anomaly, finding.key, finding.broker) == ("refused_at_rest", "p0-2", "b")
    assert finding.detail == (
        "brokers made no copies of what c1 sent back in 12 seconds of the next 60, and no fault was near"
    )


@pytest.mark.parametrize(
    ("ops", "found"),
    [
        (history(*[COPIED] * 10), True),
        (history(*[COPIED, MADE] * 10), True),
        (history(*[COPIED] * 9), False),
        (history(*[{"copied": True, "code": 2}] * 10), True),  # busy all the time
        (history(*[{"code": 2}] * 10), True),  # a client that makes no copy of its own
        (history(*[COPIED] * 10, each_s=7), False),  # ten in more than a minute
        (history(*[COPIED] * 40, each_s=0.2), False),  # in 8 s: busy for a moment
        (history(*[MADE] * 40), False),
        (history(*[{}] * 40), False),  # the client does not say who made the copy
    ],
)
def test_ten_seconds_of_a_minute_with_send_backs_that_are_declined(
    ops: list[Op], found: bool
) -> None:
    assert is_found(ops) is found


def test_members_of_groups_in_order_ask_no_broker() -> None:
    assert not is_found(history(*[COPIED] * 12), orderly=(GROUP,))


@pytest.mark.parametrize(
    ("of", "found"),
    [
        (fault("kill", "elsewhere", at_s=140, healed_s=141), False),  # any fault
        (fault("kill", "n0", at_s=5, healed_s=6), True),  # 120 s ago: forgotten
    ],
)
def test_any_fault_is_no_rest(of: FaultFacts, found: bool) -> None:
    assert is_found(history(*[COPIED] * 12), of) is found


@pytest.mark.parametrize(
    ("of", "found"),
    [
        (fault("kill", "n0", at_s=110, healed_s=120), False),
        (fault("kill", "n1", at_s=110, healed_s=120), True),  # no message waits for this follower
        (fault("kill", "n2", at_s=110, healed_s=120), True),  # of another broker
        (fault("pause", "c1", at_s=110, healed_s=125), False),
        (fault("pause", "c2", at_s=110, healed_s=125), True),  # another member
        (fault("kill", "n0", at_s=110, healed_s=120, bitten=False), True),
        (fault("kill", "n0", at_s=60, healed_s=70), True),  # long ago
        (fault("kill", "n0", at_s=140, healed_s=150), True),  # later
    ],
)
def test_one_send_back_without_an_answer_needs_a_fault_in_the_way(
    of: FaultFacts, found: bool
) -> None:
    verdict = verdict_of(history(MADE, UNANSWERED), of)
    assert (verdict.valid is False) is found
    for finding in verdict.findings:
        assert finding.key == "p0-2"
        assert finding.detail == (
            "b did not answer c1, which sent a message back, and no fault was in the way"
        )


def test_real_machines_are_busy() -> None:
    assert is_found(history(UNANSWERED))
    assert not is_found(history(UNANSWERED), disks_observed=False)


def test_files_know_it_too(tmp_path: Path) -> None:
    ops = history(MADE, COPIED, UNANSWERED, {"copied": True, "code": 14})
    with ColumnarRecorder(tmp_path, "run") as recorder:
        for op in ops:
            recorder.add(op)
        recorder.finish()

    timeline, expected = ColumnarHistory(tmp_path).timeline(), build_columns(ops)[1]
    assert timeline.sent_back == expected.sent_back != {}
    assert timeline.refused == expected.refused != []


@pytest.mark.slow
@given(
    st.lists(st.sampled_from([*[COPIED] * 6, {"code": 2}, MADE, UNANSWERED, {}]), max_size=40),
    st.sampled_from([1.0, 3.2, 6.6]),
    st.sampled_from([(), (GROUP,)]),
)
def test_it_finds_what_the_reference_finds(
    reports: list[dict[str, Any]], each_s: float, orderly: tuple[str, ...]
) -> None:
    ops = history({}, *reports, each_s=each_s)
    expected = reference_waits.declined(ops, orderly)
    assert verdict_of(ops, orderly=orderly).counts.get("refused_at_rest", 0) == len(expected)
