"""Polls of transactions: planted illegal reads, near misses, and random histories against the reference."""

from __future__ import annotations

import os
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.checkers.cycles.txn_reads import TXN_READS
from staticfire.checkers.guarantees.verdict import Verdict
from staticfire.checkers.model.building.column_builder import build_columns
from staticfire.checkers.model.history import HistoryError, Op
from tests.checkers.cycles.test_cycles import histories
from tests.support import reference_cycles as reference
from tests.support.one_checker import read_ops
from tests.support.txn_language import txns

STEADY = settings(max_examples=int(os.environ.get("HISTORIES", "200")))


def check(ops: list[Op]) -> Verdict:
    columns, context = read_ops(ops)
    return TXN_READS.check(columns, context)


@pytest.mark.parametrize(
    ("lines", "anomalies"),
    [
        (("0 fail x+1", "1 ok x?1@0"), {"G1a"}),
        (("0 fail x+1", "1 info x?1@0"), set()),
        (("0 info x+1", "1 ok x?1@0"), set()),
        # 2 lies between what was polled, and came from the same transaction as 1
        (("0 ok x+1@0 x+2@1", "1 ok x+3@2", "2 ok x?1@0,3@2"), {"G1b"}),
        (("0 ok x+1@0 x+2@1", "1 ok x+3@2", "2 ok x?1@0,2@1,3@2"), set()),
        (("0 ok x+1@0 x+2@1", "1 ok x+3@2", "2 ok x?1@0"), set()),  # a poll may stop anywhere
        (("0 ok x+1@0 x+2@1", "1 ok x+3@2", "2 ok x?2@1,3@2"), set()),  # and begin anywhere
        (("0 ok x+1@0 x?1@0",), {"precommitted_read"}),
        (("0 fail x+1 x?1@0",), {"precommitted_read"}),
        (("0 ok x+1@0 y+1@0", "1 ok y?1@0"), set()),
        (("0 ok x+1@0", "0 ok x?1@0"), set()),
        (("0 ok x+1@0", "1 ok x?1@0,9@1"), {"txn_phantom"}),
        (("0 ok x+1@0", "1 ok y?1@0"), {"txn_phantom"}),  # it was sent to another log
        (("0 open x+1", "1 info x?1@0"), set()),
        (("0 ok x?1@0", "1 ok x+1@0"), set()),  # a cycle, and it was sent
        (("0 ok x+1@0", "0 ok x+2@1", "1 ok x?2@1,1@0"), {"txn_nonmonotonic_poll"}),
        (("0 ok x+1@0", "1 ok x?1@0,1@0"), {"txn_nonmonotonic_poll"}),
        # another poll may begin anywhere
        (("0 ok x+1@0", "0 ok x+2@1", "1 ok x?2@1 x?1@0"), set()),
    ],
)
def test_reads(lines: tuple[str, ...], anomalies: set[str]) -> None:
    verdict = check(txns(*lines))

    assert {finding.anomaly for finding in verdict.findings} == anomalies
    assert verdict.valid is not bool(anomalies)


def test_the_finding_says_what_was_polled() -> None:
    [finding] = check(txns("0 fail x+1", "1 ok x?1@0")).findings

    assert (finding.key, finding.op_index) == ("x", 3)
    assert finding.detail == "polled 1 at offset 0, sent by op 1, which failed"


def polled_wrongly(ops: list[Op], random: Random) -> list[Op]:
    """The same history; some polls bring one message more: of the same poll again, or what was never sent."""

    def mop(mop: list[Any]) -> list[Any]:
        if mop[0] == "poll" and random.random() < 0.3:
            return ["poll", {key: [*held, more(held)] for key, held in mop[1].items()}]
        return mop

    def more(held: list[list[int]]) -> list[int]:
        offset, value = random.choice(held)
        return random.choice([[offset, value], [offset + 1, value], [offset + 1, 10_000]])

    return [replace(op, value={"mops": [mop(one) for one in op.value["mops"]]}) for op in ops]


RANDOM = st.integers(0, 1 << 32).map(Random)


@pytest.mark.slow
@STEADY
@given(histories(), RANDOM)
def test_against_the_reference(ops: list[Op], random: Random) -> None:
    ops = polled_wrongly(ops, random)
    found = {(f.anomaly, f.op_index, f.key) for f in check(ops).findings}

    assert found == reference.reads(ops)


@pytest.mark.slow
def test_every_anomaly_occurs() -> None:
    seen: set[str] = set()

    @STEADY
    @given(histories(), RANDOM)
    def look(ops: list[Op], random: Random) -> None:
        seen.update(anomaly for anomaly, *_ in reference.reads(polled_wrongly(ops, random)))

    look()
    assert seen == set(TXN_READS.anomalies)


@pytest.mark.parametrize(
    ("mop", "words"),
    [
        (["read", "x", 1], "a micro-op is 'read'; allowed are send and poll"),
        (["send", "x", 1.5], "1.5 is not an integer of 64 bits"),
        (["poll", [1]], "op 0"),
        ([], "op 0"),
    ],
)
def test_a_bad_micro_op_is_named(mop: list[object], words: str) -> None:
    op = Op(index=0, time_ns=0, process=1, type="ok", f="txn", value={"mops": [mop]})

    with pytest.raises(HistoryError, match=words):
        build_columns([op])
