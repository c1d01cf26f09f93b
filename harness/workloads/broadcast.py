"""Broadcasting: every member of the group gets every message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from staticfire.checkers.model.history import Op
from staticfire.checkers.op_kinds.values import ConsumeReport, OpenReport
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.generators.keyed_sends import KeyedSends
from staticfire.harness.workloads.consumer_spec import BROADCASTING, ConsumerSpec, plain
from staticfire.harness.workloads.workload import Workload


def member(campaign: Campaign, number: int) -> ConsumerSpec:
    return replace(plain(campaign, number), model=BROADCASTING)


def awaits(ops: Sequence[Op], _now_ns: int) -> str | None:
    """Count acknowledged messages that a member did not get. A message whose listener fails is dropped."""
    acked = {op.value["key"]: None for op in ops if op.f == "send" and op.type == "ok"}
    had: dict[str, dict[str, None]] = {}
    for op in ops:
        if op.node is None or op.f not in ("open", "consume") or op.type == "invoke":
            continue
        if op.f == "consume":
            delivery: ConsumeReport = op.value
            got = (message[0] for message in delivery["messages"])
            had.setdefault(op.node, {}).update(dict.fromkeys(got))
            continue
        opened: OpenReport = op.value
        if "model" in opened:
            had.setdefault(op.node, {})
    missing = sum(key not in keys for keys in had.values() for key in acked)
    return f"{missing} deliveries to members" if missing else None


BROADCAST = Workload(
    name="broadcast",
    needs_listener="a polling consumer shares queues with its group or chooses them; it does not broadcast",
    summary="every member of a broadcasting group gets every message, even if it was away for a time",
    generator=KeyedSends,
    membership=member,
    awaits=awaits,
)
