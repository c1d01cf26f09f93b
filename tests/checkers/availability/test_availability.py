"""Liveness after heal: probes and drains."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staticfire.checkers.availability.availability import LIVENESS
from staticfire.checkers.guarantees.facts import FaultFacts, RottenRecord
from staticfire.checkers.guarantees.verdict import Validity, Verdict
from staticfire.checkers.model.history import Op
from staticfire.checkers.verdicts.compose import check_run
from tests.support.history_language import facts, fault, history
from tests.support.one_checker import judged_by


def check_liveness(*ops: str, **changes: object) -> Verdict:
    return judged_by("liveness", history(*ops), [], facts(**changes))


@pytest.mark.parametrize(
    ("ops", "valid"),
    [
        (["9 ok probe b", "9 ok drain"], True),
        (["9 fail probe b", "9 ok drain"], False),
        (["9 info probe b", "9 ok drain"], False),
        (["9 fail probe b", "9 ok probe b", "9 ok drain"], True),  # it came back within the bound
        (["9 ok probe b", "9 fail probe b", "9 ok drain"], False),
        (["9 ok probe b", "9 info drain 0:9:5"], False),
        (["9 ok probe b", "9 info drain 0:9:5", "9 ok drain"], True),
        (["9 ok probe b"], "unknown"),
        (["9 ok drain"], "unknown"),
        (["9 invoke probe b", "9 ok drain"], "unknown"),
        (["9 ok probe c", "9 ok drain"], "unknown"),
    ],
)
def test_liveness(ops: list[str], valid: Validity) -> None:
    assert check_liveness(*ops).valid == valid


def test_a_broker_that_was_lost_for_good_need_not_serve() -> None:
    brokers = {"b": ("n0",), "c": ("n1",)}
    ops = ("9 ok probe b", "9 ok drain")

    assert check_liveness(*ops, replica_sets=brokers).reason == "broker c was never probed"
    assert check_liveness(*ops, replica_sets=brokers, living=("b",)).valid is True


def test_a_lag_that_stays_names_group_topic_and_count() -> None:
    [finding] = check_liveness("9 ok probe b", "9 info drain 0:9:5").findings

    assert (finding.group, finding.topic) == ("g", "t")
    assert finding.detail == "4 messages still unread when the bound was reached"


def test_a_drain_that_was_given_up_says_so() -> None:
    ops = history("9 fail probe b", "9 info drain 0:9:5")
    ops[-1].value["still_s"] = 45
    [verdict] = check_run(ops, [], facts(), [LIVENESS]).verdicts

    assert [finding.anomaly for finding in verdict.findings] == ["not_drained", "not_serving"]
    assert verdict.findings[0].detail == (
        "4 messages still unread when nothing had moved for 45 s; "
        "a broker served no sends, so the bound was not waited for"
    )


ROT = replace(
    fault("bit_rot", "n0", at_s=5, healed_s=6),
    records=(RottenRecord(key="a", start=0, end=100),),
)
GONE = replace(fault("disk_lost", "n0", at_s=10, healed_s=12), permanent=True)
WAITING = ("0:9:5",)


@pytest.mark.parametrize(
    ("faults", "found", "drained", "valid"),
    [
        ((ROT, GONE), ("a", 0, 5, False), WAITING, True),
        ((GONE,), ("a", 0, 5, False), WAITING, False),
        ((ROT,), ("a", 0, 5, False), WAITING, False),  # the replica answers, and the record is lost
        ((ROT, replace(GONE, permanent=False)), ("a", 0, 5, False), WAITING, False),
        ((ROT, replace(GONE, targets=("m0",))), ("a", 0, 5, False), WAITING, False),
        ((replace(ROT, targets=("m0",)), GONE), ("a", 0, 5, False), WAITING, False),
        ((replace(ROT, bitten_ns=None), GONE), ("a", 0, 5, False), WAITING, False),
        ((ROT, GONE), ("b", 0, 5, False), WAITING, False),  # another message
        ((ROT, GONE), ("a", 0, 6, False), WAITING, False),  # another place
        ((ROT, GONE), ("a", 1, 5, False), WAITING, False),
        ((ROT, GONE), ("a", 0, 5, True), WAITING, False),  # it can be read
        (
            (ROT, GONE),
            ("a", 0, 5, False),
            ("0:9:5", "1:9:5"),
            False,
        ),  # another queue has a lag, too
        ((ROT, GONE), ("a", 0, 5, False), ("0:9:5", "1:9:9"), True),
    ],
)
def test_a_group_may_wait_for_the_copy_of_a_replica_that_is_gone_for_good(
    faults: tuple[FaultFacts, ...],
    found: tuple[str, int, int, bool],
    drained: tuple[str, ...],
    valid: bool,
) -> None:
    key, queue, offset, in_queue = found
    reported = facts(faults=faults, replica_sets={"b": ("n0", "n1"), "c": ("m0",)}, living=("b",))
    ops = history("9 ok probe b", f"9 info drain {' '.join(drained)}")
    rows = [[key, queue, offset, in_queue, in_queue, in_queue]]
    value = {"topic": "t", "broker": "b", "node": "n1", "indexed": True, "messages": rows}
    asked = Op(index=len(ops), time_ns=1 << 40, process=999, type="ok", f="look_up", value=value)
    [verdict] = check_run([*ops, asked], [], reported, [LIVENESS]).verdicts

    assert verdict.valid is valid
    assert [finding.anomaly for finding in verdict.findings] == ["not_drained"]
