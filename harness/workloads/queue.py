"""Keyed sends and one consumer group: is anything acknowledged lost, or unseen by the group?"""

from __future__ import annotations

from random import Random

from harness.campaign import Campaign
from harness.generators.keyed_sends import KeyedSends
from harness.workloads.workload import Workload


def _sends(random: Random, campaign: Campaign) -> KeyedSends:
    return KeyedSends(random, campaign)


QUEUE = Workload(
    name="queue",
    summary="keyed sends and one consumer group: nothing acknowledged is lost or unseen",
    generator=_sends,
)
