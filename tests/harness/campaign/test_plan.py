"""Plans written by hand: an impossible plan is refused with one sentence, a drawn plan never is."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.faults.plans.catalogue import FAULTS
from staticfire.harness.campaign.campaign import Campaign, CampaignError
from staticfire.harness.campaign.file import read_options, typed_options
from staticfire.harness.campaign.plan import PLAN_MAX
from staticfire.harness.draws.campaign import draw_campaign

KILL = {"kind": "kill", "at_s": 1.0, "duration_s": 2.0, "targets": ["broker-a-0"]}
GIVEN = {"time_s": 10.0, "followers": (1,), "replication": "sync", "coordinators": 2}


def planned(*rows: Any) -> Campaign:
    return draw_campaign(1, {**GIVEN, **typed_options({"plan": list(rows)}, "the file")})


def refusal(*rows: Any) -> str:
    with pytest.raises(CampaignError) as caught:
        planned(*rows)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 600
    return text


@pytest.mark.slow
@pytest.mark.parametrize("time_s", [1.0, 5.0, 60.0])
@pytest.mark.parametrize("seed", range(20))
def test_a_drawn_plan_is_within_the_rules(seed: int, time_s: float) -> None:
    campaign = draw_campaign(seed, {"time_s": time_s, "faults": tuple(FAULTS)})
    options = read_options(campaign.to_toml(), "the file")
    assert draw_campaign(options.pop("seed"), options) == campaign


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"id": "1"}, "whole number"),
        ({"id": float("inf")}, "whole number"),
        ({"id": True}, "whole number"),
        ({"id": -1}, "0 to"),
        ({"id": 2**70}, "0 to"),
        ({"kind": 7}, "text"),
        ({"at_s": "1"}, "a number"),
        ({"at_s": 10.5}, "0 to 10 seconds, the time of the load"),
        ({"at_s": float("nan")}, "0 to 10 seconds"),
        ({"duration_s": -1}, "0 to 86400"),
        ({"targets": "broker-a-0"}, "a list of nodes"),
        ({"targets": [1]}, "text"),
        ({"targets": []}, "broker-a-1"),
        ({"targets": ["broker-a-0", "broker-a-1"]}, "broker-a-1"),
        ({"targets": ["producer-1"]}, "broker-a-1"),
        ({"targets": ["broker-z-0"]}, "broker-a-1"),
        ({"params": []}, "a table"),
        ({"after": []}, "a table"),
        ({"after": {"event": "lunch"}}, "event of fault 0 is 'lunch'"),
        ({"after": {"event": "sync", "node": "broker-z-0"}}, "broker-a-0"),
        ({"after": {"event": "ack", "key": "k", "delay_ms": float("nan")}}, "delay_ms of fault 0"),
        ({"params": {"force": 9}}, "exactly these: none"),
        ({"speed": 1}, "unknown entry 'speed'"),
        ({"kind": "name-server-freeze"}, "ns-1, ns-2"),
        ({"kind": "client-crash"}, "producer-1"),
        ({"kind": "slow-disk"}, "exactly these: factor"),
        ({"kind": "slow-disk", "params": {"factor": "2"}}, "a number from 1"),
        ({"kind": "disk-full", "params": {"free_bytes": True}}, "a whole number from 0"),
        ({"kind": "disk-full", "params": {"free_bytes": 0, "over_s": -1}}, "a number from 0"),
        ({"kind": "power-cut-in-operation"}, "sync or operation"),
        ({"kind": "wiped-slave"}, "one of broker-a-1"),
        ({"kind": "packet-loss", "params": {"percent": 101}}, "to 100"),
        ({"kind": "bandwidth", "params": {"bits_per_s": 1.5}}, "a whole number"),
        ({"kind": "broker-black-hole", "targets": ["ns-1"]}, "broker-a-1"),
        ({"kind": "rolling-restart", "targets": []}, "one or more, each once, of broker-a-0"),
        ({"kind": "rolling-restart", "targets": ["broker-a-0", "ns-1"]}, "one or more"),
        (
            {"kind": "name-server-freeze-in-rolling-restart", "targets": ["broker-a-0"]},
            "one of ns-1, ns-2 and one or more, each once, of broker-a-0",
        ),
        ({"kind": "name-server-freeze-in-rolling-restart", "targets": ["ns-1"]}, "one or more"),
        ({"kind": "power-cut", "targets": ["ns-1", "ns-1"]}, "each once"),
        ({"kind": "partition-one", "params": {"drop": [["ns-1"]]}}, "pairs of two nodes"),
        ({"kind": "partition-one", "params": {"drop": [["ns-1", [1]]]}}, "pairs of two nodes"),
        ({"kind": "partition-one", "params": {"drop": [["ns-1", "ns-9"]]}}, "pairs of two nodes"),
        ({"kind": "topic-change", "targets": [], "params": {"topic": "x", "queues": 5}}, "topic"),
    ],
)
def test_what_cannot_be_carried_out_is_refused(change: dict[str, Any], words: str) -> None:
    assert words in refusal({**KILL, **change})


def test_an_id_may_come_only_once() -> None:
    assert "each id once" in refusal({**KILL, "id": 3}, {**KILL, "id": 3, "at_s": 5.0})


def test_a_plan_may_hold_only_so_many_faults() -> None:
    assert str(PLAN_MAX) in refusal(*[KILL] * (PLAN_MAX + 1))


def test_a_name_server_and_brokers_are_the_targets_of_one_kind() -> None:
    targets = ["ns-2", "broker-a-1", "broker-a-0"]
    row = {**KILL, "kind": "name-server-freeze-in-rolling-restart", "targets": targets}
    assert planned(row).plan[0].targets == tuple(targets)


def test_an_old_plan_says_nothing_of_how_fast_a_disk_fills_up() -> None:
    old = {**KILL, "kind": "disk-full", "params": {"free_bytes": 0}}
    new = {**old, "params": {"free_bytes": 0, "over_s": 2}, "at_s": 5.0}
    assert len(planned(old, new).plan) == 2


def test_faults_may_overlap_and_take_no_time() -> None:
    campaign = planned(KILL, {**KILL, "kind": "power-cut"}, {**KILL, "duration_s": 0})
    assert [fault.fault_id for fault in campaign.plan] == [0, 1, 2]


def test_a_plan_of_real_machines_takes_no_event_of_a_disk() -> None:
    row = {**KILL, "after": {"event": "sync", "node": "broker-a-0"}}
    options = {**GIVEN, **typed_options({"plan": [row]}, "the file"), "environment": "processes"}
    with pytest.raises(CampaignError, match=r"event of .* is 'sync'; allowed: send, ack, delivery"):
        draw_campaign(1, options)
