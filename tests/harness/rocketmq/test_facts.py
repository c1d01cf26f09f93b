"""Facts for the checkers: every fault has the name that the promises use."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticfire.checkers.guarantees.facts import AffectedTarget, QueuesConfirmed, RunFacts
from staticfire.checkers.guarantees.fault_effects import (
    AFFECTED_BY_KIND,
    DESTROYED_BY_KIND,
    STRIKES_BY_KIND,
)
from staticfire.checkers.guarantees.promises import Loss, LossPromises
from staticfire.checkers.model.history import NEMESIS, Op
from staticfire.faults.model.fault import PlannedFault
from staticfire.faults.plans.catalogue import FAULTS
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.recording.nemesis import FaultRecord
from staticfire.harness.rocketmq.facts import run_facts
from staticfire.harness.rocketmq.timings import timings_of
from staticfire.harness.workloads.groups import groups_of

CAMPAIGN: Campaign = draw_campaign(1, {"followers": (1, 1), "replication": "sync", "plan": ()})


def record(kind: str, *targets: str) -> FaultRecord:
    params = {"drop": [["broker-a-0", "broker-a-1"]]}  # of partitions
    planned = PlannedFault(
        fault_id=7, kind=kind, at_s=1.0, duration_s=1.0, targets=targets, params=params
    )
    return FaultRecord(planned=planned, fired_ns=5, struck_ns=6, healed_ns=9, bitten=True)


@pytest.mark.parametrize("name", FAULTS)
def test_facts_carry_what_a_fault_declares_and_older_runs_read_the_same(name: str) -> None:
    fault = FAULTS[name]
    planned = record(name, "broker-a-0")
    [reported] = run_facts(CAMPAIGN, [planned], []).faults
    assert (reported.effects, reported.damage) == (fault.affects, fault.destroys)
    assert reported.strikes_when == fault.strikes
    old = replace(reported, affects=None, destroys=None, strikes=None)
    assert (old.effects, old.damage) == (reported.effects, reported.damage)
    assert old.strikes_when == reported.strikes_when


@pytest.mark.parametrize(
    ("evidence", "streams"),
    [
        ({"masters_changed": 2}, ["broker-a", "broker-b"]),  # of an earlier version
        ({"masters_changed": 1}, []),  # nothing says which one
        ({"masters_changed": 1, "confirmed": [{"stream": "broker-b"}]}, ["broker-b"]),
        ({"masters_changed": 0, "confirmed": []}, []),
    ],
)
def test_leaders_that_confirmed_queues(evidence: dict[str, Any], streams: list[str]) -> None:
    of_one: dict[str, Any] = {"topic": "T", "queues": 6, "answered_ns": 9}
    confirmed = [{**of_one, **one} for one in evidence.get("confirmed", ())]
    asked = record("topic-change")
    asked.planned.params.update({"topic": "T", "queues": 6})
    asked.evidence = evidence | ({"confirmed": confirmed} if "confirmed" in evidence else {})
    [found] = run_facts(CAMPAIGN, [asked], []).faults

    assert found.confirmed == tuple(QueuesConfirmed(stream=of, **of_one) for of in streams)
    assert RunFacts.from_json(run_facts(CAMPAIGN, [asked], []).to_json()).faults == (found,)


def test_the_tables_for_older_runs_name_no_fault_that_is_not_there() -> None:
    kinds = {name.replace("-", "_") for name in FAULTS}
    assert DESTROYED_BY_KIND.keys() | STRIKES_BY_KIND.keys() <= kinds
    assert AFFECTED_BY_KIND.keys() - kinds == {"partition"}  # of histories from elsewhere


@pytest.mark.parametrize("name", ["kill", "group-and-broker-crash"])
def test_a_killed_broker_may_lose_what_its_pool_had_not_committed(name: str) -> None:
    facts = run_facts(CAMPAIGN, [record(name, "broker-a-0")], [])
    pooled = replace(facts, transient_pool=True, flush="async", replication="none")
    assert LossPromises(pooled).rule("broker-a", 0).loss is Loss.SUFFIX


def test_a_broker_whose_master_disk_is_lost_need_not_serve() -> None:
    facts = run_facts(CAMPAIGN, [record("disk-lost", "broker-a-0")], [])
    assert facts.living == ("broker-b",)
    assert [fault.permanent for fault in facts.faults] == [True]


def test_targets_are_struck_as_long_ago_as_the_evidence_says() -> None:
    rolled = record("rolling-restart", "b", "a")
    rolled.struck_ns = 100
    rolled.evidence = {
        "struck": [
            {"node": "ns", "began_ago_ns": 90},
            {"node": "b", "began_ago_ns": 80, "ended_ago_ns": 30},
        ]
    }
    [fault] = run_facts(CAMPAIGN, [rolled], []).faults
    assert fault.struck == (
        AffectedTarget(node="ns", start_ns=10),
        AffectedTarget(node="b", start_ns=20, end_ns=70),
    )


def test_a_target_may_be_struck_again_at_the_heal_and_in_another_way() -> None:
    split = record("split-name-servers", "b", "c")
    split.struck_ns, split.healed_ns = 100, 200
    split.evidence = {
        "struck": [{"node": "b", "began_ago_ns": 90, "affects": ["routes"]}],
        "struck_at_heal": [
            {"node": "b", "began_ago_ns": 30, "ended_ago_ns": 10, "affects": ["stops"]}
        ],
    }
    [fault] = run_facts(CAMPAIGN, [split], []).faults
    assert fault.struck == (
        AffectedTarget(node="b", start_ns=10, affects=("routes",)),
        AffectedTarget(node="b", start_ns=170, end_ns=190, affects=("stops",)),
    )


def test_what_failed_says_why() -> None:
    failed = record("kill", "broker-a-0")
    failed.error = "KeyError: 'gone'"
    [fault] = run_facts(CAMPAIGN, [failed], []).faults
    assert (fault.fault_id, fault.error) == ("7", "KeyError: 'gone'")


@pytest.mark.parametrize(
    ("option", "field", "value"),
    [
        ("longPollingEnable=false", "poll_s", 1.0),
        ("registerNameServerPeriod=60000", "register_s", 60.0),
        ("notifyConsumerIdsChangedEnable=false", "members_notified", False),
        ("slaveReadEnable=true", "poll_s", 0.0),
    ],
)
def test_of_an_option_that_changes_the_wider_timing_counts(
    option: str, field: str, value: object
) -> None:
    assert getattr(timings_of(replace(CAMPAIGN, plan=(changed(option),))), field) == value


def test_an_option_that_changes_to_a_shorter_timing_widens_nothing() -> None:
    properties = (("registerNameServerPeriod", "120000"),)
    change = changed("registerNameServerPeriod=60000")
    campaign = replace(CAMPAIGN, broker_properties=properties, plan=(change,))
    assert timings_of(campaign).register_s == 120.0


@pytest.mark.parametrize(
    ("mode", "policies", "write_back_s"),
    [
        ("hardened", (), 0.0),
        ("faithful", (), 35.0),
        ("faithful", ("metadata_file",), 35.0),
        ("faithful", ("visible_end",), 0.0),
    ],
)
def test_offsets_that_are_not_fsynced_are_with_the_page_cache_for_a_while(
    mode: str, policies: tuple[str, ...], write_back_s: float
) -> None:
    campaign = replace(CAMPAIGN, mode=mode, policies=policies)
    assert timings_of(campaign).write_back_s == write_back_s


def test_groups_beside_the_load_are_known_to_the_checkers() -> None:
    evidence = {"topic": "T-side-7", "groups": ["g-side-7", "g-side-7-again"]}
    started = Op(
        index=0,
        time_ns=1,
        process=NEMESIS,
        type="info",
        f="start_topic-anew",
        value={"fault_id": 7, "evidence": evidence},
    )
    facts = run_facts(CAMPAIGN, [], [started])
    groups = facts.groups
    assert facts.late_groups == ("g-side-7-again",)
    assert groups["g-side-7"] == groups["g-side-7-again"] == ("T-side-7",)
    assert set(groups) - set(run_facts(CAMPAIGN, [], []).groups) == set(evidence["groups"])


def opened(at_s: int, node: str, group: str, expression: str) -> Op:
    value = {"group": group, "topic": "T", "expression": expression}
    return Op(
        index=0, time_ns=at_s, process=1, type="ok", f="open", value=value, error=None, node=node
    )


def test_a_filter_has_changed_when_the_last_member_asks_anew() -> None:
    campaign = draw_campaign(1, {"workload": "filtered", "consumers": 4, "plan": ()})
    group, sql = "staticfire-group", "staticfire-group-sql"
    before = run_facts(campaign, [], [opened(1, "consumer-1", group, "red || Aa")])
    assert before.wanted_tags == {group: ("red", "Aa"), sql: ("green", "blue", "Aa")}
    assert before.filters_changed_ns == {}
    ops = [
        opened(1, "consumer-1", group, "red || Aa"),
        opened(5, "consumer-1", group, "green || Aa"),
        opened(7, "consumer-3", group, "green || Aa"),
        opened(9, "consumer-1", group, "green || Aa"),  # after a crash
    ]
    after = run_facts(campaign, [], ops)
    assert after.wanted_tags == {group: ("green", "Aa"), sql: ("green", "blue", "Aa")}
    assert after.wanted_before == {group: ("red", "Aa")}
    assert after.filters_changed_ns == {group: 7}
    assert type(after).from_json(after.to_json()) == after


def test_a_message_waits_for_an_fsync_of_every_file() -> None:
    campaign = replace(CAMPAIGN, queues=6, fsync_us=400_000, plan=())
    files = 6 + 18 + len(groups_of(campaign)) + 2 + 11 + 2
    assert timings_of(campaign).flush_wait_s == pytest.approx(files * 0.4)
    assert timings_of(campaign).flush_s == pytest.approx(1.0 + files * 0.4)
    assert timings_of(replace(campaign, environment="processes")).flush_wait_s == 0.0


HOUR_S = 3600.0
STEP = PlannedFault(
    fault_id=1,
    kind="clock-skew",
    at_s=1.0,
    duration_s=1.0,
    targets=("broker-a-0",),
    params={"step_ms": -1_800_000},
)
FULL_AT_0 = ("rocketmq.broker.diskSpaceCleanForciblyRatio", "0")
NEVER_FORCED = ("cleanFileForciblyEnable", "false")


@pytest.mark.parametrize(
    ("changes", "kept_s"),
    [
        ({}, 72 * HOUR_S),
        ({"broker_properties": (("fileReservedTime", "2"),)}, 2 * HOUR_S),
        ({"broker_properties": (("fileReservedTime", "2"),), "plan": (STEP,)}, 1.5 * HOUR_S),
        ({"broker_properties": (FULL_AT_0,)}, 0.0),
        ({"environment": "processes"}, 0.0),  # who knows what else is on these disks
        ({"environment": "processes", "broker_properties": (NEVER_FORCED,)}, 72 * HOUR_S),
        ({"environment": "address", "broker_properties": (NEVER_FORCED,)}, 0.0),
    ],
)
def test_how_long_brokers_keep_what_is_consumed(changes: dict[str, Any], kept_s: float) -> None:
    campaign = replace(CAMPAIGN, **{"broker_properties": (), **changes})
    assert run_facts(campaign, [], []).kept_s == kept_s


READS = (("accessMessageInMemoryMaxRatio", "0"), ("slaveReadEnable", "true"))


def changed(option: str) -> PlannedFault:
    return PlannedFault(
        fault_id=1,
        kind="options-change",
        at_s=1.0,
        duration_s=1.0,
        targets=(),
        params={"option": option},
    )


@pytest.mark.parametrize(
    ("properties", "options", "reads"),
    [
        ((), (), False),
        (READS, (), True),
        (READS[1:], (), False),
        (READS[1:], ("accessMessageInMemoryMaxRatio=0",), True),
        ((), ("slaveReadEnable=true", "accessMessageInMemoryMaxRatio=0"), True),
    ],
)
def test_members_read_from_followers_where_two_options_say_so(
    properties: tuple[tuple[str, str], ...], options: tuple[str, ...], reads: bool
) -> None:
    campaign = replace(CAMPAIGN, broker_properties=properties, plan=tuple(map(changed, options)))

    assert run_facts(campaign, [], []).follower_reads == reads
