"""Sends of transactions: planted wrong outcomes, near misses, and random histories against the reference."""

from __future__ import annotations

import os
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.checkers.cycles.txn_writes import TXN_WRITES
from staticfire.checkers.guarantees.verdict import Verdict
from staticfire.checkers.model.history import Op
from tests.checkers.cycles.test_cycles import histories
from tests.support import reference_cycles as reference
from tests.support.history_language import history
from tests.support.one_checker import read_ops
from tests.support.txn_language import txns

STEADY = settings(max_examples=int(os.environ.get("HISTORIES", "200")))


def check(ops: list[Op]) -> Verdict:
    columns, context = read_ops(ops)
    return TXN_WRITES.check(columns, context)


@pytest.mark.parametrize(
    ("lines", "anomalies"),
    [
        # 2 is proven by 1, of the same transaction, and was passed
        (("0 info x+1@0 y+2@0", "1 ok y+3@1", "2 ok x?1@0 y?3@1"), {"lost_write"}),
        (("0 info x+1@0 y+2@0", "1 ok y+3@1", "2 ok x?1@0 y?2@0,3@1"), set()),
        # nothing proves it; or the log was not read so far
        (("0 info x+1@0 y+2@0", "1 ok y+3@1", "2 ok y?3@1"), set()),
        (("0 info x+1@0 y+2@7", "1 ok y+3@1", "2 ok x?1@0 y?3@1"), set()),
        (("0 ok y+2@0", "1 ok y+3@1", "2 ok y?3@1"), {"lost_write"}),
        (("0 fail y+2@0", "1 ok y+3@1", "2 ok y?3@1"), set()),
        # a poll that did not end well has read nothing
        (("0 ok y+2@0", "1 ok y+3@1", "2 ok y?3@1", "3 info y?2@0"), {"lost_write"}),
        (("0 ok x+1@1", "1 ok x?1@3"), {"txn_duplicate"}),
        (("0 info x+1", "1 ok x?1@3", "2 info x?1@4"), {"txn_duplicate"}),
        (("0 ok x+1@3", "1 ok x?1@3", "2 ok x?1@3"), set()),
        (("0 ok x+1@0", "1 ok x+2@0"), {"txn_inconsistent_offsets"}),
        (("0 ok x+1@0", "1 ok x+2", "2 ok x?1@0", "3 ok x?2@0"), {"txn_inconsistent_offsets"}),
        # what failed, or may have, is nowhere; another key has offsets of its own
        (("0 fail x+1@0", "1 ok x+2@0"), set()),
        (("0 info x+1@0", "1 ok x+2@0"), set()),
        (("0 ok x+1@0", "1 ok y+2@0"), set()),
        (("0 ok x+1@1 x+2@0",), {"txn_nonmonotonic_send"}),
        # also with something of another one in between
        (("0 ok x+1@2 x+2@0", "1 ok x+3@1"), {"txn_nonmonotonic_send"}),
        (("0 ok x+1@1 y+2@0",), set()),
        (("0 ok x+1@0", "0 ok x+2@1"), set()),
    ],
)
def test_writes(lines: tuple[str, ...], anomalies: set[str]) -> None:
    verdict = check(txns(*lines))

    assert {finding.anomaly for finding in verdict.findings} == anomalies
    assert verdict.valid is not bool(anomalies)


@pytest.mark.parametrize(
    ("drains", "lost"),
    [((), False), (("9 ok drain 0:0:0",), True), (("9 info drain 0:2:1",), False)],
)
def test_the_other_half_without_an_offset_is_lost_when_everything_was_read(
    drains: tuple[str, ...], lost: bool
) -> None:
    ops = txns("0 info x+1 y+2", "1 ok x?1@0")
    last = [replace(op, index=len(ops) + n, time_ns=10**9) for n, op in enumerate(history(*drains))]

    assert check([*ops, *last]).valid is not lost


def moved(ops: list[Op], random: Random) -> list[Op]:
    """The same history; some sends say another offset, and some transactions that ended send once more."""

    def mops(op: Op) -> list[Any]:
        mine = [mop(one) for one in op.value["mops"]]
        sent = [one for one in mine if one[0] == "send"]
        if op.type != "invoke" and sent and random.random() < 0.2:
            mine.append(["send", sent[0][1], [random.randrange(5), 10_000 + op.index]])
        return mine

    def mop(mop: list[Any]) -> list[Any]:
        if mop[0] == "send" and isinstance(mop[2], list) and random.random() < 0.2:
            offset, value = mop[2]
            return ["send", mop[1], [max(offset + random.choice([-2, -1, 1, 2]), 0), value]]
        return mop

    return [replace(op, value={"mops": mops(op)}) if op.f == "txn" else op for op in ops]


RANDOM = st.integers(0, 1 << 32).map(Random)


@pytest.mark.slow
@STEADY
@given(histories(), RANDOM)
def test_against_the_reference(ops: list[Op], random: Random) -> None:
    ops = moved(ops, random)
    found = {(f.anomaly, f.op_index, f.key) for f in check(ops).findings}

    assert found == reference.writes(ops)


@pytest.mark.slow
def test_every_anomaly_occurs() -> None:
    seen: set[str] = set()

    @STEADY
    @given(histories(), RANDOM)
    def look(ops: list[Op], random: Random) -> None:
        seen.update(anomaly for anomaly, *_ in reference.writes(moved(ops, random)))

    look()
    assert seen == set(TXN_WRITES.anomalies)
