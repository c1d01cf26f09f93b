"""Millions of messages, sent and consumed in large batches. One op of the history is a batch, with all its messages."""

from __future__ import annotations

from dataclasses import replace

from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.generators.many_sends import ManySends
from staticfire.harness.workloads.consumer_spec import ConsumerSpec, plain
from staticfire.harness.workloads.workload import Workload

AT_ONCE = 500  # messages of a pull and of a call of the listener
WIDER = 4  # factor by which the topic of the copies has more queues
QUEUES_MAX = 64


def member(campaign: Campaign, number: int) -> ConsumerSpec:
    """Make the last consumers forward, or consume the forwarded messages, as the campaign says."""
    spec = replace(
        plain(campaign, number), pull_batch=AT_ONCE, consume_batch=AT_ONCE, condensed=True
    )
    forwarders, behind = campaign.forwarding
    topic = f"{spec.topic}-forwarded"
    if number >= campaign.consumers - behind:
        queues = min(QUEUES_MAX, WIDER * campaign.queues)
        return replace(spec, group=f"{spec.group}-forwarded", topic=topic, queues=queues)
    if number >= campaign.consumers - behind - forwarders:
        return replace(spec, forward_to=topic)
    return spec


BULK = Workload(
    name="bulk",
    needs_listener="a listener reports ranges of messages, and forwards them",
    summary="large batches in and out, one op per batch: millions of messages, none lost or at a wrong offset",
    generator=ManySends,
    membership=member,
    options={"batch_share": 1.0, "batch_messages": (5, 15), "one_way_share": 0.0},
    # Larger index files than in other runs: a query by key reads each of them. With 250,000 messages it takes 0.7 ms
    # for 251 files, and 0.02 ms for one file.
    broker_properties={
        "maxHashSlotNum": "50000",
        "maxIndexNum": "200000",
        "mappedFileSizeConsumeQueue": "200000",
        "maxTransferCountOnMessageInMemory": str(AT_ONCE),
        "maxTransferCountOnMessageInDisk": str(AT_ONCE),
        "maxTransferBytesOnMessageInDisk": str(256 << 10),
    },
    forwards=True,
    lacks={"cpp": "its batches are stored as one message"},
)
FORWARDED = replace(
    BULK,
    name="forwarded",
    summary="a group forwards its messages to a topic with more queues, at least once: none is lost",
    options={**BULK.options, "consumers": 4, "forwarding": (2, 2)},
    avoids=("disk-lost",),  # without a broker to send to, a forwarder can never drain its input
    settle_s=300.0,  # a forwarder sends one message after the other, so one slow send delays all that follow
)
