"""The score of excuses: the share of a run that is reportable, reduced only by a fault's own time and queues."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.checkers.measures.reportable import below_floor, has_floor, reportable
from staticfire.checkers.verdicts.compose import check_run
from tests.checkers.white_box.test_replicas import ack
from tests.support.history_language import facts, fault, history
from tests.support.one_checker import read_ops

LINES = (
    "1 ok open node=c1 t=0",
    "2 ok open node=c2 t=0",
    "0 ok send a t=1",
    "1 ok assign 0 t=10",
    "2 ok assign 1 t=10",
    "9 ok drain t=110",
)


def shares(*faults: FaultFacts, lines: tuple[str, ...] = LINES, **changes: Any) -> dict[str, float]:
    _, context = read_ops(history(*lines), faults=faults, **changes)
    return reportable(context)


def late_share(*faults: FaultFacts, lines: tuple[str, ...] = LINES) -> float:
    return check_run(history(*lines), [], facts(faults=faults)).reportable["late_delivery"]


def test_a_fault_delays_nothing_while_messages_pass() -> None:
    pause = fault("pause", "n0", at_s=20, healed_s=40)
    passing = ("0 invoke send b t=28", "0 ok send b t=28", "1 ok consume b t=30")
    assert late_share(pause, lines=(*LINES[:-1], *passing, LINES[-1])) == 0.78  # 2 s of one queue


def test_without_faults_everything_can_be_reported() -> None:
    assert set(shares().values()) == {1.0}
    assert "two_listeners" not in shares()
    assert shares(orderly=("g",))["two_listeners"] == 1.0


def test_a_fault_takes_the_time_of_its_window() -> None:
    # 20 s of 100 s, and 3 s in which requests wait
    pause = fault("pause", "n0", at_s=20, healed_s=40)
    assert late_share(pause) == 0.77
    assert late_share(replace(pause, bitten_ns=None)) == 1.0
    assert late_share(replace(pause, targets=("n9",))) == 1.0


def test_a_fault_of_one_member_takes_its_queues_only() -> None:
    away = fault("slow_consumer", "c1", at_s=20, healed_s=54)
    assert late_share(away) == 0.815  # 37 of 100 s of one of two queues
    assert shares(away)["offset_forgotten"] == 1.0


def test_where_members_report_the_broker_that_answered_the_master_is_asked() -> None:
    kill = fault("kill", "n1", at_s=20, healed_s=24)
    pair: dict[str, Any] = {"replica_sets": {"b": ("n0", "n1")}}
    assert shares(kill, **pair)["offset_forgotten"] == 0.8
    reported = (*LINES[:-1], "1 ok begin 0 by=0 t=12", LINES[-1])
    assert shares(kill, lines=reported, **pair)["offset_forgotten"] == 1.0
    of_master = replace(kill, targets=("n0",))
    assert shares(of_master, lines=reported, **pair)["offset_forgotten"] == 0.85


def test_commits_that_the_master_took_are_excused_by_less() -> None:
    pair: dict[str, Any] = {"replica_sets": {"b": ("n0", "n1")}, "coordinators": ("ns-1",)}
    reported = (*LINES[:-1], "1 ok begin 0 by=0 t=12")
    pause = fault("pause", "n0", at_s=20, healed_s=24)  # excused are 11 of 100 s, for both owners
    assert shares(pause, lines=(*reported, LINES[-1]), **pair)["offset_forgotten"] == 0.89
    commits = ("1 ok commit_to 0 t=19", "1 ok commit_to 0 arrived=1 t=26", "1 ok commit_to 0 t=31")
    known = (*reported, *commits, LINES[-1])
    # What was consumed from 19 s to 26 s was sent at 26 s, and it is not known to have arrived.
    assert shares(pause, lines=known, **pair)["offset_forgotten"] == 0.89
    known = (*reported, *commits[:-1], "1 ok commit_to 0 arrived=1 t=31", LINES[-1])
    assert shares(pause, lines=known, **pair)["offset_forgotten"] == 0.925  # 7 s of one owner
    amnesia = fault("name_server_amnesia", "ns-1", at_s=20, healed_s=26)  # 6 s, and 60 s
    assert shares(amnesia, lines=(*reported, LINES[-1]), **pair)["offset_forgotten"] == 0.34
    sent = [f"1 ok commit_to 0 t={at_s}" for at_s in range(15, 105, 5)]
    assert shares(amnesia, lines=(*reported, *sent, LINES[-1]), **pair)["offset_forgotten"] == 0.67
    # A slave may forget what it was sent in the 10 s before, too.
    to_slave = [line.replace("_to 0", "_to 1") for line in sent]
    assert (
        shares(amnesia, lines=(*reported, *to_slave, LINES[-1]), **pair)["offset_forgotten"] == 0.29
    )


def test_a_verdict_says_it_and_is_unknown_below_the_floor() -> None:
    ever = fault("pause", "n0", at_s=0, healed_s=200)
    verdict = check_run(history(*LINES), [], facts(faults=(ever,)))
    assert verdict.reportable["late_delivery"] == 0.0
    by_name = {one.checker: one for one in verdict.verdicts}
    assert by_name["delays"].valid is True  # nothing was delayed
    assert by_name["groups"].valid == "unknown"
    assert (
        by_name["groups"].reason == "faults excuse nearly all of the run for queue_unowned (0.0%)"
    )
    assert below_floor(("late_delivery",), {"late_delivery": 0.5}) is None
    calm = check_run(history(*LINES), [], facts())
    assert type(calm).from_json(calm.to_json()).reportable == calm.reportable


def test_what_sets_an_owner_back_is_asked_of_settled_messages() -> None:
    pause = fault("pause", "n0", at_s=20, healed_s=40)
    pair: dict[str, Any] = {"replica_sets": {"b": ("n0", "n1")}}
    assert shares(pause, replication="sync", **pair)["commit_rewound"] == 1.0
    assert shares(pause, replication="async", **pair)["commit_rewound"] == 1.0
    three: dict[str, Any] = {"replica_sets": {"b": ("n0", "n1", "n2")}}
    assert shares(pause, replication="sync", **three)["commit_rewound"] == 1.0
    kill = fault(
        "kill", "n0", at_s=20, healed_s=40
    )  # what was sent before it may have been on one follower
    assert shares(kill, replication="sync", **three)["commit_rewound"] == 0.8
    reset = fault("offsets_reset", at_s=20, healed_s=21)
    assert shares(reset, replication="sync", **pair)["commit_rewound"] == 0.96


def test_a_weak_status_is_explained_until_the_broker_acknowledges_again() -> None:
    # of three statuses FLUSH_DISK_TIMEOUT is not excused at all, each of the others for 25 s of 100 s, or 10 s
    kill = fault("kill", "n0", at_s=20, healed_s=25)
    until_healed = (*LINES[:-1], "0 ok send b t=30", LINES[-1])
    for lines, share in ((LINES, 0.8333), (until_healed, 0.9333)):
        verdict = check_run(history(*lines), [], facts(faults=(kill,), disks_observed=True))
        assert verdict.reportable["spurious_weak_status"] == share


def test_no_slave_is_explained_until_one_has_reported_what_it_holds() -> None:
    kill = fault("kill", "n1", at_s=20, healed_s=25)
    weak = ("1 invoke send w t=26", "1 info send w error=SLAVE_NOT_AVAILABLE t=27")
    ops = history(*LINES[:-1], *weak, LINES[-1])
    known = facts(faults=(kill,), replica_sets={"b": ("n0", "n1")}, replication="sync")
    shares = [
        check_run(ops, [ack(durable=on, key="w")], known).reportable["spurious_weak_status"]
        for on in ("n0", "n0 n1")
    ]
    # each of the two statuses of slaves is excused for 25 s of 100 s; NOT_AVAILABLE only until 10 s after the answer
    assert shares == [0.8333, 0.86]


def test_a_floor_is_for_what_was_asked() -> None:
    assert has_floor("late_delivery", {"late": 3})
    assert not has_floor("late_delivery", {"late": 0})
    assert not has_floor("spurious_weak_status", {"weak": 5})
    assert has_floor("double_ownership", {})
