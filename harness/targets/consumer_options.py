"""Options of our consumer that follow from a workload's specification."""

from __future__ import annotations

from typing import Any

from staticfire.harness.workloads.consumer_spec import BROADCASTING, ConsumerSpec


def consumer_options(spec: ConsumerSpec, folder: str) -> dict[str, Any]:
    """Return fields of ConsumerConfig; `folder` is on the disk of the consumer."""
    is_broadcast = spec.model == BROADCASTING
    return {
        "group": spec.group,
        "topic": spec.topic,
        "expression": spec.expression,
        "expression_type": spec.language,
        "pull_batch": spec.pull_batch,
        "consume_batch": spec.consume_batch,
        "ordered": spec.orderly,
        "strategy": spec.strategy,
        "broadcast": is_broadcast,
        "offset_folder": f"{folder}/offsets" if is_broadcast else None,
        "sends_back": spec.sends_back,
        "reconsume_times_max": spec.retries_max,
    }
