"""Campaigns: drawn from a seed, written as TOML, refused with one sentence."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from staticfire.faults.model.draws import pick
from staticfire.faults.plans.catalogue import FAULTS
from staticfire.harness.campaign.campaign import AVERAGELY, STRATEGIES, Campaign, CampaignError
from staticfire.harness.campaign.file import campaign_names, load_options, read_options
from staticfire.harness.clients.consumer_kinds import CONSUMER_KINDS, LITE_PULL_ASSIGN, PUSH
from staticfire.harness.draws.campaign import GROUP_RESTART, draw_campaign, draw_faults
from staticfire.harness.environments.simulated.environment import SimulationEnvironment
from staticfire.harness.generators.illegal_sends import NO_NEW_TOPICS
from staticfire.harness.recording.recorder import Recorder
from staticfire.harness.rocketmq.draws import SIMULATED_HOSTS
from staticfire.harness.rocketmq.facts import run_facts
from staticfire.harness.simulation.hosts.world import World
from staticfire.harness.targets.consumer_options import consumer_options
from staticfire.harness.targets.own_cluster import OwnCluster, check_properties
from staticfire.harness.workloads.catalogue import WORKLOADS
from staticfire.system_under_test.client.consumer.rebalance import allocation
from staticfire.system_under_test.configuration.mode import Mode
from staticfire.system_under_test.remoting.allowed_hosts import AllowedHosts


@cache
def drawn_freely(seed: int) -> Campaign:
    """The campaign of a seed without options. Several tests count over the same seeds."""
    return draw_campaign(seed, {})


@cache
def drawn_by_default(seed: int) -> Campaign:
    return draw_campaign(seed, load_options("default"))


def test_a_seed_gives_one_campaign() -> None:
    assert draw_campaign(7, {}) == draw_campaign(7, {})
    assert draw_campaign(7, {}) != draw_campaign(8, {})


def test_giving_one_option_leaves_the_independent_ones() -> None:
    drawn, given = draw_campaign(7, {}), draw_campaign(7, {"payload_bytes": (100, 200)})
    assert given.payload_bytes == (100, 200)
    assert (given.followers, given.fsync_us, given.faults) == (
        drawn.followers,
        drawn.fsync_us,
        drawn.faults,
    )


@pytest.mark.parametrize("seed", range(20))
def test_a_campaign_survives_being_written_down(seed: int) -> None:
    campaign = draw_campaign(seed, {})
    options = read_options(campaign.to_toml(), "the file")
    assert draw_campaign(options.pop("seed"), options) == campaign


def test_properties_of_nodes_survive_being_written_down() -> None:
    given = read_options(
        "[campaign.broker_properties]\nslaveTimeout = 500\nlongPollingEnable = false\nregionId = 'r'",
        "the file",
    )
    expected = (("longPollingEnable", "false"), ("regionId", "r"), ("slaveTimeout", "500"))
    assert given == {"broker_properties": expected}
    campaign = draw_campaign(1, given)
    options = read_options(campaign.to_toml(), "the file")
    assert draw_campaign(options.pop("seed"), options) == campaign
    node = campaign.topology().replicas[0]
    cluster = OwnCluster(campaign, defaultdict(lambda: "10.0.0.1"))
    config = cluster.broker_config(node, ["ns-1"])
    assert (config.long_polling, config.region_id, config.slave_timeout_s) == (False, "r", 0.5)


@pytest.mark.parametrize("mode", list(Mode))
def test_the_mode_is_that_of_every_server_and_of_the_promises(mode: Mode) -> None:
    campaign = draw_campaign(1, {"mode": mode.value})
    options = read_options(campaign.to_toml(), "the file")
    assert draw_campaign(options.pop("seed"), options) == campaign
    cluster = OwnCluster(campaign, defaultdict(lambda: "10.0.0.1"))
    brokers = [cluster.broker_config(node, ["ns-1"]).mode for node in campaign.topology().replicas]
    assert {cluster.name_server_config("ns-1").mode, *brokers} == {mode}
    assert run_facts(campaign, [], []).mode == mode.value


def test_faithful_policies_that_are_chosen_reach_the_nodes_that_have_them() -> None:
    options = read_options('[campaign]\nmode = "faithful"\npolicies = ["visible_end"]', "the file")
    campaign = draw_campaign(1, options)
    written = read_options(campaign.to_toml(), "the file")
    assert draw_campaign(written.pop("seed"), written) == campaign
    cluster = OwnCluster(campaign, defaultdict(lambda: "10.0.0.1"))
    broker = cluster.broker_config(campaign.topology().replicas[0], ["ns-1"])
    assert (broker.mode, broker.faithful_policies) == (Mode.FAITHFUL, ("visible_end",))
    assert cluster.name_server_config("ns-1").mode is Mode.HARDENED


def test_policies_of_name_servers_have_a_name_in_front() -> None:
    given = {"mode": "faithful", "policies": ("name_server.leaves",)}
    campaign = draw_campaign(1, given)
    check_properties(campaign)
    cluster = OwnCluster(campaign, defaultdict(lambda: "10.0.0.1"))
    assert cluster.name_server_config("ns-1").faithful_policies == ("leaves",)
    assert cluster.broker_config(campaign.topology().replicas[0], ["ns-1"]).mode is Mode.HARDENED


def test_no_seed_draws_the_faithful_mode() -> None:
    assert {drawn_freely(seed).mode for seed in range(50)} == {"hardened"}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"workload": "quue"}, "quue"),
        ({"flush": "maybe"}, "maybe"),
        ({"replication": "none", "followers": (1,)}, "slaves"),
        ({"replication": "sync", "followers": (0,)}, "slaves"),
        ({"faults": ("kil",)}, "kil"),
        ({"time_s": 0.0}, "time"),
        ({"time_s": 1e9}, "time"),
        ({"followers": ()}, "masters"),
        ({"payload_bytes": (500, 100)}, "payload_bytes"),
        ({"log_file_bytes": 100}, "log_file_bytes"),
        ({"speed": 1}, "speed"),
        ({"mode": "brave"}, "mode"),
        ({"acks_min": -1}, "acks_min"),
        ({"workload": "queue", "consumers": 3, "forwarding": (1, 1)}, "forwarding is"),
        ({"workload": "bulk", "consumers": 3, "forwarding": (2, 2)}, "3 consumers in all"),
        ({"workload": "bulk", "consumers": 3, "forwarding": (2, 0)}, "forwarding is"),
        ({"workload": "bulk", "consumers": 3, "forwarding": (-1, 1)}, "forwarding is"),
    ],
)
def test_what_is_not_allowed_is_named(given: dict[str, Any], named: str) -> None:
    with pytest.raises(CampaignError, match=named):
        draw_campaign(1, given)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"broker_properties": (("brokerName", "b"),)}, "brokerName"),
        ({"broker_properties": (("slaveTimeout", "soon"),)}, "slaveTimeout=soon"),
        ({"broker_properties": (("mode", "faithful"),)}, "mode"),
        ({"coordinator_properties": (("speed", "1"),)}, "speed"),
        ({"policies": ("leaves",)}, r"policies hold 'leaves'; there are: visible_end, .*leaves"),
    ],
)
def test_a_property_that_no_node_can_have_is_named(given: dict[str, Any], named: str) -> None:
    with pytest.raises(CampaignError, match=named):
        check_properties(draw_campaign(1, given))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[campaign",
        "campaign = 1",
        "[campaign]\ntime_s = 'long'",
        "[campaign]\nslaves = 1",
        "[campaign]\nslaves = ['a']",
        "[campaign]\nslaves = [1.5]",
        "[campaign]\nfaults = [1]",
        "[campaign]\nlatency_ms = [1]",
        "[campaign]\nno_such = 1",
        "[campaign]\nplan = [{kind = 'kill'}]",
        "[campaign]\nplan = 'kill'",
        "[campaign]\ntime_s = true",
        "[campaign]\n[one_of]\nflush = ['sync']",
    ],
)
def test_a_damaged_file_is_one_error(text: str) -> None:
    with pytest.raises(CampaignError) as caught:
        read_options(text, "bad.toml")
    assert "bad.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_plan_for_other_nodes_is_refused() -> None:
    plan = draw_campaign(
        1, {"followers": (1, 1, 1), "replication": "sync", "faults": ("kill",)}
    ).plan
    with pytest.raises(CampaignError, match="target"):
        draw_campaign(
            1, {"followers": (1,), "replication": "sync", "plan": _aimed_at(plan, "broker-c-0")}
        )


def _aimed_at(plan: Any, node: str) -> Any:
    from dataclasses import replace

    return tuple(replace(planned, targets=(node,)) for planned in plan)


def test_named_campaigns_can_be_drawn() -> None:
    assert "default" in campaign_names()
    for name in campaign_names():
        assert isinstance(draw_campaign(1, load_options(name)), Campaign)


def test_the_default_campaign_is_two_synchronous_pairs() -> None:
    campaign = draw_campaign(5, load_options("default"))
    assert (campaign.coordinators, campaign.followers) == (2, (1, 1))
    assert (campaign.flush, campaign.replication, campaign.time_s) == ("sync", "sync", 60.0)
    assert len({planned.kind for planned in campaign.plan}) >= 5


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match="nowhere"):
        load_options(str(tmp_path / "nowhere.toml"))


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CampaignError, match="UTF-8"):
        load_options(str(tmp_path / "binary.toml"))


def test_former_names_of_options_are_read_and_their_random_streams_stay() -> None:
    text = """[campaign]
