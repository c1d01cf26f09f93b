"""Latency and lag by second: figures of planted histories, and the same from any cut."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.verdict import Verdict
from staticfire.checkers.measures.latency import LATENCY
from tests.support.chunked_kernels import check_chunks
from tests.support.history_language import fault, history
from tests.support.one_checker import read_ops

SLOW = (
    "0 invoke send a t=1",
    "0 ok send a t=1.002",
    "0 invoke send b t=1.5",
    "1 invoke consume a t=1.6",
    "0 ok send b t=3.5",
    "1 ok consume a t=3.6",
    "1 invoke consume b t=4",
    "1 ok consume b t=4.1",
    "2 invoke consume a t=5",
)


def context_of(*lines: str, **changes: Any) -> tuple[Any, Context]:
    return read_ops(history(*lines), **changes)


def check(*lines: str, **changes: Any) -> Verdict:
    return LATENCY.check(*context_of(*lines, **changes))


def of(verdict: Verdict, what: str) -> dict[int, tuple[int, int, int, int]]:
    return {
        row["second"]: (row["count"], row["p50"], row["p99"], row["max"])
        for row in verdict.series["seconds"]
        if row["what"] == what
    }


def test_sends_are_under_the_second_in_which_they_began() -> None:
    verdict = check(*SLOW)

    assert of(verdict, "send") == {1: (2, 2047, 2_000_000, 2_000_000)}
    assert verdict.counts["send_p50_us"] == 2047  # the end of the bucket of 2,000
    assert verdict.counts["send_max_us"] == 2_000_000
    assert verdict.valid is True


def test_lag_is_to_the_first_call_of_the_listener() -> None:
    lag = of(check(*SLOW), "lag g")

    assert {second: row[3] for second, row in lag.items()} == {1: 598_000, 3: 500_000}


def test_what_is_delivered_before_it_is_acknowledged_has_no_lag() -> None:
    lines = ("0 invoke send a t=1", "1 ok consume a@0:0 t=2", "0 ok send a@0:0 t=3")

    assert of(check(*lines), "lag g") == {3: (1, 0, 0, 0)}


@pytest.mark.parametrize(
    "delivered", ["1 ok consume b@0:0", "1 ok consume a@0:1", "1 ok consume a@1:0 queue=1"]
)
def test_another_message_or_place_is_no_delivery(delivered: str) -> None:
    assert of(check("0 ok send a", delivered), "lag g") == {}


def test_each_second_carries_its_faults() -> None:
    cut = fault("power_cut", "n0", at_s=0.5, healed_s=1.2)
    blunt = fault("kill", "n0", at_s=0.5, healed_s=9, bitten=False)
    verdict = check(*SLOW, faults=(cut, blunt))

    faults = {(row["what"], row["second"]): row["faults"] for row in verdict.series["seconds"]}
    assert faults == {
        ("send", 1): ["power_cut-0.5"],
        ("lag g", 1): ["power_cut-0.5"],
        ("lag g", 3): [],
    }


def test_sends_are_counted_by_how_they_ended() -> None:
    ended = check("0 ok send a t=1", "0 fail send b t=1.1", "0 info send c t=2", "0 invoke send d")

    assert ended.series["ended"] == [
        {"outcome": "failed", "second": 1, "sends": 1},
        {"outcome": "ok", "second": 1, "sends": 1},
        {"outcome": "unknown", "second": 2, "sends": 2},
    ]


def test_nothing_is_measured_of_nothing() -> None:
    assert check().counts == {}


def test_a_long_history_has_longer_slices() -> None:
    lines = ("0 ok send a t=1", "0 ok send b t=4999", "1 ok consume b t=4999.5")
    verdict = check(*lines)

    rows = [(row["what"], row["second"], row["seconds"]) for row in verdict.series["seconds"]]
    assert rows == [("lag g", 4996, 4), ("send", 0, 4), ("send", 4996, 4)]


def test_it_is_the_same_in_pieces() -> None:
    lines = (*SLOW, "0 ok send c queue=1 t=7", "1 ok consume c t=7.5", "0 info send e t=8")
    columns, context = context_of(*lines)

    assert check_chunks(LATENCY, columns, context, 3) == LATENCY.check(columns, context)
