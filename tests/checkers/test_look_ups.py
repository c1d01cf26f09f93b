"""What a queue holds is found by key and by id; what it does not hold is the question of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from checkers.compose import RunVerdict, check_run
from checkers.history import Op
from checkers.look_ups import LOOK_UPS, NOT_A_RECORD
from checkers.verdict import Validity
from tests.support.history_language import facts, history


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
        (look_up([NOT_BY_KEY]), False, ["unindexed"]),
        (look_up([NOT_BY_KEY], indexed=False), True, []),
        (look_up([NOT_BY_ID]), False, ["invisible"]),
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


def test_a_run_without_look_ups_is_not_asked() -> None:
    assert check_run([], [], facts(), [LOOK_UPS]).not_applicable == ("look_ups",)


def test_a_run_that_asks_brokers_and_holds_no_answers_is_unknown() -> None:
    ops = history("0 ok send a", "1 ok consume a", "9 ok drain")

    def verdict(asks: bool) -> RunVerdict:
        return check_run(ops, [], facts(asks_brokers=asks))

    assert "look_ups" in verdict(asks=False).not_applicable
    assert verdict(asks=True).valid == "unknown"
    [asked] = [of for of in verdict(asks=True).verdicts if of.checker == "look_ups"]
    assert asked.valid == "unknown"
    assert asked.reason == "the history does not say what brokers hold after the run: b for t"