slaves = [1]
name_server_properties = {regionId = "r"}
[campaign.choices]
name_servers = [1, 2, 3]
"""
    given = read_options(text, "old.toml")
    assert given["followers"] == (1,)
    assert given["coordinator_properties"] == (("regionId", "r"),)
    picked = [draw_campaign(seed, {"coordinators": given["coordinators"]}) for seed in range(5)]
    streams = [Random(f"staticfire/{seed}/name_servers") for seed in range(5)]
    assert [one.coordinators for one in picked] == [pick(one, (1, 2, 3)) for one in streams]


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ('slaves = "x"', "old.toml: slaves is 'x'; allowed: a list"),
        ('name_servers = "x"', "old.toml: name_servers is or holds 'x'; allowed: a whole number"),
        ("name_server_properties = 1", "old.toml: name_server_properties is 1; allowed: a table"),
        ("choices = {slaves = [2]}", "old.toml: slaves is 2; allowed: a list"),
        ("choices = {slaves = []}", "old.toml: choices of slaves are []; allowed: a list"),
    ],
)
def test_a_refusal_names_the_option_as_the_file_does(text: str, refusal: str) -> None:
    with pytest.raises(CampaignError, match=re.escape(refusal)):
        read_options(f"[campaign]\n{text}", "old.toml")


@pytest.mark.parametrize("table", ["[campaign]", "[campaign.choices]"])
def test_both_names_of_an_option_are_refused(table: str) -> None:
    text = f"[campaign]\n{table if 'choices' in table else ''}\nslaves = [1]\nfollowers = [1]\n"
    with pytest.raises(CampaignError, match=r"old.toml: slaves and followers are one option"):
        read_options(text, "old.toml")


def test_the_seed_picks_from_choices_and_the_command_line_wins() -> None:
    options = load_options("several-slaves")
    drawn = {draw_campaign(seed, options).followers for seed in range(20)}
    assert drawn == {(2,), (3,)}
    assert draw_campaign(1, {**options, "followers": (1,)}).followers == (1,)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("choices = 1", "choices is 1; allowed: a table"),
        ("choices = {followers = []}", "choices of followers are []; allowed: a list of values"),
        ("choices = {followers = [2]}", "followers is 2; allowed: a list"),
        ("choices = {speed = [2]}", "unknown option 'speed'"),
    ],
)
def test_choices_that_are_none(text: str, refusal: str) -> None:
    with pytest.raises(CampaignError, match=re.escape(refusal)):
        read_options(f"[campaign]\n{text}", "the file")


def test_options_of_brokers_are_drawn_in_about_half_of_the_swarm_and_can_be_used() -> None:
    swarm = [drawn_freely(seed) for seed in range(200)]
    assert (
        60
        < sum(bool(set(campaign.broker_properties) - {NO_NEW_TOPICS}) for campaign in swarm)
        < 140
    )
    for campaign in swarm:
        check_properties(campaign)


@pytest.mark.parametrize("environment", ["simulation", "processes"])
@pytest.mark.parametrize("acl", [True, False])
def test_servers_with_access_control_list_their_peers_in_the_simulation(
    environment: str, acl: bool
) -> None:
    drawn = draw_campaign(1, {"acl": acl, "environment": environment, "faults": ()})
    is_closed = acl and environment == "simulation"
    assert (("haAllowedAddresses", SIMULATED_HOSTS) in drawn.broker_properties) == is_closed
    assert {name for name, _ in drawn.coordinator_properties} == (
        {"registerAllowedAddresses", "registerAllowedClusters"} if is_closed else set()
    )


def test_every_node_of_the_simulation_is_in_the_list() -> None:
    campaign = draw_campaign(1, {"consumers": 64, "producers": 64})
    given: dict[str, str] = {}
    SimulationEnvironment(
        campaign,
        World(1),
        Recorder(lambda: 0),
        lambda addresses: cast(Any, given.update(addresses)),
    )
    assert len(given) > 128
    assert all(map(AllowedHosts([SIMULATED_HOSTS]).allows, given.values()))


def test_a_bound_on_gaps_keeps_the_load_plain() -> None:
    for seed in range(20):
        bounded = draw_campaign(seed, {"gap_max_s": 3.0})
        assert (bounded.batch_share, bounded.one_way_share, bounded.large_share) == (0, 0, 0)
        assert bounded.illegal_share == 0


def test_some_seeds_have_one_kind_of_fault_and_a_quiet_end() -> None:
    drawn = [drawn_by_default(seed) for seed in range(200)]
    quiet = [campaign for campaign in drawn if campaign.quiet_s]
    assert 4 <= len(quiet) <= 18
    for campaign in quiet:
        assert (campaign.quiet_s, campaign.load_s) == (60.0, 120.0 + campaign.idle[1])
        assert len({planned.kind for planned in campaign.plan}) == 1
        assert all(planned.until_s <= campaign.load_s - 60.0 for planned in campaign.plan)
        assert 22 < 2 * 1000 * campaign.producers / campaign.think_ms < 50  # sends a second
    assert len({campaign.faults for campaign in quiet}) > 3


@pytest.mark.parametrize(
    "given",
    [{"time_s": 20.0}, {"faults": ()}, {"gap_max_s": 3.0}, {"plan": ()}, {"quiet_s": 0.0}],
)
def test_no_quiet_end_where_the_load_is_short_or_its_faults_are_given(
    given: dict[str, Any],
) -> None:
    assert not any(draw_campaign(seed, given).quiet_s for seed in range(40))


def test_a_quiet_end_that_is_given_leaves_the_kinds_as_they_are() -> None:
    given = {"faults": ("kill", "pause"), "quiet_s": 70.0}
    assert draw_campaign(1, given).faults == ("kill", "pause")
    with pytest.raises(CampaignError, match="quiet_s is -1; allowed: 0 to 86400 seconds"):
        draw_campaign(1, {"quiet_s": -1})


@pytest.mark.slow
def test_some_seeds_are_idle_for_minutes_and_faults_wait_for_the_load() -> None:
    drawn = [drawn_by_default(seed) for seed in range(200)]
    idle = [campaign for campaign in drawn if campaign.idle[1]]
    assert 10 <= len(idle) <= 30
    for campaign in idle:
        at_s, idle_s = campaign.idle
        assert 10 <= at_s <= 50
        assert 130 <= idle_s <= 190
        assert campaign.load_s == 60.0 + idle_s + campaign.quiet_s
        busy = draw_campaign(campaign.seed, {**load_options("default"), "idle": (0.0, 0.0)})
        shifts = [
            round(late.at_s - early.at_s, 3)
            for late, early in zip(campaign.plan, busy.plan, strict=True)
        ]
        wanted = [idle_s if planned.at_s >= at_s else 0.0 for planned in busy.plan]
        assert shifts == wanted
    assert not any(draw_campaign(seed, {"time_s": 20.0}).idle[1] for seed in range(40))


def test_an_idle_phase_begins_within_the_load() -> None:
    text = "[campaign]\ntime_s = 30.0\nidle = [40.0, 100.0]"
    with pytest.raises(CampaignError, match=r"idle is \(40.0, 100.0\); allowed: 0 to 30 seconds"):
        draw_campaign(1, read_options(text, "the file"))


def test_some_seeds_crash_a_whole_group_with_its_broker_in_place_of_another_kind() -> None:
    drawn = [draw_faults(seed, tuple(FAULTS)) for seed in range(200)]
    crashed = [kinds for kinds in drawn if GROUP_RESTART in kinds]
    assert 10 <= len(crashed) <= 30
    assert all(kinds.count(GROUP_RESTART) == 1 and len(kinds) >= 7 for kinds in crashed)
    without = tuple(kind for kind in FAULTS if kind != GROUP_RESTART)
    assert not any(GROUP_RESTART in draw_faults(seed, without) for seed in range(200))


def test_large_bodies_only_where_a_log_file_holds_some() -> None:
    drawn = {draw_campaign(seed, {"log_file_bytes": 65536}).large_share for seed in range(40)}
    assert drawn == {0.0, 0.05, 0.15}
    drawn = {draw_campaign(seed, {"log_file_bytes": 16384}).large_share for seed in range(40)}
    assert drawn == {0.0}
    with pytest.raises(CampaignError, match="log_file_bytes is 8192; allowed: 4096"):
        draw_campaign(1, {"log_file_bytes": 8192, "large_share": 0.1})
    with pytest.raises(CampaignError, match="large_share is 2; allowed: 0 to 1"):
        draw_campaign(1, {"large_share": 2})


def test_brokers_make_no_topics_where_some_sends_must_be_refused() -> None:
    drawn = [drawn_freely(seed) for seed in range(40)]
    assert {campaign.illegal_share for campaign in drawn} == {0.0, 0.01, 0.03}
    for campaign in drawn:
        properties = dict(campaign.broker_properties)
        makes = properties.get("autoCreateTopicEnable", "true") == "true"
        assert makes is (campaign.illegal_share == 0.0)
    given = {"illegal_share": 0.01, "auto_topic": True}
    assert ("autoCreateTopicEnable", "false") not in draw_campaign(1, given).broker_properties


def test_the_cpp_client_sends_no_batches_and_needs_real_machines() -> None:
    given = {"client": "cpp", "environment": "processes"}
    shares = [draw_campaign(seed, given).batch_share for seed in range(20)]
    assert shares == [0.0] * 20
    with pytest.raises(CampaignError, match="environment is 'simulation'; allowed: processes"):
        draw_campaign(1, {"client": "cpp"})
    with pytest.raises(CampaignError, match=r"batch_share is 0\.1; allowed: 0"):
        draw_campaign(1, {**given, "batch_share": 0.1})


def test_a_client_that_is_a_command_is_asked_for_what_any_client_can() -> None:
    given = {"client": "node my.js", "environment": "processes"}
    for seed in range(20):
        drawn = draw_campaign(seed, given)
        assert (drawn.batch_share, drawn.async_share, drawn.illegal_share) == (0.0, 0.0, 0.0)
        assert (drawn.strategy, drawn.consumer_kind, drawn.acl) == ("AVG", "push", False)
    assert (
        draw_campaign(1, {**given, "batch_share": 0.1}).batch_share == 0.1
    )  # it is for the user to say


@pytest.mark.parametrize(
    ("client", "words"),
    [
        ("java", "environment is 'simulation'; allowed: processes, namespaces, address, as the"),
        ("java", "client 'java' is a command and not own or cpp"),
        ("", "client is '': it is empty; allowed: own, cpp or a command"),
        ("node 'my.js", "No closing quotation; allowed: own, cpp or a command"),
        ("a\nb", "it holds a control character"),
    ],
)
def test_what_no_client_is(client: str, words: str) -> None:
    with pytest.raises(CampaignError, match=words):
        draw_campaign(1, {"client": client})


def test_members_share_out_queues_in_several_ways() -> None:
    assert set(STRATEGIES) == set(allocation.STRATEGIES)
    drawn = [drawn_freely(seed).strategy for seed in range(60)]
    assert set(drawn) == set(STRATEGIES)
    assert drawn.count(AVERAGELY) > 30


@pytest.mark.parametrize("given", [{"gap_max_s": 5.0}, {"plan": ()}])
def test_members_share_out_averagely_where_a_bound_or_a_plan_is_given(
    given: dict[str, Any],
) -> None:
    assert {draw_campaign(seed, given).strategy for seed in range(40)} == {AVERAGELY}


def test_consumers_get_the_strategy_of_the_campaign() -> None:
    campaign = draw_campaign(1, {"strategy": "CONSISTENT_HASH"})
    reported = WORKLOADS[campaign.workload].members(campaign)
    assert {consumer_options(one, "/c")["strategy"] for one in reported} == {"CONSISTENT_HASH"}


def test_a_strategy_that_there_is_not_is_named() -> None:
    with pytest.raises(CampaignError, match="strategy is 'RANDOM'; allowed: AVG, AVG_BY_CIRCLE, "):
        draw_campaign(1, {"strategy": "RANDOM"})


def test_one_seed_in_six_has_members_that_pull() -> None:
    kinds = [drawn_freely(seed).consumer_kind for seed in range(240)]
    assert set(kinds) == set(CONSUMER_KINDS)
    assert 190 <= kinds.count(PUSH) <= 210


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        {"gap_max_s": 5.0},
        {"plan": ()},
        {"workload": "ordered"},
        {"workload": "retry"},
        {"workload": "broadcast"},
        {"workload": "bulk"},
        {"workload": "forwarded"},
        {"workload": "request-reply"},
    ],
)
def test_members_are_push_consumers_where_they_have_to_be(given: dict[str, Any]) -> None:
    assert {draw_campaign(seed, given).consumer_kind for seed in range(60)} == {PUSH}


def test_a_consumer_that_is_assigned_queues_filters_nothing() -> None:
    given = {"workload": "filtered", "faults": ("kill",)}  # one kind: its plan is drawn at once
    drawn = {draw_campaign(seed, given).consumer_kind for seed in range(240)}
    assert drawn == set(CONSUMER_KINDS) - {LITE_PULL_ASSIGN}


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"consumer_kind": "pop"}, "consumer_kind is 'pop'; allowed: push, lite-pull, lite-pull-c"),
        (
            {"consumer_kind": "pull", "workload": "ordered"},
            "consumer_kind is 'pull'; allowed: push with workload ordered: an orderly listener",
        ),
        (
            {"consumer_kind": "lite-pull-assign", "workload": "filtered"},
            "allowed: push with workload filtered: a consumer that assigns queues to itself gets all",
        ),
        (
            {"consumer_kind": "lite-pull", "client": "cpp", "environment": "processes"},
            "consumer_kind is 'lite-pull'; allowed: push for C",
        ),
    ],
)
def test_a_kind_of_consumer_that_cannot_be_is_refused(
    given: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(CampaignError, match=complaint):
        draw_campaign(1, given)


@pytest.mark.parametrize("changed", [False, True])
def test_members_get_their_kind_and_their_share_of_their_group(changed: bool) -> None:
    """Also after a change of filter. Once, members then fell back to the usual strategy."""
    given = {
        "workload": "filtered",
        "consumers": 3,
        "consumer_kind": "pull",
        "strategy": "AVG_BY_CIRCLE",
    }
    campaign, workload = draw_campaign(1, given), WORKLOADS["filtered"]
    member = workload.member_changed if changed else workload.member
    reported = [member(campaign, number) for number in range(3)]
    assert {(one.kind, one.strategy) for one in reported} == {("pull", "AVG_BY_CIRCLE")}
    assert [one.share for one in reported] == [(0, 2), (0, 1), (1, 2)]
    assert (reported[0].wanted_tags == ("red", "Aa")) is not changed


def test_a_forwarder_gets_no_options_under_which_it_stands_still() -> None:
    unfit = {"haSlaveFallbehindMax", "pullThreadPoolQueueCapacity"}

    def drawn(workload: str) -> set[str]:
        given = {"workload": workload}
        return {
            name for seed in range(40) for name, _ in draw_campaign(seed, given).broker_properties
        }

    assert unfit <= drawn("queue")
    assert drawn("forwarded").isdisjoint(unfit)
