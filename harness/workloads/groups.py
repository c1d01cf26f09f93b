"""The consumer groups of a campaign."""

from __future__ import annotations

from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.workloads.catalogue import WORKLOADS
from staticfire.harness.workloads.consumer_spec import ConsumerSpec


def groups_of(campaign: Campaign) -> dict[str, list[ConsumerSpec]]:
    """Return the specifications of the members by group, in the order of the groups' first members."""
    groups: dict[str, list[ConsumerSpec]] = {}
    for spec in WORKLOADS[campaign.workload].members(campaign):
        groups.setdefault(spec.group, []).append(spec)
    return groups
