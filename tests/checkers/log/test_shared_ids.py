"""Unique message ids shared by two messages: the pairs found, and the sample of a large history."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.checkers.engine.kernel import some_rows
from staticfire.checkers.guarantees.verdict import Verdict
from staticfire.checkers.log import shared_ids
from staticfire.checkers.log.shared_ids import check_shared_ids, compared_rows, estimating_rows
from staticfire.checkers.model.columns import Columns
from staticfire.checkers.model.history import Op
from tests.support import reference_contents
from tests.support.chunked_kernels import partitions
from tests.support.history_builder import HistoryBuilder
from tests.support.one_checker import read_ops


class Sends(HistoryBuilder):
    def __init__(self) -> None:
        super().__init__(Random(0), [10**6])

    def send(self, key: str, number: int | None, *, queue: int = 0, end: str = "ok") -> None:
        value = {"key": key, "topic": "t", "size": 100}
        self.add(0, "invoke", "send", value)
        position = {"broker": "b", "queue": queue, "queue_offset": len(self.ops), "attempts": 1}
        answered = {} if number is None else {"id": number}
        known = {**value, **position, **answered} if end == "ok" else value
        self.add(0, end, "send", known, error=None if end == "ok" else "it failed")


def judged(ops: list[Op]) -> Verdict:
    columns, context = read_ops(ops)
    return check_shared_ids(columns, context)


@pytest.mark.parametrize(
    ("ids", "found"),
    [
        ([7, 8, 9], []),
        ([7, 8, 7], ["p0-2"]),
        ([7, 7, 7], ["p0-1", "p0-2"]),
        ([None, None], []),  # a client that does not report ids
        ([7, None, 8], []),
    ],
)
def test_two_messages_with_one_id_are_found(ids: list[int | None], found: list[str]) -> None:
    sends = Sends()
    for number, id_ in enumerate(ids):
        sends.send(f"p0-{number}", id_, queue=number)
    verdict = judged(sends.ops)
    assert [finding.key for finding in verdict.findings] == found
    assert verdict.valid is not bool(found)
    assert set(found) == reference_contents.shared_ids(sends.ops)


def test_a_send_without_an_answer_has_no_id() -> None:
    sends = Sends()
    sends.send("p0-0", 7)
    sends.send("p0-1", 7, end="info")
    assert judged(sends.ops).valid is True


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32))
def test_random_histories_give_what_the_reference_gives(seed: int) -> None:
    random, sends = Random(seed), Sends()
    for number in range(12):
        sends.send(f"p0-{number}", random.choice([None, *range(20)]), queue=random.randrange(3))
    keys = {finding.key for finding in judged(sends.ops).findings}
    assert keys == reference_contents.shared_ids(sends.ops)


def test_a_large_history_is_sampled_the_same_whole_and_by_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_ids, "COMPARED_MAX", 10)
    monkeypatch.setattr(shared_ids, "_ESTIMATED_BY", 8)
    random, sends = Random(1), Sends()
    for number in range(160):
        sends.send(f"p0-{number}", random.randrange(400), queue=random.randrange(3))
    columns, context = read_ops(sends.ops)
    whole = check_shared_ids(columns, context)
    queues = [part for part in partitions(columns, "log", 3) if len(part.sends)]
    gathered = _together(columns, [estimating_rows(part, context) for part in queues])
    compared = _together(columns, [compared_rows(part, context, gathered) for part in queues])
    assert 0 < len(compared.sends) < 40
    assert check_shared_ids(compared, context) == whole
    assert {finding.key for finding in whole.findings} < reference_contents.shared_ids(sends.ops)
    assert whole.counts["shared_id"] > 0


def _together(columns: Columns, parts: list[Columns]) -> Columns:
    rows = np.concatenate([part.sends.op_index for part in parts])
    return some_rows(columns, sends=np.flatnonzero(np.isin(columns.sends.op_index, rows)))
