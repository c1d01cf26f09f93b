"""The forwarded workload: forwarders, the consumers of copies, and the queues that the drain checks."""

from __future__ import annotations

from staticfire.harness.campaign.file import read_options
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.rocketmq.facts import run_facts
from staticfire.harness.workloads.bulk import BULK, FORWARDED

WIDE = "StaticfireTopic-forwarded"


def test_the_last_consumers_forward_and_consume_behind_that() -> None:
    given = {"workload": "bulk", "consumers": 6, "forwarding": (2, 3), "queues": 4}
    campaign = draw_campaign(1, given)
    members = BULK.members(campaign)
    assert [one.forward_to for one in members] == ["", WIDE, WIDE, "", "", ""]
    assert [one.topic for one in members] == ["StaticfireTopic"] * 3 + [WIDE] * 3
    assert [one.queues for one in members] == [0, 0, 0, 16, 16, 16]
    groups = {"staticfire-group": ("StaticfireTopic",), "staticfire-group-forwarded": (WIDE,)}
    assert run_facts(campaign, [], []).groups == groups


def test_no_member_forwards_unless_the_campaign_says_so() -> None:
    assert not any(one.forward_to for one in BULK.members(draw_campaign(1, {"workload": "bulk"})))
    campaign = draw_campaign(1, {"workload": "forwarded", "queues": 64})
    assert campaign.forwarding == (2, 2)
    assert FORWARDED.members(campaign)[-1].queues == 64
    options = read_options(campaign.to_toml(), "the file")
    assert draw_campaign(options.pop("seed"), options) == campaign
