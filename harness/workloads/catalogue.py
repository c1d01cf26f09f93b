"""Every workload by name."""

from __future__ import annotations

from harness.workloads.queue import QUEUE
from harness.workloads.workload import Workload

WORKLOADS: dict[str, Workload] = {workload.name: workload for workload in (QUEUE,)}
