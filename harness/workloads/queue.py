"""Keyed sends and one consumer group: is an acknowledged message lost, or never delivered to the group?"""

from __future__ import annotations

from staticfire.harness.generators.keyed_sends import KeyedSends
from staticfire.harness.workloads.workload import Workload

QUEUE = Workload(
    name="queue",
    summary="keyed sends and one consumer group: no acknowledged message is lost or undelivered",
    generator=KeyedSends,
)
