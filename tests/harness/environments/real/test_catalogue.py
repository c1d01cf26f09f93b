"""Faults that an environment can inject, and the reasons given for the others."""

from __future__ import annotations

import pytest

from staticfire.faults.model.fault import PlannedFault
from staticfire.faults.plans.catalogue import FAULTS
from staticfire.harness.campaign.campaign import OneOf
from staticfire.harness.campaign.file import campaign_names, load_options
from staticfire.harness.cli import options
from staticfire.harness.cli.options import choose_faults
from staticfire.harness.cli.status import BadInput
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.environments.real.catalogue import PROVIDERS, make_provider, missing_faults
from staticfire.harness.machines.options import MachineOptions


def test_what_needs_a_lacking_capability_or_ability_is_missing_with_the_reason() -> None:
    missing = missing_faults({"network": "no root", "disk.power_cut_at": "not here"})
    assert missing["partition-one"] == "no root"
    assert missing["power-cut-in-operation"] == "not here"
    assert "power-cut" not in missing
    assert "kill" not in missing


@pytest.mark.parametrize("environment", [name for name in PROVIDERS if name != "address"])
def test_every_environment_can_kill_and_none_cuts_power_inside_an_operation(
    environment: str,
) -> None:
    missing = missing_faults(make_provider(environment, MachineOptions()).lacks)
    assert "power-cut-in-operation" in missing
    assert not {"kill", "graceful-stop", "pause", "client-crash", "topic-change"} & missing.keys()


def test_external_servers_are_not_stopped_and_their_disks_are_their_own() -> None:
    missing = missing_faults(make_provider("address", MachineOptions()).lacks)
    available = set(FAULTS) - set(missing)
    assert available == {
        "partition-halves",
        "partition-one",
        "partition-one-way",
        "partition-bridge",
        "network-latency",
        "bandwidth",
        "topic-change",
        "offsets-reset",
        "client-crash",
        "member-leaves",
        "slow-consumer",
        "failing-listener",
        "filter-change",
        "offsets-cloned",
    }
    assert "external" in missing["kill"]
    assert "between servers" in missing["partition-ring"]


def test_all_means_all_that_are_available() -> None:
    given = {"environment": "processes", "faults": ("all",)}
    missing = choose_faults(1, given, MachineOptions())
    assert set(given["faults"]) == set(FAULTS) - set(missing)
    assert "kill" in given["faults"]


def test_without_a_word_the_seed_draws_from_what_is_available() -> None:
    given = {"environment": "processes"}
    missing = choose_faults(1, given, MachineOptions())
    assert given["faults"]
    assert not set(given["faults"]) & set(missing)


@pytest.mark.parametrize("chosen", [{"faults": ()}, {"faults": ("kill",)}, {"plan": ()}])
def test_what_is_missing_is_not_listed_where_kinds_are_named(chosen: dict[str, object]) -> None:
    assert choose_faults(1, {"environment": "processes", **chosen}, MachineOptions()) == {}


def test_a_kind_that_is_named_and_missing_is_refused_with_the_reason() -> None:
    with pytest.raises(BadInput, match="power-cut is not available here: processes share the disk"):
        choose_faults(
            1, {"environment": "processes", "faults": ("kill", "power-cut")}, MachineOptions()
        )


def test_a_written_plan_that_needs_what_is_missing_is_refused_before_the_run() -> None:
    planned = PlannedFault(
        fault_id=1, kind="disk-full", at_s=1, duration_s=1, targets=("broker-a-0",)
    )
    with pytest.raises(BadInput, match="disk-full is not available here: processes share the disk"):
        choose_faults(1, {"environment": "processes", "plan": (planned,)}, MachineOptions())


def test_the_simulation_lacks_nothing() -> None:
    given: dict[str, object] = {"faults": ("all",)}
    assert choose_faults(1, given, MachineOptions()) == {}
    assert given["faults"] == tuple(FAULTS)


def test_of_choices_those_are_left_that_can_be_carried_out() -> None:
    choices = OneOf((("disk-full",), ("kill", "clock-skew"), ("kill", "pause"), ("all",)))
    given = {"environment": "processes", "faults": choices}
    missing = choose_faults(1, given, MachineOptions())
    every = tuple(kind for kind in FAULTS if kind not in missing)
    assert given["faults"] == OneOf((("kill", "pause"), every))


def test_policies_of_a_campaign_are_left_out_for_another_target() -> None:
    given = {"environment": "processes", "target": "apache", "policies": ("visible_end",)}
    missing = choose_faults(1, given, MachineOptions())
    assert "policies" not in given
    assert "only our own brokers" in missing["policy visible_end"]


def test_our_own_brokers_keep_the_policies_of_a_campaign() -> None:
    given = {"environment": "processes", "policies": ("visible_end",)}
    missing = choose_faults(1, given, MachineOptions())
    assert given["policies"] == ("visible_end",)
    assert "policy visible_end" not in missing


SIMULATED = {"index", "transient-store-pool"}  # they cut the power inside an operation


@pytest.mark.parametrize("name", campaign_names())
def test_named_campaigns_are_for_rocketmq_too_or_say_why_not(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = {"power-cut-in-operation": "only the simulation can"}
    monkeypatch.setattr(options, "missing_in", lambda *_, **__: lacking)
    given = {**load_options(name), "target": "apache", "environment": "namespaces"}
    if name in SIMULATED:
        with pytest.raises(BadInput, match=r"power-cut-in-operation is .* only the simulation can"):
            choose_faults(1, given, MachineOptions())
        return
    choose_faults(1, given, MachineOptions())
    assert draw_campaign(1, given).target == "apache"
