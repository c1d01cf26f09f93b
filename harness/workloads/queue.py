"""Keyed sends and one consumer group: is anything acknowledged lost, or unseen by the group?"""

from __future__ import annotations

from staticfire.harness.generators.keyed_sends import KeyedSends
from staticfire.harness.workloads.workload import Workload

QUEUE = Workload(
    name="queue",
    summary="keyed sends and one consumer group: nothing acknowledged is lost or unseen",
    generator=KeyedSends,
)
