"""Copies of lost messages: each replica is searched; only a hazard that hides a slave's copy excuses the loss."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticfire.checkers.guarantees.verdict import Finding
from staticfire.checkers.model.history import Op
from staticfire.checkers.verdicts.compose import check_run
from tests.support.history_language import facts, fault, history

PAIR = {"b": ("n0", "n1")}
CUT = fault("power_cut", "n0", at_s=5, healed_s=8)
GONE = replace(fault("disk_lost", "n0", at_s=60, healed_s=63), permanent=True)


def look_up(
    ops: list[Op], node: str, *, in_queue: bool, key: str = "a", offset: int = 0
) -> list[Op]:
    """The history, and at its end the answer of a node."""
    value = {
        "topic": "t", "broker": "b", "node": node, "indexed": True,
        "messages": [[key, 0, offset, in_queue, in_queue, in_queue]],
    }  # fmt: skip
    last = ops[-1]
    op = replace(last, index=len(ops), process=9, type="ok", f="look_up", value=value, error=None)
    return [*ops, op]


def found(
    ops: list[Op],
    *observations: dict[str, Any],
    anomalies: tuple[str, ...] = ("lost",),
    **changes: Any,
) -> list[Finding]:
    known = facts(
        **{
            "flush": "async",
            "replication": "sync",
            "mode": "faithful",
            "replica_sets": PAIR,
            **changes,
        }
    )
    findings = check_run(ops, list(observations), known).findings()
    return [finding for finding in findings if finding.anomaly in anomalies]


LOST = history("0 ok send a t=1", "0 ok send z t=30", "1 ok consume z", "9 ok drain t=100")


def test_the_hazard_that_hides_the_copy_of_a_slave_is_named_and_excuses() -> None:
    ops = look_up(look_up(LOST, "n0", in_queue=False), "n1", in_queue=True)
    findings = found(ops, faults=(CUT,), anomalies=("lost", "lost_from_log"))

    assert {finding.anomaly: finding.judgement.value for finding in findings} == {
        "lost": "informational",
        "lost_from_log": "informational",
    }
    for finding in findings:
        assert "explained by replication.fetches_missing" in finding.detail
        assert finding.detail.endswith("n1 holds it in its queue")


def test_a_slave_that_never_had_the_copy_is_no_excuse() -> None:
    ops = look_up(look_up(LOST, "n0", in_queue=False), "n1", in_queue=False)
    findings = found(ops, faults=(CUT,), anomalies=("lost", "lost_from_log"))

    assert [finding.anomaly for finding in findings] == ["lost", "lost_from_log"]
    for finding in findings:
        assert finding.judgement.value == "violation"
        assert "explained by replication.believes_requests" in finding.detail


def test_a_slave_that_lost_its_copy_later_had_it() -> None:
    ops = look_up(look_up(LOST, "n0", in_queue=False), "n1", in_queue=False)
    wiped = fault("wiped_slave", "n1", at_s=70, healed_s=72)
    [finding] = found(ops, faults=(CUT, wiped))

    assert finding.judgement.value == "informational"
    assert "replication.fetches_missing" in finding.detail


def test_without_the_master_its_slave_serves_what_it_has() -> None:
    """The slave was up all the time and the master is gone for good: nothing hides the slave's copy."""
    ops = look_up(LOST, "n1", in_queue=False)
    [finding] = found(ops, faults=(CUT, GONE), living=())

    assert finding.judgement.value == "violation"
    assert "explained by replication.believes_requests" in finding.detail


def test_one_of_two_slaves_may_have_had_it() -> None:
    ops = look_up(look_up(LOST, "n0", in_queue=False), "n1", in_queue=False)
    [finding] = found(ops, faults=(CUT,), replica_sets={"b": ("n0", "n1", "n2")})

    assert finding.judgement.value == "informational"


@pytest.mark.parametrize(
    ("changes", "judgement"),
    [
        ({"policies": ("replication.fetches_missing",)}, "informational"),
        ({"policies": ("visible_end",)}, "violation"),
        ({"mode": "hardened"}, "violation"),
    ],
)
def test_a_hazard_excuses_only_where_brokers_have_it(
    changes: dict[str, Any], judgement: str
) -> None:
    [finding] = found(look_up(LOST, "n1", in_queue=True), faults=(CUT,), **changes)

    assert finding.judgement.value == judgement


@pytest.mark.parametrize("flush", ["sync", "async"])
def test_no_damage_explains_why_a_message_that_its_master_has_was_not_delivered(flush: str) -> None:
    ops = look_up(LOST, "n0", in_queue=True)
    cut = fault("cluster_power_cut", "n0", "n1", at_s=5, healed_s=8)
    [finding] = found(ops, faults=(cut,), flush=flush, mode="hardened")

    assert finding.judgement.value == "violation"
    assert finding.detail.endswith("n0 holds it in its queue")


def entries(node: str, count: int) -> dict[str, Any]:
    seen = {"rolled_queues": 0, "holes": 0, "hole_at": [], "wrong": 0, "wrong_at": [], "missing": 0}
    return {
        "kind": "queue_entries",
        "time_ns": 1,
        "broker_name": "b",
        "node": node,
        "entries": count,
        **seen,
    }


@pytest.mark.parametrize(("on_other", "says"), [(900, True), (2, False)])
def test_a_node_that_was_not_observed_may_hold_it(on_other: int, says: bool) -> None:
    """n1 serves for the lost master and lacks the message; n2 has more queue entries, and was not asked."""
    ops = look_up(LOST, "n1", in_queue=False)
    findings = found(
        ops,
        entries("n1", 2),
        entries("n2", on_other),
        anomalies=("lost", "lost_from_log"),
        faults=(GONE,),
        living=(),
        flush="sync",
        replica_sets={"b": ("n0", "n1", "n2")},
    )

    assert (
        [finding.anomaly for finding in findings] == ["lost"] if says else ["lost", "lost_from_log"]
    )
    assert all(finding.judgement.value == "violation" for finding in findings)
    text = "n1 has 2 queue entries, n2 has 900 and may hold it"
    assert findings[0].detail.endswith(text) is says


def test_what_another_slave_holds_has_not_vanished() -> None:
    """It was consumed while the master lived; the slave that serves now lacks it."""
    ops = history("0 ok send a t=1", "0 ok send z", "1 ok consume a z", "9 ok drain 0:2:2 t=100")
    only = look_up(look_up(ops, "n1", in_queue=False), "n2", in_queue=True)
    run = {"faults": (GONE,), "living": (), "replica_sets": {"b": ("n0", "n1", "n2")}}

    assert not found(only, anomalies=("lost_from_log",), **run)
    assert len(found(look_up(ops, "n1", in_queue=False), anomalies=("lost_from_log",), **run)) == 1
    assert len(found(only, anomalies=("lost_from_log",), **{**run, "living": None})) == 1
