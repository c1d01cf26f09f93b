"""Histories with arbitrary values: one sentence, or a verdict of every checker; no checker raises."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from staticfire.checkers.model.history import HistoryError, Op, decode_history, encode_op
from staticfire.checkers.verdicts.compose import check_run
from tests.support.history_language import facts
from tests.support.semantic_histories import FACTS, semantic_history

STEADY = settings(max_examples=int(os.environ.get("HISTORIES", "100")))
HOSTILE: list[Any] = [
    *(None, True, -1, 0, 1, 2**31, 2**53, 2**62, 2**63 - 1, -(2**63), 2**64, 10**30, 0.5),
    *("", "t", "u", "p0-0", "p0-1", "commit", "%RETRY%g", "p99999999-99999999999999", "\udcff"),
    *([], {}, [[]], [None], {"a": 1}),
]
FIELDS = ["tag", "sharding_key", "delay_ms", "transaction", "attempts", "status", "queue_offset"]


def hostile(random: Random) -> list[Op]:
    """A history of every semantics in which some values were replaced."""
    ops = semantic_history(random)
    for _ in range(random.randrange(1, 4)):
        at = random.randrange(len(ops))
        ops[at] = _changed(random, ops[at])
    return ops


def _changed(random: Random, op: Op) -> Op:
    match random.randrange(6):
        case 0:
            return replace(op, process=random.choice([0, 10, 11, 2**40, 2**63 - 1]))
        case 1:
            return replace(op, time_ns=random.choice([0, 1, 2**53, 2**63 - 1]))
        case 2:
            return replace(op, type=random.choice(["invoke", "ok", "info", "fail"]))
        case 3:
            return replace(op, value={**op.value, random.choice(FIELDS): random.choice(HOSTILE)})
        case _:
            return replace(op, value=_spoilt(random, op.value))


def _spoilt(random: Random, value: Any) -> Any:
    """The same with one thing replaced, however deep it lies."""
    if isinstance(value, dict) and value:
        name = random.choice(list(value))
        return {**value, name: _spoilt(random, value[name])}
    if isinstance(value, list) and value and random.random() < 0.8:
        at = random.randrange(len(value))
        return [*value[:at], _spoilt(random, value[at]), *value[at + 1 :]]
    return random.choice(HOSTILE)


def _judge(read: Callable[[], list[Op]]) -> str:
    """What is wrong with a history, in one sentence; nothing if every checker has answered."""
    try:
        run = check_run(read(), [], facts(**FACTS))
    except HistoryError as error:
        reported = str(error)
        assert "\n" not in reported
        return reported
    assert [of.reason for of in run.verdicts if "the checker failed" in (of.reason or "")] == []
    return ""


def test_a_message_that_is_no_list_is_a_sentence() -> None:
    assert "message is" in _judge(lambda: hostile(Random(435)))


@pytest.mark.slow
@STEADY
@given(seed=st.integers(0, 2**32))
def test_whatever_values_say_no_checker_fails(seed: int) -> None:
    _judge(lambda: hostile(Random(seed)))


@STEADY
@given(seed=st.integers(0, 2**32))
@example(seed=22458)  # a retry of what no delivery was left of
def test_flipped_bytes_of_lines_are_a_sentence_or_a_verdict(seed: int) -> None:
    random = Random(seed)
    data = bytearray(b"".join(map(encode_op, semantic_history(random))))
    for _ in range(random.randrange(1, 4)):
        data[random.randrange(len(data))] ^= random.randrange(1, 128)
    _judge(lambda: decode_history(bytes(data)).ops)
