"""`--environment address`: options taken from the cluster, and options refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from staticfire.faults.plans.catalogue import FAULTS
from staticfire.harness.campaign.campaign import CampaignError
from staticfire.harness.cli.external_cluster import take_cluster
from staticfire.harness.cli.hunt import command
from staticfire.harness.cli.hunt.seeds import SeedResult
from staticfire.harness.cli.status import BadInput, HarnessError
from staticfire.harness.console.external_lines import BROKEN, external_lines
from staticfire.harness.draws.campaign import context_of, draw_campaign
from staticfire.harness.environments.real.catalogue import make_provider, missing_faults
from staticfire.harness.environments.real.external import external_cluster as external_cluster
from staticfire.harness.environments.real.external.external_cluster import FoundCluster
from staticfire.harness.machines.errors import EnvironmentFailed
from staticfire.harness.machines.options import MachineOptions
from staticfire.harness.report.verdict_lines import WIDTH
from tests.harness.cli.conftest import Said
from tests.harness.cli.test_hunt import seed_result

FOUND = FoundCluster(brokers={"orders:0": "h:1", "orders:2": "h:2", "bills:0": "h:3"})
THERE = MachineOptions(name_servers=("h:9876", "h:9877"))


@pytest.fixture(autouse=True)
def _found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def find(_: object) -> FoundCluster:
        return FOUND

    monkeypatch.setattr(external_cluster, "find_cluster", find)


def taken(**given: Any) -> dict[str, Any]:
    take_cluster(given, THERE)
    return given


def test_the_nodes_are_called_what_the_cluster_calls_them() -> None:
    campaign = draw_campaign(7, {**taken(environment="address"), "faults": ()})
    topology = campaign.topology()
    assert topology.servers == ("ns-1", "ns-2", "orders-0", "orders-2", "bills-0")
    assert [broker.number for broker in topology.replicas] == [0, 2, 0]
    assert topology.replica_sets == ("orders", "bills")
    assert (campaign.target, campaign.mode) == ("address", "faithful")


def test_missing_promises_are_the_weakest() -> None:
    given = taken(environment="address")
    assert (given["flush"], given["replication"]) == ("async", "async")
    given = taken(environment="address", flush="sync", replication="sync")
    assert (given["flush"], given["replication"]) == ("sync", "sync")


def test_each_run_has_a_topic_and_a_group_of_its_own() -> None:
    campaigns = [draw_campaign(7, {**taken(environment="address"), "faults": ()}) for _ in range(2)]
    topics = {campaign.topic for campaign in campaigns}
    groups = {campaign.group for campaign in campaigns}
    assert (len(topics), len(groups)) == (2, 2)
    assert all(name.startswith("staticfire-") for name in topics | groups)


def test_a_plan_that_is_repeated_is_for_the_new_topic() -> None:
    first = draw_campaign(7, {**taken(environment="address"), "faults": ("topic-change",)})
    again = draw_campaign(
        7, {**taken(environment="address", token=first.token, plan=first.plan), "faults": ()}
    )
    assert again.topic != first.topic
    assert {planned.params["topic"] for planned in again.plan} == {again.topic}


def test_faults_are_drawn_for_the_links_that_clients_use() -> None:
    campaign = draw_campaign(7, {**taken(environment="address"), "faults": ()})
    nodes = {broker.node for broker in context_of(campaign).topology.replicas}
    assert nodes == {"orders-0", "bills-0"}  # and no slave


def test_the_target_is_enough() -> None:
    assert taken(target="address")["environment"] == "address"


def test_the_name_servers_must_be_said() -> None:
    with pytest.raises(BadInput, match="needs --name-server"):
        take_cluster({"environment": "address"}, MachineOptions())


def test_name_servers_say_nothing_to_other_environments() -> None:
    with pytest.raises(BadInput, match="only for --environment address"):
        take_cluster({"environment": "processes"}, THERE)


def test_a_cluster_that_does_not_answer_is_no_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    async def find(_: object) -> FoundCluster:
        raise EnvironmentFailed("the cluster at h:9876: no answer")

    monkeypatch.setattr(external_cluster, "find_cluster", find)
    with pytest.raises(HarnessError, match="the cluster at h:9876: no answer"):
        take_cluster({"environment": "address"}, THERE)


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("target", "own", "environment is 'address'"),
        ("defect", "any", "allowed: none with --target address"),
        ("broker_properties", (("a", "b"),), "allowed: none with --target address"),
        ("brokers", (), "allowed: name:id, masters first, with --target address"),
        ("brokers", ("orders",), "allowed: name:id, such as broker-a:0"),
    ],
)
def test_options_that_an_external_cluster_excludes(option: str, value: Any, text: str) -> None:
    given = {**taken(environment="address"), "faults": (), option: value}
    with pytest.raises(CampaignError, match=text):
        draw_campaign(7, given)


# Promises and figures of a campaign that was written for a cluster of our own


def taken_beside(said: dict[str, Any], **from_file: Any) -> dict[str, Any]:
    given = {**from_file, **said}
    take_cluster(given, THERE, said.keys())
    return given


FILE: dict[str, Any] = {"flush": "sync", "replication": "sync", "followers": (1, 1)}
ADDRESS = {"environment": "address"}


def test_a_named_campaign_promises_nothing_for_a_cluster_that_it_does_not_make() -> None:
    given = taken_beside(ADDRESS, **FILE)
    assert (given["flush"], given["replication"], given["followers"]) == ("async", "async", (1, 0))
    given = taken_beside({**ADDRESS, "flush": "sync"}, **FILE)
    assert (given["flush"], given["replication"]) == ("sync", "async")


def test_the_campaign_of_an_earlier_run_keeps_its_promises() -> None:
    given = taken_beside({}, **ADDRESS, **FILE)
    assert (given["flush"], given["replication"]) == ("sync", "sync")
    given = taken_beside(ADDRESS, **FILE, brokers=("orders:0", "orders:2", "bills:0"))
    assert (given["flush"], given["replication"]) == ("sync", "sync")


def test_one_broker_is_enough_for_the_default_campaign(monkeypatch: pytest.MonkeyPatch) -> None:
    async def find(_: object) -> FoundCluster:
        return FoundCluster(brokers={"orders:0": "h:1"})

    monkeypatch.setattr(external_cluster, "find_cluster", find)
    given = taken_beside(ADDRESS, **FILE)
    campaign = draw_campaign(7, {**given, "faults": ()})
    assert (campaign.replication, campaign.followers) == ("none", (0,))
    with pytest.raises(BadInput, match="replication is sync, and no broker of the cluster"):
        taken_beside({**ADDRESS, "replication": "sync"})


def test_a_cluster_with_slaves_replicates() -> None:
    with pytest.raises(BadInput, match=r"replication is none, and the cluster at .* has slaves"):
        taken_beside({**ADDRESS, "replication": "none"})


@pytest.mark.parametrize(
    ("option", "flag"),
    [("leaders", "masters"), ("followers", "slaves"), ("coordinators", "name-servers")],
)
def test_the_shape_is_the_clusters(option: str, flag: str) -> None:
    with pytest.raises(BadInput, match=f"--{flag} is for clusters that a run"):
        taken_beside({**ADDRESS, option: 1})


# What is said before a run


def test_a_run_says_what_it_makes_and_breaks_and_nothing_that_it_drew_for_a_cluster() -> None:
    kinds = ("partition-one", "client-crash", "offsets-cloned", "offsets-reset")
    campaign = draw_campaign(7, {**taken(environment="address"), "faults": kinds})
    lines = external_lines(campaign, THERE.name_servers)
    text = " ".join(" ".join(lines).split())
    number = next(each.fault_id for each in campaign.plan if each.kind == "offsets-cloned")
    assert text.startswith(
        "cluster 2 name servers at h:9876, h:9877; orders (master), orders (slave 2), bills (master) "
        "judged by async flush and async replication;"
    )
    for name in (campaign.topic, campaign.group, f"{campaign.group}-side-{number}-clone"):
        assert name in text
    assert (
        "breaks links between its clients and the servers, at a proxy here: partition-one" in text
    )
    assert "breaks its own clients: client-crash" in text
    assert "breaks its own topics and groups: offsets-reset, offsets-cloned" in text
    assert "spares servers are neither stopped nor configured" in text
    for drawn in ("log files", "latency", str(campaign.log_file_bytes)):
        assert drawn not in text
    assert max(map(len, lines)) <= WIDTH
    quiet = draw_campaign(7, {**taken(environment="address"), "faults": ()})
    assert "breaks    nothing" in external_lines(quiet, ())


def test_every_kind_that_can_strike_there_has_its_words() -> None:
    missing = missing_faults(make_provider("address").lacks)
    kinds = [fault for name, fault in FAULTS.items() if name not in missing]
    assert {fault.needs[0].partition(".")[0] for fault in kinds} <= BROKEN.keys()


def test_servers_that_are_not_ours_are_not_configured() -> None:
    missing = missing_faults(make_provider("address").lacks)
    for kind in ("options-change", "cleaning", "rights-change"):
        assert "neither stops nor configures" in missing[kind]


def test_a_dry_run_prints_the_plan_and_makes_nothing(
    staticfire: Callable[..., Said], tmp_path: Path
) -> None:
    where = ("--environment", "address", "--name-server", "h:9876")
    runs = tmp_path / "runs"
    said = staticfire(
        "run", "--campaign", "default", "--seed", 1, *where, "--dry-run", "--runs", runs
    )
    assert (said.status, said.err) == (0, "")
    for word in ("cluster   1 name server at h:9876", "makes ", "breaks ", "plan ", "not here "):
        assert word in said.out
    assert said.out.endswith("dry run   nothing is made, sent or broken\n")
    assert not runs.exists()
    simulated = staticfire("run", "--seed", 1, "--dry-run", "--runs", runs)
    assert simulated.status == 0
    assert not runs.exists()


HUNT = ("hunt", "--environment", "address", "--name-server", "h:9876", "--seeds", "0-1")


def test_a_hunt_says_what_it_makes_and_breaks_before_it_begins(
    staticfire: Callable[..., Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    def judge(order: range, *_: object) -> list[SeedResult]:
        print("begins")
        return [seed_result(seed, valid=True) for seed in order]

    monkeypatch.setattr(command, "run_seeds", judge)
    said = staticfire(*HUNT, "--faults", "partition-one,client-crash")
    assert said.status == 0
    before, _, _ = said.out.partition("begins")
    text = " ".join(before.split())
    assert text.startswith(
        "cluster 1 name server at h:9876; orders (master), orders (slave 2), bills"
    )
    assert "load 2 seeds, one after the other, with" in text
    assert "for each seed topics on each master and groups, staticfire-" in text
    assert "breaks its own clients: client-crash" in text
    assert "spares servers are neither stopped nor configured" in text
    assert max(map(len, before.splitlines())) <= WIDTH


def test_a_dry_hunt_prints_each_plan_and_makes_nothing(
    staticfire: Callable[..., Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "run_seeds", pytest.fail)
    said = staticfire(*HUNT, "--dry-run")
    assert said.status == 0
    assert [line.split()[1] for line in said.out.splitlines() if line.startswith("seed ")] == [
        "0",
        "1",
    ]
    assert said.out.endswith("dry run   nothing is made, sent or broken\n")
    simulated = staticfire("hunt", "--seeds", "0-1", "--dry-run")
    assert simulated.status == 0
    assert "seeds " not in simulated.out
