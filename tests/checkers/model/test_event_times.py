"""Event times: durations by the client's clock; its uncertainty counts in favour of the system under test."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staticfire.checkers.model.building.column_builder import build_columns
from staticfire.checkers.model.event_times import (
    began_earliest,
    began_latest,
    ended_earliest,
)
from staticfire.checkers.model.history import Op, Stamp
from staticfire.checkers.verdicts.compose import check_run
from tests.support.history_language import facts, history

MS, S = 1_000_000, 1_000_000_000
LEVELS_MS = (1000, 5000, 10_000, 30_000)
RETRIED = facts(
    mode="hardened", retries_max={"g": 16}, delay_levels_ms=LEVELS_MS, groups={"g": ("t",)}
)


def stamped(op: Op, at_ns: int, within_ns: int = 0) -> Op:
    return replace(op, stamp=Stamp(at_ns, within_ns))


def retried(came_s: float) -> list[Op]:
    """A listener fails at 5 s; level 3 is 10 s, and the retry is written down at `came_s`."""
    return history(
        "0 ok send a t=1",
        "1 invoke consume a t=4",
        "1 info consume a t=5",
        f"1 ok consume a@0:0~1 topic=%RETRY%g t={came_s}",
    )


def early(ops: list[Op]) -> bool:
    found = check_run(ops, [], RETRIED).findings()
    return any(finding.anomaly == "retry_early" for finding in found)


def test_a_failure_that_was_read_late_makes_no_early_retry() -> None:
    """The listener failed at 4.969 s, and the harness read it 31 ms later: the retry is in time."""
    ops = retried(came_s=14.975)
    assert early(ops)

    ops[2] = stamped(ops[2], 5 * S - 31 * MS, 100_000)
    assert not early(ops)


def test_a_client_without_stamps_has_the_stall_of_the_harness() -> None:
    ops = retried(came_s=14.975)
    ops[2] = stamped(ops[2], 5 * S - 31 * MS // 2, 31 * MS // 2)  # at some time in these 31 ms

    assert not early(ops)


@pytest.mark.parametrize(("came_s", "wrong"), [(14.9, True), (14.964, True), (14.972, False)])
def test_a_retry_that_is_early_by_the_clients_clock_is_found(came_s: float, wrong: bool) -> None:
    """It is due at 14.969 s, and brokers count whole milliseconds: 2 ms are allowed."""
    ops = retried(came_s=15.2)
    ops[2] = stamped(ops[2], 5 * S - 31 * MS, 100_000)
    ops[3] = stamped(ops[3], round(came_s * S), 100_000)  # and this one was read late, too

    assert early(ops) == wrong


def test_what_is_uncertain_widens_the_tolerance() -> None:
    for within_ns, found in ((0, True), (20 * MS, True), (30 * MS, False)):
        ops = retried(came_s=15.2)
        ops[2] = stamped(ops[2], 5 * S - 40 * MS, within_ns)
        ops[3] = stamped(ops[3], round(14.91 * S), within_ns)  # 50 ms early
        assert early(ops) == found


def test_a_delayed_message_is_early_by_the_clients_clock() -> None:
    for within_ns, found in ((0, True), (10 * MS, False)):
        ops = history("0 invoke send a t=1", "0 ok send a t=1.5", "1 ok consume a t=2.5")
        ops[:2] = [replace(op, value={**op.value, "delay_ms": 1000}) for op in ops[:2]]
        ops[2] = stamped(ops[2], 2 * S - 8 * MS, within_ns)
        anomalies = {finding.anomaly for finding in check_run(ops, [], RETRIED).findings()}
        assert ("early_delivery" in anomalies) == found


def test_an_event_happened_before_it_was_written_down() -> None:
    ops = history("1 invoke consume a t=4", "1 ok consume a t=5")
    ops[0], ops[1] = stamped(ops[0], 4 * S, 10), stamped(ops[1], 5 * S - 50, 20)
    deliveries = build_columns(ops)[0].deliveries

    assert (began_earliest(deliveries)[0], began_latest(deliveries)[0]) == (4 * S - 20, 4 * S)
    assert ended_earliest(deliveries)[0] == 5 * S - 70


def test_without_stamps_an_event_happened_when_it_was_written_down() -> None:
    deliveries = build_columns(history("1 invoke consume a t=4", "1 ok consume a t=5"))[
        0
    ].deliveries

    for began in (began_earliest, began_latest):
        assert began(deliveries)[0] == 4 * S
    assert ended_earliest(deliveries)[0] == 5 * S
