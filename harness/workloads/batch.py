"""Batches: several messages in one send and in one call of the listener. Is each there, once, and at its offset?"""

from __future__ import annotations

from dataclasses import replace

from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.generators.keyed_sends import KeyedSends
from staticfire.harness.workloads.consumer_spec import ConsumerSpec, plain
from staticfire.harness.workloads.workload import Workload

CONSUME_BATCH = 8  # messages


def member(campaign: Campaign, number: int) -> ConsumerSpec:
    return replace(plain(campaign, number), consume_batch=CONSUME_BATCH)


BATCH = Workload(
    name="batch",
    summary="most messages are sent and consumed in batches: none is lost or at a wrong offset",
    generator=KeyedSends,
    membership=member,
    options={"batch_share": 0.8, "one_way_share": 0.0},
    lacks={"cpp": "its batches are stored as one message"},
)
