"""Refusals of illegal sends: the code of RocketMQ 4.9.8, or a code that a fault of a replica explains."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticfire.checkers.features.refusals import CODES
from staticfire.checkers.formats.columnar.op_reader import read_ops
from staticfire.checkers.formats.columnar.reader import ColumnarHistory
from staticfire.checkers.formats.columnar.recording import ColumnarRecorder
from staticfire.checkers.guarantees.facts import FaultFacts, Timings
from staticfire.checkers.guarantees.judgement import Judgement
from staticfire.checkers.guarantees.verdict import Verdict
from staticfire.checkers.model.building.column_builder import build_columns
from staticfire.checkers.model.history import HistoryError, Op, OpType
from staticfire.checkers.verdicts.compose import check_run
from staticfire.harness.accounts import REFUSED
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.generators.illegal_sends import IllegalSends
from tests.support import reference_endings
from tests.support.history_language import facts, fault
from tests.support.one_checker import only

S = 10**9
BROKERS = {"b": ("n0", "n1"), "other": ("n2",)}


def refused(index: int, illegal: str, code: int, *, at_s: int = 15, broker: str | None = "b") -> Op:
    value: dict[str, Any] = {"topic": "t", "key": f"p0-{index}", "illegal": illegal, "code": code}
    if broker is not None:
        value["broker"] = broker
    return Op(index=index, time_ns=at_s * S, process=0, type="ok", f="refused", value=value)


def verdict_of(ops: list[Op], *faults: FaultFacts) -> Verdict | None:
    verdicts = check_run(
        ops, [], facts(replica_sets=BROKERS, faults=faults, may_be_busy=False), only("refusals")
    ).verdicts
    return next((verdict for verdict in verdicts if verdict.checker == "refusals"), None)


def test_another_code_is_a_finding() -> None:
    verdict = verdict_of([refused(0, "properties", 13), refused(1, "properties", 17)])

    assert verdict is not None
    assert verdict.valid is False
    [finding] = verdict.findings
    assert (finding.anomaly, finding.key, finding.broker) == ("wrong_refusal", "p0-1", "b")
    assert finding.detail == "refused with code 17 because of its properties; RocketMQ gives 13"


@pytest.mark.parametrize("illegal", CODES)
def test_the_code_of_rocketmq_and_a_busy_broker_are_right(illegal: str) -> None:
    stall = fault("pause", "n0", at_s=10, healed_s=14)
    verdict = verdict_of([refused(0, illegal, CODES[illegal]), refused(1, illegal, 2)], stall)

    assert verdict is not None
    assert verdict.valid is True
    assert verdict.counts["refusals"] == 2


@pytest.mark.parametrize(("may_be_busy", "found"), [(False, 1), (True, 0)])
def test_a_broker_is_busy_without_a_fault_only_where_requests_may_wait(
    may_be_busy: bool, found: int
) -> None:
    run = facts(replica_sets=BROKERS, may_be_busy=may_be_busy)
    for ops, anomaly in (
        ([refused(0, "properties", 2)], "wrong_refusal"),
        (turned_away(2), "needless_refusal"),
    ):
        findings = [
            finding
            for verdict in check_run(ops, [], run, only("refusals")).verdicts
            for finding in verdict.findings
        ]
        assert [one.anomaly for one in findings] == [anomaly] * found


def test_every_illegal_send_of_a_campaign_has_a_code() -> None:
    campaign = draw_campaign(
        1, {"illegal_share": 1.0, "broker_properties": (("autoCreateTopicEnable", "false"),)}
    )
    sends = IllegalSends(campaign)
    drawn = [value for _ in range(100) if (value := sends.next_value()) is not None]
    assert {value["illegal"] for value in drawn} | REFUSED.keys() == CODES.keys()


@pytest.mark.parametrize(
    ("of", "code", "valid"),
    [
        (fault("kill", "n0", at_s=10, healed_s=14), 14, True),
        (fault("kill", "n0", at_s=10, healed_s=14), 1, True),
        (fault("kill", "n1", at_s=10, healed_s=14), 14, False),  # sends go to the leader
        (fault("kill", "n0", at_s=10, healed_s=14), 16, False),  # no broker that comes up says so
        (fault("kill", "n2", at_s=10, healed_s=14), 14, False),  # of another broker
        (fault("kill", "n0", at_s=10, healed_s=14, bitten=False), 14, False),
        (fault("kill", "n0", at_s=16, healed_s=20), 14, False),  # later
        (fault("kill", "n0", at_s=2, healed_s=5), 14, False),  # it answers again
    ],
)
def test_a_fault_of_a_replica_explains_that_a_broker_is_unable(
    of: FaultFacts, code: int, valid: bool
) -> None:
    verdict = verdict_of([refused(0, "properties", code)], of)

    assert verdict is not None
    assert verdict.valid is valid
    assert verdict.counts["wrong_refusal" if not valid else "wrong_refusal_allowed"] == 1


def test_an_unknown_broker_may_be_any() -> None:
    of = fault("kill", "n2", at_s=10, healed_s=14)
    verdict = verdict_of([refused(0, "properties", 14, broker=None)], of)

    assert verdict is not None
    assert verdict.valid is True


def test_a_run_without_refusals_has_no_verdict() -> None:
    assert verdict_of([]) is None


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.sampled_from([*CODES, "something else"]), st.sampled_from([1, 2, 13, 14, 17])),
        min_size=1,
        max_size=6,
    )
)
def test_it_finds_what_the_reference_finds(refusals: list[tuple[str, int]]) -> None:
    ops = [refused(index, *one) for index, one in enumerate(refusals)]
    expected = reference_endings.wrongly_refused(ops)

    verdict = verdict_of(ops)
    assert verdict is not None
    assert verdict.counts.get("wrong_refusal", 0) == expected.total()
    found = {(f.anomaly, f.key) for f in verdict.findings}
    assert found <= set(expected)
    assert bool(found) == bool(expected)


@pytest.mark.slow
def test_files_know_it_too(tmp_path: Any) -> None:
    ops = [refused(0, "properties", 17)]
    with ColumnarRecorder(tmp_path, "run") as recorder:
        recorder.add(ops[0])
        recorder.finish()

    timeline = ColumnarHistory(tmp_path).timeline()
    assert timeline.refused == build_columns(ops)[1].refused != []


def test_a_refusal_without_a_code_is_one_sentence() -> None:
    value = {"topic": "t", "key": "p0-0", "illegal": "properties"}
    op = Op(index=0, time_ns=0, process=0, type="ok", f="refused", value=value)

    with pytest.raises(HistoryError, match=r"op 0 .*lacks 'code'"):
        build_columns([op])


def turned_away(
    code: int, *, at_s: float = 15, end: OpType = "fail", account: str | None = None
) -> list[Op]:
    """A legal send to broker b that ends with a code."""
    sent = {"topic": "t", "key": "p0-0", "size": 1}
    if account is not None:
        sent["account"] = account
    ended = {**sent, "attempts": 1, "code": code, "refused_by": "b"}
    return [
        Op(index=0, time_ns=int((at_s - 1) * S), process=0, type="invoke", f="send", value=sent),
        Op(index=1, time_ns=int(at_s * S), process=0, type=end, f="send", value=ended),
    ]


@pytest.mark.parametrize(
    ("code", "of", "found"),
    [
        (14, (), 1),
        (1, (), 1),
        (16, (), 1),
        (2, (), 1),
        (2, (fault("pause", "n0", at_s=10, healed_s=14),), 0),  # too busy
        (2, (fault("pause", "n1", at_s=10, healed_s=14),), 1),  # no follower makes requests wait
        (2, (fault("slow_disk", "n0", at_s=10, healed_s=14),), 0),
        (2, (fault("partition", "n0", at_s=10, healed_s=14),), 1),
        (14, (fault("kill", "n0", at_s=10, healed_s=14),), 0),
        (14, (fault("kill", "n1", at_s=10, healed_s=14),), 1),  # sends go to the leader
        (16, (fault("kill", "n0", at_s=10, healed_s=14),), 1),  # no broker that comes up says so
        (14, (fault("kill", "n2", at_s=10, healed_s=14),), 1),  # of another broker
        (14, (fault("kill", "n0", at_s=15.5, healed_s=20),), 1),  # later
    ],
)
def test_a_legal_send_is_refused_only_where_it_cannot_be_stored(
    code: int, of: tuple[FaultFacts, ...], found: int
) -> None:
    verdict = verdict_of(turned_away(code), *of)

    assert verdict is not None
    violations = [one for one in verdict.findings if one.judgement is Judgement.VIOLATION]
    assert [one.anomaly for one in violations] == ["needless_refusal"] * found


@pytest.mark.parametrize(
    ("account", "at_s", "found"), [("guest", 13, 0), ("guest", 20, 1), (None, 13, 1)]
)
def test_a_send_after_which_nothing_is_known_is_refused_without_need_too(
    account: str | None, at_s: float, found: int
) -> None:
    """Code 1. An administrator changes the rights of the guest from 10 to 12 s."""
    rights = fault("rights_change", at_s=10, healed_s=12)
    verdict = verdict_of(turned_away(1, at_s=at_s, end="info", account=account), rights)

    assert verdict is not None
    violations = [one for one in verdict.findings if one.judgement is Judgement.VIOLATION]
    assert [one.anomaly for one in violations] == ["needless_refusal"] * found


@pytest.mark.parametrize(
    ("account", "unanswered", "at_s", "found"),
    [("guest", 1, 60, 0), ("guest", 0, 60, 1), ("guest", 1, 9, 1), (None, 1, 60, 1)],
)
def test_a_withdrawal_without_an_answer_may_be_carried_out_late(
    account: str | None, unanswered: int, at_s: float, found: int
) -> None:
    rights = replace(fault("rights_change", at_s=10, healed_s=12), unanswered=unanswered)
    verdict = verdict_of(turned_away(1, at_s=at_s, end="info", account=account), rights)

    assert verdict is not None
    violations = [one for one in verdict.findings if one.judgement is Judgement.VIOLATION]
    assert [one.anomaly for one in violations] == ["needless_refusal"] * found


@pytest.mark.parametrize("code", [2, 14])
def test_a_change_of_rights_explains_no_other_code(code: int) -> None:
    rights = replace(fault("rights_change", at_s=10, healed_s=12), unanswered=1)
    verdict = verdict_of(turned_away(code, at_s=13, account="guest"), rights)

    assert verdict is not None
    assert [one.judgement for one in verdict.findings] == [Judgement.VIOLATION]


@pytest.mark.parametrize("end", ["fail", "info"])
def test_a_history_in_columns_knows_the_refusal_of_a_legal_send(
    tmp_path: Path, end: OpType
) -> None:
    ops = turned_away(14, end=end)
    with ColumnarRecorder(tmp_path / "history.parquet", "run") as recorder:
        for op in ops:
            recorder.add(op)
        recorder.finish()
    history = ColumnarHistory(tmp_path / "history.parquet")

    assert history.timeline().refused == build_columns(ops)[1].refused
    assert list(read_ops(history)) == ops


def sent_back(index: int, code: int | None, *, at_s: float = 15) -> Op:
    """A consumer sent a message back to broker b, which refused, and has sent a copy of its own."""
    value: dict[str, Any] = {"group": "g", "topic": "t", "broker": "b", "queue": 0, "copied": True}
    value |= {"messages": [[f"p0-{index}", 0, 0]], "code": code}
    time_ns = int(at_s * S)
    return Op(index=index, time_ns=time_ns, process=7, type="ok", f="send_back", value=value)


@pytest.mark.parametrize(
    ("code", "of", "found"),
    [
        (1, (), 1),
        (14, (), 1),
        (2, (), 1),
        (2, (fault("slow_disk", "n0", at_s=10, healed_s=14),), 0),  # too busy
        (1, (fault("kill", "n0", at_s=10, healed_s=14),), 0),
        (26, (fault("disk_lost", "n0", at_s=10, healed_s=14),), 0),  # its groups, too
        (26, (), 1),
        (16, (fault("kill", "n0", at_s=10, healed_s=14),), 1),  # no broker that comes up says so
        (12, (), 1),  # a copy that no follower had
        (12, (fault("pause", "n1", at_s=10, healed_s=14),), 0),
        (1, (fault("pause", "n1", at_s=10, healed_s=14),), 1),  # no follower is needed to store it
        (10, (fault("slow_disk", "n0", at_s=10, healed_s=14),), 0),
        (10, (fault("slow_disk", "n1", at_s=10, healed_s=14),), 1),
        (1, (fault("kill", "n2", at_s=10, healed_s=14),), 1),  # of another broker
        (1, (fault("kill", "n0", at_s=15.5, healed_s=20),), 1),  # later
    ],
)
def test_what_a_consumer_sends_back_is_refused_only_where_it_cannot_be_stored(
    code: int, of: tuple[FaultFacts, ...], found: int
) -> None:
    verdict = verdict_of([sent_back(0, code)], *of)

    assert verdict is not None
    violations = [one for one in verdict.findings if one.judgement is Judgement.VIOLATION]
    assert [one.anomaly for one in violations] == ["needless_refusal"] * found
    for one in violations:
        assert one.detail == f"a message that was sent back, refused with code {code}"


@pytest.mark.parametrize(
    ("code", "flush_wait_s", "judgement"),
    [
        (12, 3.1, Judgement.ALLOWED),
        (12, 3.0, Judgement.VIOLATION),  # the broker waits as long
        (10, 5.1, Judgement.ALLOWED),
        (10, 4.9, Judgement.VIOLATION),
        (1, 60.0, Judgement.VIOLATION),  # it stores the copy before it flushes
    ],
)
def test_a_copy_on_a_slow_disk_is_not_flushed_in_time(
    code: int, flush_wait_s: float, judgement: Judgement
) -> None:
    known = facts(replica_sets=BROKERS, timings=Timings(flush_wait_s=flush_wait_s))
    [verdict] = check_run([sent_back(0, code)], [], known, only("refusals")).verdicts
    [finding] = verdict.findings
    assert finding.judgement is judgement


def test_a_consumer_reports_a_refusal_when_it_has_sent_a_copy() -> None:
    """The report may come 9 s after the request, and the effects of a fault last 6 s."""
    killed = fault("kill", "n0", at_s=10, healed_s=14)
    for at_s, valid in ((28.9, True), (29.1, False)):
        verdict = verdict_of([sent_back(0, 1, at_s=at_s)], killed)
        assert verdict is not None
        assert verdict.valid is valid


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(
            st.sampled_from([None, 1, 2, 13, 14, 17]), st.sampled_from(["fail", "info", "back"])
        ),
        min_size=1,
        max_size=6,
    )
)
def test_it_finds_the_needless_refusals_of_the_reference(
    ends: list[tuple[int | None, str]],
) -> None:
    ops: list[Op] = []
    for number, (code, end) in enumerate(ends):
        if end == "back":
            ops.append(sent_back(len(ops), code, at_s=15 + len(ops)))
            continue
        sent: dict[str, Any] = {"topic": "t", "key": f"p0-{number}", "size": 1}
        reported = {} if code is None else {"code": code, "refused_by": "b"}
        for type_, value in (("invoke", sent), (end, {**sent, **reported})):
            at = len(ops)
            ops.append(
                Op(index=at, time_ns=15 * S + at, process=0, type=type_, f="send", value=value)  # type: ignore[arg-type]
            )
    expected = reference_endings.needlessly_refused(ops)

    verdict = verdict_of(ops)
    assert (verdict is not None) == any(code is not None for code, _ in ends)
    counts = {} if verdict is None else verdict.counts
    assert counts.get("needless_refusal", 0) == expected.total()
