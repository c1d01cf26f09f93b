"""Unreadable retry and dead-letter topics: a refusal is a finding, a missing answer is unknown."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticfire.checkers.formats.columnar.reader import ColumnarHistory
from staticfire.checkers.formats.columnar.recording import ColumnarRecorder
from staticfire.checkers.guarantees.verdict import Verdict
from staticfire.checkers.model.building.column_builder import build_columns
from staticfire.checkers.model.history import HistoryError, Op, OpType
from staticfire.checkers.verdicts.compose import check_run
from tests.support import reference_endings
from tests.support.history_language import facts
from tests.support.one_checker import judged_by, only

DEAD, RETRY = "%DLQ%g", "%RETRY%g"
REFUSED = "code 16, the topic[%DLQ%g] pulling message is forbidden"


def tried(index: int, type: OpType, topic: str = DEAD, broker: str = "b") -> Op:
    error = {"fail": REFUSED, "info": "no answer"}.get(type)
    value: dict[str, Any] = {"group": "g", "topic": topic, "broker": broker, "queue": 0}
    return Op(
        index=index, time_ns=index, process=99, type=type, f="try_read", value=value, error=error
    )


def verdict_of(ops: list[Op]) -> Verdict | None:
    verdicts = check_run(ops, [], facts(), only("readability")).verdicts
    return next((verdict for verdict in verdicts if verdict.checker == "readability"), None)


def test_a_refusal_is_a_finding() -> None:
    verdict = verdict_of([tried(0, "ok", RETRY), tried(1, "fail")])

    assert verdict is not None
    assert verdict.valid is False
    [finding] = verdict.findings
    assert (finding.anomaly, finding.topic, finding.broker) == ("unreadable_topic", DEAD, "b")
    assert finding.detail == f"b refuses to give out {DEAD}: {REFUSED}"


@pytest.mark.parametrize(("type", "valid"), [("ok", True), ("info", "unknown")])
def test_what_was_not_refused(type: OpType, valid: object) -> None:
    verdict = verdict_of([tried(0, type)])

    assert verdict is not None
    assert verdict.valid == valid
    assert ("was not read to its end" in str(verdict.reason)) == (type == "info")


def test_each_topic_of_each_broker_is_tried() -> None:
    ops = [tried(0, "ok", RETRY), tried(1, "ok"), tried(2, "ok", RETRY, "c")]
    known = {"replica_sets": {"b": ("n0",), "c": ("n1",)}, "retries_max": {"g": 16}}

    def reason(ops: list[Op], **due: Any) -> str | None:
        return judged_by("readability", ops, [], facts(**known, **due)).reason

    reported = "nothing says whether %DLQ%g of c can be read"
    assert reason(ops, due=("try_read",)) == reported
    assert reason([*ops, tried(3, "ok", DEAD, "c")], due=("try_read",)) is None
    assert reason(ops) is None  # an earlier version
    assert reason([], due=("try_read",)) is not None


def test_a_run_without_an_attempt_has_no_verdict() -> None:
    assert verdict_of([]) is None


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["ok", "fail", "info"]),
            st.sampled_from([RETRY, DEAD]),
            st.sampled_from(["b", "c"]),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_it_finds_what_the_reference_finds(tries: list[tuple[OpType, str, str]]) -> None:
    ops = [tried(index, *one) for index, one in enumerate(tries)]
    expected = reference_endings.unreadable(ops)

    verdict = verdict_of(ops)
    assert verdict is not None
    assert verdict.counts.get("unreadable_topic", 0) == expected.total()
    found = {(f.anomaly, f.group, f.topic, f.broker) for f in verdict.findings}
    assert found <= set(expected)
    assert bool(found) == bool(expected)


def test_files_know_it_too(tmp_path: Any) -> None:
    ops = [tried(0, "fail")]
    with ColumnarRecorder(tmp_path, "run") as recorder:
        recorder.add(ops[0])
        recorder.finish()

    timeline = ColumnarHistory(tmp_path).timeline()
    assert timeline.tried_reads == build_columns(ops)[1].tried_reads != []


def test_a_try_that_says_no_topic_is_one_sentence() -> None:
    op = Op(index=0, time_ns=0, process=99, type="ok", f="try_read", value={"group": "g"})

    with pytest.raises(HistoryError, match=r"op 0 .*lacks 'topic'"):
        build_columns([op])
