"""Nodes of our own cluster that cannot be made."""

from __future__ import annotations

import pytest

from staticfire.harness.campaign.campaign import CampaignError
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.targets import own_cluster


def test_a_broker_that_refuses_every_configuration_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(**_: object) -> None:
        raise ValueError("no role is right")

    campaign = draw_campaign(1, {"followers": (1,), "faults": ()})
    topology = campaign.topology()
    cluster = own_cluster.OwnCluster(campaign, dict.fromkeys(topology.servers, "127.0.0.1"))
    monkeypatch.setattr(own_cluster, "BrokerConfig", refuse)
    with pytest.raises(CampaignError, match="broker-a-1 cannot start: no role is right"):
        cluster.broker_config(topology.replica("broker-a-1"), topology.coordinators)
