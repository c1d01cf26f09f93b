"""Every workload by name."""

from __future__ import annotations

from staticfire.harness.workloads.batch import BATCH
from staticfire.harness.workloads.broadcast import BROADCAST
from staticfire.harness.workloads.bulk import BULK, FORWARDED
from staticfire.harness.workloads.delayed import DELAYED
from staticfire.harness.workloads.filtered import FILTERED
from staticfire.harness.workloads.ordered import ORDERED
from staticfire.harness.workloads.queue import QUEUE
from staticfire.harness.workloads.rebalance import REBALANCE
from staticfire.harness.workloads.request_reply import REQUEST_REPLY
from staticfire.harness.workloads.reservations import RESERVATIONS
from staticfire.harness.workloads.retry import RETRY
from staticfire.harness.workloads.transactional import TRANSACTIONAL
from staticfire.harness.workloads.workload import Workload

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
