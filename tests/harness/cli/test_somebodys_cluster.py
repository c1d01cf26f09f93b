"""What `--environment address` takes from the cluster, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from harness.campaign import CampaignError
from harness.campaign_draw import draw_campaign, situation
from harness.cli.somebodys_cluster import take_cluster
from harness.cli.status import BadInput, HarnessError
from harness.environments import somebodys_cluster
from harness.environments.errors import EnvironmentFailed
from harness.environments.fleet_options import FleetOptions
from harness.environments.somebodys_cluster import FoundCluster

FOUND = FoundCluster(brokers={"orders:0": "h:1", "orders:2": "h:2", "bills:0": "h:3"})
THERE = FleetOptions(name_servers=("h:9876", "h:9877"))


@pytest.fixture(autouse=True)
def _found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def find(_: object) -> FoundCluster:
        return FOUND

    monkeypatch.setattr(somebodys_cluster, "find_cluster", find)


def taken(**given: Any) -> dict[str, Any]:
    take_cluster(given, THERE)
    return given


def test_the_nodes_are_called_what_the_cluster_calls_them() -> None:
    campaign = draw_campaign(7, {**taken(environment="address"), "faults": ()})
    shape = campaign.shape()
    assert shape.servers == ("ns-1", "ns-2", "orders-0", "orders-2", "bills-0")
    assert [broker.broker_id for broker in shape.brokers] == [0, 2, 0]
    assert shape.broker_names == ("orders", "bills")
    assert (campaign.target, campaign.mode) == ("address", "faithful")


def test_promises_that_nobody_gave_are_the_weakest() -> None:
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
    nodes = {broker.node for broker in situation(campaign).shape.brokers}
    assert nodes == {"orders-0", "bills-0"}  # and no slave


def test_the_target_is_enough() -> None:
    assert taken(target="address")["environment"] == "address"


def test_the_name_servers_must_be_said() -> None:
    with pytest.raises(BadInput, match="needs --name-server"):
        take_cluster({"environment": "address"}, FleetOptions())


def test_name_servers_say_nothing_to_other_environments() -> None:
    with pytest.raises(BadInput, match="only for --environment address"):
        take_cluster({"environment": "processes"}, THERE)


def test_a_cluster_that_does_not_answer_is_no_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    async def find(_: object) -> FoundCluster:
        raise EnvironmentFailed("the cluster at h:9876: no answer")

    monkeypatch.setattr(somebodys_cluster, "find_cluster", find)
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
def test_what_somebodys_cluster_cannot_be(option: str, value: Any, text: str) -> None:
    given = {**taken(environment="address"), "faults": (), option: value}
    with pytest.raises(CampaignError, match=text):
        draw_campaign(7, given)
