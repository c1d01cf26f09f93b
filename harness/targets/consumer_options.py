"""Options of our consumer that make it the member that a workload wants."""

from __future__ import annotations

from typing import Any

from staticfire.harness.workloads.consumer_spec import BROADCASTING, ConsumerSpec


def consumer_options(told: ConsumerSpec, folder: str) -> dict[str, Any]:
    """Fields of ConsumerConfig; `folder` is on the disk of the consumer."""
    is_broadcast = told.model == BROADCASTING
    return {
        "group": told.group,
        "topic": told.topic,
        "expression": told.expression,
        "expression_type": told.language,
        "pull_batch": told.pull_batch,
        "consume_batch": told.consume_batch,
        "ordered": told.orderly,
        "strategy": told.strategy,
        "broadcast": is_broadcast,
        "offset_folder": f"{folder}/offsets" if is_broadcast else None,
        "sends_back": told.sends_back,
        "reconsume_times_max": told.retries_max,
    }
