"""Names of the topics and groups that faults make beside the load."""

from __future__ import annotations

from staticfire.faults.kinds.side_topics import OffsetsCloned, TopicAnew
from staticfire.faults.model.fault import PlannedFault
from staticfire.harness.campaign.campaign import Campaign

CLONE = "-clone"  # name suffix of a group that gets the offsets of another group


def side_scopes(campaign: Campaign, planned: PlannedFault) -> list[tuple[str, str]]:
    """Return the topics and groups that a planned fault makes on brokers; none for most kinds."""
    if planned.kind not in (TopicAnew.name, OffsetsCloned.name):
        return []
    topic, group = side_names(campaign, planned.fault_id)
    return [(topic, group), (topic, group + CLONE)]


def side_names(campaign: Campaign, number: int) -> tuple[str, str]:
    return f"{campaign.topic}-side-{number}", f"{campaign.group}-side-{number}"
