"""Queries by key and by id: messages in a queue are found; absent ones are left to other checkers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from staticfire.checkers.guarantees.verdict import Validity, Verdict
from staticfire.checkers.log.message_queries import LOOK_UPS, NOT_A_RECORD
from staticfire.checkers.model.history import Op
from staticfire.checkers.verdicts.compose import RunVerdict, check_run
from tests.support.history_language import facts, fault, history
from tests.support.one_checker import only


def look_up(
    messages: Sequence[Sequence[Any]],
    *,
    indexed: bool = True,
    answered: bool = True,
    torn: Sequence[Sequence[Any]] = (),
    error: str = "timeout",
) -> Op:
    return Op(
        index=0,
        time_ns=1,
        process=99_999,
        type="ok" if answered else "info",
        f="look_up",
        value={"topic": "t", "broker": "b", "indexed": indexed, "messages": messages, "torn": torn},
        error=None if answered else error,
    )


#           key, queue, offset, by key, by id, in queue
ALL_FOUND = ["a", 0, 0, True, True, True]
NOT_BY_KEY = ["a", 0, 0, False, True, True]
NOT_BY_ID = ["a", 0, 0, True, False, True]
NOWHERE = ["a", 0, 0, False, False, False]


@pytest.mark.parametrize(
    ("op", "valid", "anomalies"),
    [
        (look_up([ALL_FOUND]), True, []),
        (look_up([NOT_BY_KEY]), False, ["not_found_by_key"]),
        (look_up([NOT_BY_KEY], indexed=False), True, []),
        (look_up([NOT_BY_ID]), False, ["not_found_by_id"]),
        (look_up([NOWHERE]), True, []),
        (look_up([], answered=False), "unknown", []),
        (look_up([ALL_FOUND], torn=[["z", 0, 1, "it ends early"]]), False, ["torn_answer"]),
        (look_up([], answered=False, error=f"{NOT_A_RECORD}('...')"), False, ["torn_answer"]),
    ],
)
def test_look_ups(op: Op, valid: Validity, anomalies: list[str]) -> None:
    run = check_run([op], [], facts(), [LOOK_UPS])
    [verdict] = run.verdicts
    assert (verdict.valid, [finding.anomaly for finding in verdict.findings]) == (valid, anomalies)


@pytest.mark.parametrize(("asked", "valid"), [(None, True), (1, True), (2, True), (3, "unknown")])
def test_a_look_up_that_lacks_messages_is_unknown(asked: int | None, valid: Validity) -> None:
    op = look_up([ALL_FOUND, ["b", 0, 1, True, True, True]])
    if asked is not None:
        op.value["asked"] = asked

    [verdict] = check_run([op], [], facts(), [LOOK_UPS]).verdicts
    assert verdict.valid == valid
    if valid == "unknown":
        assert verdict.reason == "b was asked for 3 messages of t, and 2 answers are there"


def test_torn_answers_are_answers() -> None:
    op = look_up([ALL_FOUND], torn=[["b", 0, 1, "it ends early"]])
    op.value["asked"] = 2

    assert check_run([op], [], facts(), [LOOK_UPS]).verdicts[0].reason is None


#           key, queue, offset, stored, answer, stored there, stored before
@pytest.mark.parametrize(
    ("row", "detail"),
    [
        (["a", 0, 5, 700, 5, 700, 699], ""),
        (["a", 0, 5, 700, 4, 700, 699], ""),  # an earlier one of the same time
        (["a", 0, 0, 700, 0, 700, None], ""),
        (["a", 0, 5, 700, 6, 701, 700], "led to offset 6, where what is stored is of 701"),
        (["a", 0, 5, 700, 0, 600, None], "led to offset 0, where what is stored is of 600"),
        (["a", 0, 5, 700, 9, None, None], "led to offset 9, where what is stored is of None"),
        (["a", 0, 5, 700, 5, 700, 700], "led to offset 5, which is not the first with that time"),
    ],
)
def test_a_search_for_a_store_time_finds_the_first_message_of_it(
    row: list[Any], detail: str
) -> None:
    op = look_up([ALL_FOUND])
    op.value["searched"] = [row]
    skewed = fault("clock_skew", "n0", at_s=0, healed_s=0.1)

    def judged(**changes: Any) -> Verdict:
        return check_run([op], [], facts(**changes), [LOOK_UPS]).verdicts[0]

    verdict = judged()
    assert [of.anomaly for of in verdict.findings] == (["wrong_time_search"] if detail else [])
    assert verdict.valid is not bool(detail)
    assert all(of.detail.endswith(detail) for of in verdict.findings)
    # Store times need not ascend where the clock was wrong; another broker's clock is no excuse.
    assert judged(faults=(skewed,)).valid is True
    assert judged(faults=(replace(skewed, targets=("n9",)),)).valid is not bool(detail)
    assert judged(mode="faithful").valid is True


def test_a_broker_that_answers_no_search_by_time_is_unknown() -> None:
    op = look_up([ALL_FOUND])
    op.value["search_error"] = "timeout"
    [verdict] = [
        of
        for of in check_run([op], [], facts(), only("look_ups")).verdicts
        if of.checker == "look_ups"
    ]
    assert (verdict.valid, verdict.reason) == (
        "unknown",
        "b answered no search by time in t: timeout",
    )


@pytest.mark.parametrize(
    ("row", "valid"),
    [
        (["b", 0, 1, True, True, True], False),
        (["b", 0, 1, False, False, False], True),  # whether it may be gone others judge
    ],
)
def test_a_broker_that_fails_to_read_what_it_holds(row: list[Any], valid: Validity) -> None:
    """It is known what the broker does: a refusal is no silence."""
    said = "code 1, java.lang.IndexOutOfBoundsException"
    op = look_up([ALL_FOUND, row])
    op.value["searched"] = [["a", 0, 0, 700, 0, 700, None]]
    op.value["refused"] = [["b", 0, 1, said]]
    op.value["asked"] = 2
    for mode in ("hardened", "faithful"):
        [verdict] = check_run([op], [], facts(mode=mode), [LOOK_UPS]).verdicts
        assert verdict.valid == valid
        assert [(of.anomaly, of.key, of.detail) for of in verdict.findings] == (
            []
            if valid
            else [("refused_read", "b", f"in its queue, and b fails to read it: {said}")]
        )


def test_a_broker_that_fails_at_all_searches_has_been_asked() -> None:
    op = look_up([ALL_FOUND])
    op.value.update(asked=1, searched=[], refused=[["a", 0, 0, "code 1"]])

    def reasons() -> str:
        run = check_run([op], [], facts(due=("look_up",)))
        return "; ".join(str(of.reason) for of in run.verdicts)

    assert "none of them by time" not in reasons()
    del op.value["refused"]
    assert "none of them by time" in reasons()


def test_a_run_without_look_ups_is_not_asked() -> None:
    assert check_run([], [], facts(), [LOOK_UPS]).not_applicable == ("look_ups",)


def test_a_run_that_asks_brokers_and_holds_no_answers_is_unknown() -> None:
    ops = history("0 ok send a", "1 ok consume a", "9 ok drain")

    def verdict(asks: bool) -> RunVerdict:
        return check_run(ops, [], facts(due=("look_up",) if asks else ()))

    assert "look_ups" in verdict(asks=False).not_applicable
    assert verdict(asks=True).valid == "unknown"
    [asked] = [of for of in verdict(asks=True).verdicts if of.checker == "look_ups"]
    assert asked.valid == "unknown"
    assert asked.reason == "the history does not say what brokers hold after the run: b for t"
