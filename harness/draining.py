"""The end of a run: wait until the group has consumed and committed everything that is left."""

from __future__ import annotations

import asyncio
from typing import Any

from harness.environments.environment import ADMIN, Environment
from harness.probing import PROBE_PROCESS

# For what was acknowledged to show in its queue. A slave believes for 20 s that a master whose power is gone is only
# silent (haHousekeepingInterval), and asks the other slaves then.
VISIBLE_BOUND_S = 40.0
# For what a listener failed for to come again. A client that sends it back gets it from a retry topic, 10 s later the
# first time and 30 s later the second (RocketMQ: messageDelayLevel from level 3 on).
RETRY_BOUND_S = 60.0
POLL_S = 1.0

QueueRow = list[Any]  # broker, queue, min, max and committed offset


class Drain:
    """Asks the brokers how far the group is behind, and writes the answer down as `drain`."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._recorder = environment.recorder

    async def run(self, bound_s: float) -> None:
        """Return when nothing is left to consume, or the bound is over."""
        start_ns = self._environment.now_ns()
        while True:
            rows, complete = await self._queue_rows()
            lag = sum(max(high - committed, 0) for _, _, _, high, committed in rows)
            waited_s = (self._environment.now_ns() - start_ns) / 1e9
            visible = waited_s > VISIBLE_BOUND_S or self._shows_acknowledged(rows)
            settled = visible and (waited_s > RETRY_BOUND_S or not self._awaits_retries())
            if (complete and settled and lag == 0) or waited_s > bound_s:
                break
            await asyncio.sleep(POLL_S)
        self._record(
            rows, lag, None if complete and lag == 0 else f"lag is {lag} after {bound_s:g} s"
        )

    def _record(self, rows: list[QueueRow], lag: int, error: str | None) -> None:
        campaign = self._environment.campaign
        value = {"group": campaign.group, "topic": campaign.topic, "queues": rows, "lag": lag}
        self._recorder.record(PROBE_PROCESS, "info" if error else "ok", "drain", value, error)

    def _shows_acknowledged(self, rows: list[QueueRow]) -> bool:
        """Whether every queue is as long as the acknowledgements say; if one never is, that is for the checkers."""
        ends = {(broker, queue): high for broker, queue, _, high, _ in rows}
        return all(
            ends.get((op.value["broker"], op.value["queue"]), 0) > op.value["queue_offset"]
            for op in self._recorder.ops
            if op.f == "send" and op.type == "ok"
        )

    def _awaits_retries(self) -> bool:
        """Whether the listener failed for a message that the group has not consumed since."""
        failed: set[str] = set()
        for op in self._recorder.ops:
            if op.f == "consume" and op.type != "invoke":
                change = failed.difference_update if op.type == "ok" else failed.update
                change(message[0] for message in op.value["messages"])
        return bool(failed)

    async def _queue_rows(self) -> tuple[list[QueueRow], bool]:
        """The queues of all brokers; and whether every broker answered."""
        rows: list[QueueRow] = []
        complete = True
        for name in self._environment.shape.broker_names:
            outcome = await self._environment.request(ADMIN, self._queue_state_request(name))
            complete = complete and outcome.type == "ok"
            rows += [[name, *row] for row in outcome.value.get("queues", [])]
        return rows, complete

    def _queue_state_request(self, broker_name: str) -> dict[str, Any]:
        environment = self._environment
        living = [
            replica.node
            for replica in environment.shape.replicas(broker_name)
            if not environment.is_lost(replica.node)
        ]
        return {
            "f": "queue_state",
            "topic": environment.campaign.topic,
            "group": environment.campaign.group,
            "queues": environment.queues_max,
            "address": environment.server_address(living[0]),
        }
