"""What transactions must not poll, planted; near misses; random histories against the reference."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings

from checkers.column_builder import build_columns
from checkers.history import HistoryError, Op
from checkers.kernel import Context
from checkers.promises import LossPromises
from checkers.txn_reads import TXN_READS
from checkers.verdict import Verdict
from tests.checkers.test_cycles import histories
from tests.support import reference_cycles as reference
from tests.support.history_language import facts
from tests.support.txn_language import txns

STEADY = settings(max_examples=int(os.environ.get("HISTORIES", "200")))


def check(ops: list[Op]) -> Verdict:
    columns, timeline = build_columns(ops)
    known = facts()
    return TXN_READS.check(
        columns, Context(facts=known, timeline=timeline, promises=LossPromises(known))
    )


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
        (("0 ok x+1@0 y?1@0",), set()),
        (("0 ok x+1@0", "0 ok x?1@0"), set()),
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


@STEADY
@given(histories())
def test_against_the_reference(ops: list[Op]) -> None:
    found = {(f.anomaly, f.op_index, f.key) for f in check(ops).findings}

    assert found == reference.reads(ops)


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
