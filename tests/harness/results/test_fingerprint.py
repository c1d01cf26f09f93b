"""Fingerprints of verdicts."""

from __future__ import annotations

from staticfire.checkers.guarantees.anomaly_rules import RULES
from staticfire.checkers.guarantees.judgement import Judgement
from staticfire.checkers.guarantees.verdict import Finding, Verdict
from staticfire.checkers.verdicts.compose import RunVerdict
from staticfire.faults.model.fault import PlannedFault
from staticfire.harness.campaign.campaign import topology_of
from staticfire.harness.recording.nemesis import FaultRecord
from staticfire.harness.results.fingerprint import (
    CAUSES,
    Fingerprint,
    fingerprint_of,
    full_fingerprint,
)


def test_a_loss_and_its_consequences_are_one_cause() -> None:
    all_of_it = {"realtime_order", "lost", "acked_not_durable", "duplicated"}
    assert fingerprint_of(all_of_it) == fingerprint_of({"lost"}) == Fingerprint("loss", "lost")


def test_what_only_an_observer_sees_is_another_fingerprint() -> None:
    assert fingerprint_of({"acked_not_durable"}) != fingerprint_of({"lost"})


def test_an_anomaly_of_no_known_cause_is_a_cause_itself() -> None:
    assert fingerprint_of({"wrong_tag"}) == Fingerprint("wrong_tag", "wrong_tag")
    assert str(fingerprint_of({"wrong_tag"})) == "wrong_tag"
    assert fingerprint_of(set()) is None


def test_causes_are_made_of_anomalies_that_there_are() -> None:
    assert {name for names in CAUSES.values() for name in names} <= set(RULES)


def test_no_anomaly_is_of_two_causes() -> None:
    names = [name for names in CAUSES.values() for name in names]
    assert len(names) == len(set(names))


SHAPE = topology_of(1, (1, 1), 1, 1)


def finding(anomaly: str, time_ns: int, broker: str | None = "broker-a") -> Finding:
    return Finding(
        anomaly=anomaly,
        judgement=Judgement.VIOLATION,
        op_index=1,
        time_ns=time_ns,
        detail="",
        broker=broker,
    )


def record(kind: str, struck_ns: int, *targets: str, bitten: bool = True) -> FaultRecord:
    planned = PlannedFault(fault_id=struck_ns, kind=kind, at_s=0, duration_s=1, targets=targets)
    return FaultRecord(planned=planned, struck_ns=struck_ns, bitten=bitten)


def shown(found: Finding, *records: FaultRecord) -> str:
    counts = {found.anomaly: 1}
    judged = Verdict(checker="any", valid=False, counts=counts, findings=(found,))
    verdict = RunVerdict(
        valid=False,
        verdicts=(judged,),
        below_floors=(),
        not_applicable=(),
        faults_bitten=(),
        faults_not_bitten=(),
        counts={},
    )
    return str(full_fingerprint(verdict, records, SHAPE))


def test_the_last_fault_before_the_failure_and_the_role_of_its_node() -> None:
    faults = [record("kill", 5, "broker-a-0"), record("pause", 9, "broker-a-1")]
    assert shown(finding("wrong_route", 7), *faults) == "routes (wrong_route) after kill of leader"
    assert (
        shown(finding("wrong_route", 9), *faults) == "routes (wrong_route) after pause of follower"
    )
    assert shown(finding("wrong_route", 4), *faults) == "routes (wrong_route)"


def test_a_fault_that_did_not_bite_is_no_part_of_a_fingerprint() -> None:
    assert shown(finding("hot", 9), record("kill", 5, "ns-1", bitten=False)) == "hot"


def test_a_loss_follows_the_first_destruction_behind_the_acknowledgement() -> None:
    faults = [
        record("kill", 1, "broker-a-0"),
        record("pause", 6, "broker-a-0"),
        record("power-cut", 7, "broker-a-0"),
        record("power-cut", 6, "broker-b-0"),
    ]
    assert shown(finding("lost", 5), *faults) == "loss (lost) after power-cut of leader"
    assert shown(finding("lost", 5), *faults[:2]) == "loss (lost) after pause of leader"
    assert shown(finding("lost", 5), *faults[:1]) == "loss (lost) after kill of leader"


def test_the_role_of_several_nodes() -> None:
    cut = record("cluster-power-cut", 7, "ns-1", "broker-a-0", "broker-b-0")
    assert shown(finding("lost", 5), cut) == "loss (lost) after cluster-power-cut of leader"
    assert shown(finding("lost", 5, None), cut) == "loss (lost) after cluster-power-cut of cluster"


def test_a_loss_by_a_power_cut_is_no_loss_by_something_else() -> None:
    wanted = Fingerprint("loss", "lost", "power-cut", "leader")
    assert wanted.is_shown_by(wanted)
    assert wanted.is_shown_by(Fingerprint("loss", "lost"))
    assert not wanted.is_shown_by(Fingerprint("loss", "lost", "pause", "leader"))
    assert not wanted.is_shown_by(Fingerprint("loss", "unseen", "power-cut", "leader"))
    assert not wanted.is_shown_by(None)


def test_the_last_fault_before_another_failure_is_a_hint() -> None:
    wanted = Fingerprint("routes", "wrong_route", "kill", "leader")
    assert wanted.is_shown_by(Fingerprint("routes", "wrong_route", "pause", "follower"))
    assert not wanted.is_shown_by(Fingerprint("routes", "stale_route", "kill", "leader"))
