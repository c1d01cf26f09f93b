"""A listener that fails for some messages. Brokers redeliver them with growing delays, and finally as dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from staticfire.checkers.model.history import Op
from staticfire.checkers.op_kinds.values import ConsumeReport, SendValue
from staticfire.faults.model.draws import pick
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.generators.keyed_sends import KeyedSends
from staticfire.harness.workloads.consumer_spec import ConsumerSpec, plain
from staticfire.harness.workloads.workload import Workload

FAILS = "fails"  # property with the number of deliveries for which the listener fails
FAILING_SHARE = 0.15
ALWAYS = 1_000
RETRIES_MAX = 5
# Retries begin at level 3. With RocketMQ's own levels they would take four and a half hours.
LEVELS = "1s 1s 2s 3s 5s 7s 9s 11s 13s 15s 17s 19s 21s 23s 25s 27s 29s 31s"


class FailingSends(KeyedSends):
    """Makes the listener fail for some messages: once, a few times, or every time."""

    def _dress(self, process: int, message: SendValue) -> None:
        if self._random.random() < FAILING_SHARE:
            times = pick(self._random, (1, 1, 1, 2, 3, ALWAYS))
            message |= {"properties": {FAILS: str(times)}, "tag": f"fails-{times}"}


def member(campaign: Campaign, number: int) -> ConsumerSpec:
    spec = plain(campaign, number)
    return replace(spec, consume_batch=1, sends_back=True, retries_max=RETRIES_MAX)


def awaits(ops: Sequence[Op], _now_ns: int) -> str | None:
    """Count messages whose listener failed and that have neither been consumed since nor become dead letters."""
    failed: dict[str, None] = {}
    for op in ops:
        if op.f == "consume" and op.type != "invoke":
            delivery: ConsumeReport = op.value
            for message in delivery["messages"]:
                if op.type == "ok":
                    failed.pop(message[0], None)
                elif message[4] < RETRIES_MAX:
                    failed[message[0]] = None
                else:
                    failed.pop(message[0], None)  # it goes to the dead letters next
    return f"{len(failed)} messages that the listener failed for" if failed else None


RETRY = Workload(
    name="retry",
    needs_listener="a polling consumer does not send messages back when its listener fails",
    summary="a failed message is retried after growing delays, and finally becomes a dead letter",
    generator=FailingSends,
    membership=member,
    awaits=awaits,
    settle_s=150.0,
    avoids=("disk-lost",),  # a retry of a master that never returns is never delivered
    options={"batch_share": 0.0, "one_way_share": 0.0},
    broker_properties={"messageDelayLevel": LEVELS},
)
