"""The drain of a run: waits until every group has consumed and committed all messages.

That includes messages in queues, and messages that brokers still keep back: delayed ones, half messages, and retries.
The workload counts the latter (`Workload.awaits`).
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import Any

from staticfire.checkers.model.history import Op
from staticfire.checkers.model.message_ranges import delivered_keys, of_send
from staticfire.checkers.op_kinds.catalogue import DELIVERIES
from staticfire.checkers.op_kinds.producer import SEND_MANY
from staticfire.checkers.op_kinds.values import DrainReport
from staticfire.harness.clients.names import ADMIN
from staticfire.harness.environments.environment import Environment, living_replicas
from staticfire.harness.observers.probe import PROBE_PROCESS
from staticfire.harness.rocketmq.administration.changes import ClusterChanges
from staticfire.harness.rocketmq.observers.dead_letters import DeadLetters
from staticfire.harness.workloads.catalogue import WORKLOADS
from staticfire.harness.workloads.consumer_spec import BROADCASTING, ConsumerSpec
from staticfire.harness.workloads.groups import groups_of

# Time until acknowledged messages are visible in their queue. A slave notices only after 20 s that its master has no
# power (haHousekeepingInterval), and then asks the other slaves.
VISIBLE_BOUND_S = 40.0
# Time until a failed message is delivered again. A client that sends it back gets it from a retry topic, after 10 s the
# first time, and after 30 s the second time (RocketMQ: messageDelayLevel from level 3 on).
RETRY_BOUND_S = 60.0
POLL_S = 1.0

QueueRow = list[Any]  # broker, queue, min, max and committed offset
Scope = tuple[str, str]  # group and topic


class Drain:
    """Asks the brokers how far each group is behind, and records the answers as ops `drain`.

    Args:
        still_s: the drain ends once no offset has moved for this many seconds; None: only the bound ends it.
    """

    def __init__(
        self, environment: Environment, changes: ClusterChanges, still_s: int | None = None
    ) -> None:
        self._environment = environment
        self._changes = changes
        self._still_s = still_s
        self._recorder = environment.recorder
        self._workload = WORKLOADS[environment.campaign.workload]
        self._dead_letters = DeadLetters(environment)
        groups = groups_of(environment.campaign)
        self._members = [spec for members in groups.values() for spec in members]
        self._failed: set[tuple[str, str | None]] = set()  # see _awaits_retries
        self._ops_seen = 0
        # The last acknowledged offset of each queue, by topic, broker and queue; and the number of ops read for it.
        self._acknowledged: dict[tuple[str, str, int], int] = {}
        self._acknowledged_of = 0
        self._silent: dict[str, None] = {}  # nodes that did not answer the last round

    async def run(self, bound_s: float) -> None:
        """Wait until nothing is left to consume, or the bound is over."""
        start_ns = self._environment.now_ns()
        bound_s = max(bound_s, self._workload.settle_s + VISIBLE_BOUND_S)
        ends: dict[tuple[Scope, str, int], list[int]] = {}  # the queues' last known rows
        moved_ns = start_ns
        while True:
            rows, complete = await self._rows_of_all()
            before = dict(ends)
            for scope, found in rows.items():  # without an answer, no offset counts as moved
                ends |= {(scope, row[0], row[1]): row[2:] for row in found}
            if ends != before:
                moved_ns = self._environment.now_ns()
            lag = {scope: _lag(found) for scope, found in rows.items()}
            waited_s = (self._environment.now_ns() - start_ns) / 1e9
            answered = complete or self._only_dead_are_silent()
            is_settled = self._is_settled(rows, waited_s)
            is_still = is_settled and self._is_still_since(moved_ns)
            if (answered and is_settled and not any(lag.values())) or (
                waited_s > bound_s or is_still
            ):
                break
            await asyncio.sleep(POLL_S)
        for spec in self._members:
            if spec.sends_back:
                await self._dead_letters.read(spec)
        for (group, topic), found in rows.items():
            left = lag[group, topic]
            error = None if complete and not left else f"lag is {left} after {bound_s:g} s"
            if not complete and self._only_dead_are_silent():
                error = f"lag is {left}; {', '.join(self._silent)} ends again and again"
            value: DrainReport = {
                "group": group,
                "topic": topic,
                "queues": found,
                "lag": left,
            }
            if error is not None and is_still and self._still_s is not None:
                value["still_s"] = self._still_s
                error = f"lag is {left}; nothing has moved for {self._still_s} s"
            self._recorder.record(PROBE_PROCESS, "info" if error else "ok", "drain", value, error)

    def _is_still_since(self, moved_ns: int) -> bool:
        still_s = (self._environment.now_ns() - moved_ns) / 1e9
        return self._still_s is not None and still_s > self._still_s

    def _is_settled(self, rows: dict[Scope, list[QueueRow]], waited_s: float) -> bool:
        """Whether no message is still on its way into the queues, or the time for that is over."""
        if waited_s <= VISIBLE_BOUND_S and not self._shows_acknowledged(rows):
            return False
        if waited_s <= RETRY_BOUND_S and self._awaits_retries():
            return False
        ops, now_ns = self._recorder.ops, self._environment.now_ns()
        return waited_s > self._workload.settle_s or self._workload.awaits(ops, now_ns) is None

    def _shows_acknowledged(self, rows: dict[Scope, list[QueueRow]]) -> bool:
        """Whether every queue has its last acknowledged offset; the checkers judge a queue that never has."""
        ends = {
            (topic, broker, queue): high
            for (_, topic), found in rows.items()
            for broker, queue, _, high, _ in found
        }
        dead = {name for name in self._environment.topology.replica_sets if self._is_dead(name)}
        self._read_acknowledged()
        return all(
            ends.get(queue, 0) > last
            for queue, last in self._acknowledged.items()
            if queue[1] not in dead
        )

    def _read_acknowledged(self) -> None:
        """Read the ops that have come since the last call."""
        acknowledged, ops = self._acknowledged, self._recorder.ops
        for op in islice(ops, self._acknowledged_of, None):
            if op.type == "ok" and (last := _last_offset(op)) is not None:
                queue = (op.value["topic"], op.value["broker"], op.value["queue"])
                acknowledged[queue] = max(last, acknowledged.get(queue, last))
        self._acknowledged_of = len(ops)

    def _is_dead(self, broker_name: str) -> bool:
        return self._environment.is_dead(self._node_of(broker_name))

    def _only_dead_are_silent(self) -> bool:
        return bool(self._silent) and all(map(self._environment.is_dead, self._silent))

    def _awaits_retries(self) -> bool:
        """Whether a listener failed for a message that its group has not consumed since."""
        drops = {spec.group for spec in self._members if spec.model == BROADCASTING}
        ops, failed = self._recorder.ops, self._failed
        for op in islice(ops, self._ops_seen, None):
            if op.f not in DELIVERIES or op.type == "invoke" or op.value["group"] in drops:
                continue
            if failed or op.type != "ok":
                change = failed.difference_update if op.type == "ok" else failed.update
                change((op.value["group"], key) for key in delivered_keys(op))
        self._ops_seen = len(ops)
        return bool(failed)

    async def _rows_of_all(self) -> tuple[dict[Scope, list[QueueRow]], bool]:
        """Return the queues of all groups on all brokers, and whether every broker answered."""
        rows: dict[Scope, list[QueueRow]] = {}
        complete = True
        self._silent.clear()
        for side in self._changes.side_topics:
            found_beside, answered = await side.drain()
            rows |= found_beside
            complete = complete and answered
        for spec in self._members:
            scopes = [(spec.topic, max(spec.queues, self._changes.queues_max))]
            if spec.sends_back:
                scopes.append((spec.retry_topic, 1))
            for topic, queues in scopes:
                if (spec.group, topic) in rows:
                    continue
                found, answered = await self._queue_rows(spec, topic, queues)
                rows[spec.group, topic] = found
                complete = complete and answered
        return rows, complete

    async def _queue_rows(
        self, spec: ConsumerSpec, topic: str, queues: int
    ) -> tuple[list[QueueRow], bool]:
        """Return the queues of a topic on all brokers, and whether every broker answered."""
        rows: list[QueueRow] = []
        complete = True
        for name in self._environment.topology.replica_sets:
            outcome = await self._environment.request(
                ADMIN,
                {
                    "f": "queue_state",
                    "topic": topic,
                    "group": spec.group,
                    "queues": queues,
                    "address": self._environment.server_address(self._node_of(name)),
                },
            )
            complete = complete and outcome.type == "ok"
            if outcome.type != "ok":
                self._silent[self._node_of(name)] = None
            rows += [[name, *row] for row in outcome.value.get("queues", [])]
        if (
            spec.model == BROADCASTING
        ):  # members keep their own offsets; Workload.awaits counts instead
            rows = [[name, queue, low, high, high] for name, queue, low, high, _ in rows]
        return rows, complete

    def _node_of(self, broker_name: str) -> str:
        """Return the replica to query for a broker's queues."""
        return living_replicas(self._environment, broker_name)[0]


def _last_offset(op: Op) -> int | None:
    """Return the queue offset of the last message of a send; None for another op."""
    if op.f == "send":
        return int(op.value["queue_offset"])
    if op.f == SEND_MANY:
        last = of_send(op.value["ranges"][-1])
        return last.queue_offset + last.length - 1
    return None


def _lag(rows: list[QueueRow]) -> int:
    return sum(max(high - committed, 0) for _, _, _, high, committed in rows)
