"""Every workload by name."""

from __future__ import annotations

from harness.workloads.batch import BATCH
from harness.workloads.broadcast import BROADCAST
from harness.workloads.bulk import BULK, FORWARDED
from harness.workloads.delayed import DELAYED
from harness.workloads.filtered import FILTERED
from harness.workloads.ordered import ORDERED
from harness.workloads.queue import QUEUE
from harness.workloads.rebalance import REBALANCE
from harness.workloads.request_reply import REQUEST_REPLY
from harness.workloads.reservations import RESERVATIONS
from harness.workloads.retry import RETRY
from harness.workloads.transactional import TRANSACTIONAL
from harness.workloads.workload import Workload

WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        QUEUE,
        ORDERED,
        DELAYED,
        RETRY,
        TRANSACTIONAL,
        FILTERED,
        BROADCAST,
        BATCH,
        BULK,
        FORWARDED,
        REBALANCE,
        REQUEST_REPLY,
        RESERVATIONS,
    )
}
