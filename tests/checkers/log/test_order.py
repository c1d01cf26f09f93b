"""Order of sends and deliveries in a message queue."""

from __future__ import annotations

import pytest

from staticfire.checkers.guarantees.verdict import Verdict
from tests.support.history_language import fault
from tests.support.one_checker import verdict_on


def check_order(*ops: str, **changes: object) -> Verdict:
    return verdict_on(ops, "order", **changes)


def anomalies(verdict: Verdict) -> list[tuple[str, str | None]]:
    return [(finding.anomaly, finding.key) for finding in verdict.findings]


THREE = ("0 ok send a", "0 ok send b", "0 ok send c")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ops", "late"),
    [
        (["1 ok consume a b c"], []),
        (["1 ok consume a", "1 ok consume b c"], []),
        (["1 ok consume b", "1 ok consume a"], ["a"]),
        (["1 ok consume b a"], ["a"]),
        (["1 ok consume c", "1 ok consume a b"], ["a", "b"]),
        # 2, 1, 2 is not in order, although every message follows its predecessor somewhere
        (["1 ok consume b", "1 ok consume a", "1 ok consume b"], ["a"]),
        # going back over what was delivered before is a redelivery, not disorder
        (["1 ok consume a b", "1 ok consume a b c"], []),
        # a listener that failed was given its messages all the same
        (["1 info consume b", "1 ok consume a"], ["a"]),
        # the order of calls counts, not of returns
        (["1 invoke consume a", "1 invoke consume b", "1 ok consume b", "1 ok consume a"], []),
        # each owner for itself, and each time that it gained the queue
        (["1 ok consume b", "2 ok consume a"], []),
        (["1 ok consume b", "1 ok assign 0", "1 ok consume a"], []),
        (["1 ok assign 0", "1 ok consume b", "1 ok consume a"], ["a"]),
        (["1 ok assign 0", "1 ok consume b", "1 ok assign 0 1", "1 ok consume a"], ["a"]),
        (["1 ok assign 0", "1 ok consume b", "1 ok assign 0 topic=u", "1 ok consume a"], ["a"]),
        (["1 ok assign 0", "1 ok consume b", "1 ok assign 0 group=h", "1 ok consume a"], ["a"]),
        (
            ["1 ok assign 0", "1 ok consume b", "1 ok assign", "1 ok assign 0", "1 ok consume a"],
            [],
        ),
        # a gap is not disorder, and groups and queues have nothing to do with each other
        (["1 ok consume a", "1 ok consume c"], []),
        (["1 ok consume b", "1 ok consume a group=h"], []),
    ],
)
def test_deliveries(ops: list[str], late: list[str]) -> None:
    verdict = check_order(*THREE, *ops)

    assert anomalies(verdict) == [("out_of_order", key) for key in late]
    assert verdict.valid is not bool(late)


@pytest.mark.parametrize(
    ("ops", "found"),
    [
        (["0 ok send a", "0 ok send b"], []),
        (["0 ok send a@0:5", "0 ok send b@0:4"], [("nonmonotonic_send", "b")]),
        (["0 ok send a@0:5", "2 ok send b@0:4"], [("realtime_order", "b")]),
        (["0 ok send a@0:5", "0 ok send b@1:4"], []),
        # they overlap: either may come first
        (
            ["0 invoke send a", "2 invoke send b", "0 ok send a@0:5", "2 ok send b@0:4"],
            [],
        ),
        # the highest of all earlier offsets counts, not the last
        (
            ["0 ok send a@0:9", "0 ok send b@0:10", "0 ok send c@0:3", "0 ok send d@0:4"],
            [("nonmonotonic_send", "c"), ("nonmonotonic_send", "d")],
        ),
        # only SEND_OK says where the message is for good
        (["0 info send a@0:5 error=FLUSH_DISK_TIMEOUT", "0 ok send b@0:4"], []),
    ],
)
def test_sends(ops: list[str], found: list[tuple[str, str]]) -> None:
    assert anomalies(check_order(*ops)) == found


@pytest.mark.parametrize(
    ("ops", "conflict"),
    [
        (["0 ok send a@0:5", "1 ok consume a@0:5"], False),
        (["0 ok send a@0:5", "2 ok send b@0:5"], True),
        (["0 ok send a@0:5", "1 ok consume b@0:5"], True),
        (["1 ok consume a@0:5", "2 info consume b@0:5"], True),
        (["0 ok send a@0:5", "0 ok send b@1:5"], False),
        # an offset far from all others costs no memory
        (["0 ok send a@0:5", "0 ok send b@0:4611686018427387904 physical=1"], False),
        (
            [
                "0 ok send a@0:5",
                "0 ok send b@1:4611686018427387904 physical=1",
                "1 ok consume c@0:5",
            ],
            True,
        ),
    ],
)
def test_one_offset_holds_one_message(ops: list[str], conflict: bool) -> None:
    found = [name for name, _ in anomalies(check_order(*ops)) if name == "inconsistent_offsets"]

    assert found == (["inconsistent_offsets"] if conflict else [])


REUSED = ("0 ok send a@0:5 t=1", "0 ok send b@0:5 t=20")


@pytest.mark.parametrize(("flush", "valid"), [("async", True), ("sync", False)])
def test_a_lost_suffix_of_the_log_lets_its_offsets_be_used_again(flush: str, valid: bool) -> None:
    cut = fault("power_cut", "n0", at_s=5, healed_s=10)

    verdict = check_order(*REUSED, flush=flush, faults=(cut,))

    assert verdict.valid is valid
    assert {finding.anomaly for finding in verdict.findings} == {
        "inconsistent_offsets",
        "nonmonotonic_send",
    }


def test_damage_after_both_were_stored_explains_nothing() -> None:
    cut = fault("power_cut", "n0", at_s=30, healed_s=40)
    weak = ["0 info send a@0:5 error=FLUSH_DISK_TIMEOUT t=1", "0 ok send b@0:5 t=20"]
    read = ["1 ok consume a@0:5 t=1", "2 ok consume b@0:5 t=20 group=h"]

    assert check_order(*REUSED, flush="async", faults=(cut,)).valid is False
    assert check_order(*weak, flush="async", faults=(cut,)).valid is False
    assert check_order(*read, flush="async", faults=(cut,)).valid is False


def test_a_weakly_acknowledged_message_may_lose_its_offset_to_another() -> None:
    ops = ["0 info send a@0:5 error=FLUSH_DISK_TIMEOUT t=1", "0 ok send b@0:5 t=20"]
    cut = fault("power_cut", "n0", at_s=5, healed_s=10)

    assert check_order(*ops).valid is False
    assert check_order(*ops, faults=(cut,)).valid is True


def test_a_weakly_acknowledged_message_that_was_delivered_keeps_its_offset() -> None:
    ops = [
        "0 info send a@0:5 error=FLUSH_DISK_TIMEOUT t=1",
        "1 ok consume a",
        "0 ok send b@0:5 t=20",
    ]
    cut = fault("power_cut", "n0", at_s=5, healed_s=10)

    assert check_order(*ops, faults=(cut,)).valid is False
