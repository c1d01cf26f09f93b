"""Recovery times after each fault: until the first acknowledged send, and until a group has caught up."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.checkers.measures.recovery_times import RECOVERY_TIMES
from staticfire.checkers.model.history import Op
from tests.support.chunked_kernels import check_chunks
from tests.support.history_language import fault, history
from tests.support.one_checker import read_ops

CUT = fault("power_cut", "n0", at_s=1, healed_s=2)
LINES = (
    "0 ok send a t=0.5",
    "0 invoke send b t=1.5",
    "0 info send b t=1.9",
    "0 invoke send c t=1.95",
    "0 ok send c t=3.25",
    "1 ok consume a t=4.5",
)


def rows(
    *lines: str, faults: tuple[FaultFacts, ...] = (CUT,), chunks: int = 0, **changes: Any
) -> Any:
    columns, context = read_ops(history(*lines), faults=faults, **changes)
    if chunks:
        return check_chunks(RECOVERY_TIMES, columns, context, chunks).to_json()
    return RECOVERY_TIMES.check(columns, context).to_json()


def test_sends_and_lag_after_a_heal() -> None:
    verdict = rows(*LINES)

    assert verdict["series"]["faults"] == [
        {
            "fault_id": "power_cut-1",
            "kind": "power_cut",
            "sends_after_ms": 1250,
            "caught_up_after_ms": {"g": 2500},
        }
    ]
    assert verdict["counts"]["slowest_recovery_ms"] == 1250
    assert verdict["counts"]["slowest_catch_up_ms"] == 2500


def test_what_is_never_delivered_is_never_caught_up() -> None:
    assert rows(*LINES[:-1])["counts"]["never_caught_up"] == 1
    assert rows(*LINES[:-1], groups={})["counts"]["never_caught_up"] == 0


def test_another_broker_does_not_recover_for_the_one_that_was_struck() -> None:
    brokers = {"b": ("n0",), "c": ("n1",)}
    lines = (*LINES[:4], "0 ok send d broker=c t=2.1", "0 ok send c t=3.25")

    assert rows(*lines, replica_sets=brokers)["counts"]["slowest_recovery_ms"] == 1250
    elsewhere = fault("partition", "c1", at_s=1, healed_s=2)
    found = rows(*lines, replica_sets=brokers, faults=(elsewhere,))
    assert found["counts"]["slowest_recovery_ms"] == 100


def test_nothing_acknowledged_afterwards() -> None:
    verdict = rows("0 ok send a t=0.5", "1 ok consume a t=0.6")

    assert verdict["counts"]["never_recovered"] == 1
    assert verdict["series"]["faults"][0]["caught_up_after_ms"] == {"g": 0}


def test_a_fault_that_did_not_bite_or_heal_is_not_measured() -> None:
    blunt = fault("kill", "n0", at_s=1, healed_s=2, bitten=False)
    forever = fault("disk_lost", "n0", at_s=1, healed_s=None)

    verdict = rows(*LINES, faults=(blunt, forever))
    assert "series" not in verdict
    assert verdict["counts"] == dict.fromkeys(verdict["counts"], 0)


def test_it_is_the_same_in_pieces() -> None:
    lines = (*LINES, "0 ok send e queue=1 t=5", "1 ok consume e t=6")
    late = fault("partition", "n0", at_s=5.1, healed_s=5.2)

    assert rows(*lines, faults=(CUT, late), chunks=3) == rows(*lines, faults=(CUT, late))


@pytest.mark.parametrize(
    ("reported", "changes"),
    [
        ({"tag": "blue"}, {"wanted_tags": {"g": ("red",)}}),  # not asked for
        ({"delay_ms": 10_000}, {}),  # not due
    ],
)
def test_what_a_group_does_not_wait_for(reported: dict[str, Any], changes: dict[str, Any]) -> None:
    ops = history(*LINES[:-1])
    assert caught_up_ms(ops) is None
    ops[0].value.update(reported)
    assert caught_up_ms(ops, **changes) == 0


def test_what_was_kept_back_is_found_anywhere_in_its_queue() -> None:
    ops = history("0 ok send a t=0.5", "0 ok send b t=2.5", "1 ok consume a t=4.5")
    ops[0].value.update(transaction="commit", queue_offset=-1)
    assert caught_up_ms(ops) == 2500


def caught_up_ms(ops: list[Op], **changes: Any) -> Any:
    columns, context = read_ops(ops, faults=(CUT,), **changes)
    [row] = RECOVERY_TIMES.check(columns, context).series["faults"]
    return row["caught_up_after_ms"]["g"]
