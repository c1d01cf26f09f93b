"""What the harness tells the checkers: every fault by the name under which the promises know it."""

from __future__ import annotations

from checkers.promises import DAMAGE_OF_FAULT, STRIKES_LATER, Damage
from faults.catalogue import FAULTS
from faults.fault import PlannedFault
from harness.campaign import Campaign
from harness.campaign_draw import draw_campaign
from harness.facts import run_facts
from harness.nemesis import FaultRecord

CAMPAIGN: Campaign = draw_campaign(1, {"slaves": (1, 1), "replication": "sync", "plan": ()})


def record(kind: str, *targets: str) -> FaultRecord:
    params = {"drop": [["broker-a-0", "broker-a-1"]]}  # of partitions
    planned = PlannedFault(
        fault_id=7, kind=kind, at_s=1.0, duration_s=1.0, targets=targets, params=params
    )
    return FaultRecord(planned=planned, fired_ns=5, struck_ns=6, healed_ns=9, bitten=True)


def kinds_told(names: list[str]) -> set[str]:
    facts = run_facts(CAMPAIGN, [record(name) for name in names], [])
    return {fault.kind for fault in facts.faults}


def test_the_promises_know_the_damage_of_every_destructive_fault() -> None:
    told = kinds_told([fault.name for fault in FAULTS.values() if fault.destructive])
    assert told == {kind for kind, damage in DAMAGE_OF_FAULT.items() if damage > Damage.PROCESS}


def test_the_promises_know_no_fault_that_is_not_there() -> None:
    assert set(DAMAGE_OF_FAULT) | STRIKES_LATER <= kinds_told(list(FAULTS))


def test_a_broker_whose_master_disk_is_lost_need_not_serve() -> None:
    facts = run_facts(CAMPAIGN, [record("disk-lost", "broker-a-0")], [])
    assert facts.living == ("broker-b",)
    assert [fault.permanent for fault in facts.faults] == [True]


def test_what_failed_says_why() -> None:
    failed = record("kill", "broker-a-0")
    failed.error = "KeyError: 'gone'"
    [fault] = run_facts(CAMPAIGN, [failed], []).faults
    assert (fault.fault_id, fault.error) == ("7", "KeyError: 'gone'")
