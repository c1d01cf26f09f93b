"""Reads retry and dead-letter topics at the end of a run.

No consumer of the load reads dead letters: for the checkers, the group has given them up. A topic that a broker refuses
to serve would appear empty, so each attempt is recorded (`try_read`). The harness also records the offset at which the
reading of dead letters ended early: a broker serves nothing behind a damaged record that no replica has repaired.
"""

from __future__ import annotations

import asyncio

from staticfire.checkers.model.history import OpType
from staticfire.harness.clients.names import ADMIN
from staticfire.harness.clients.port import Outcome
from staticfire.harness.environments.environment import Environment, living_replicas
from staticfire.harness.observers.probe import PROBE_PROCESS
from staticfire.harness.workloads.consumer_spec import ConsumerSpec

TRIES = 3
POLL_S = 2.0


class DeadLetters:
    """Reads the retry and dead-letter topics of groups, each once."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._read: dict[str, None] = {}

    async def read(self, spec: ConsumerSpec) -> None:
        """Record for each broker a `consume` of the group's dead letters, and whether both topics can be read."""
        if spec.group in self._read:
            return
        self._read[spec.group] = None
        for name in self._environment.topology.replica_sets:
            await self._read_queue(spec.group, spec.retry_topic, name, {"limit": 1})
            dead = await self._read_queue(spec.group, spec.dead_letter_topic, name, {})
            messages = dead.value.get("messages", [])
            if messages:
                value = {
                    **_queue_fields(spec.group, spec.dead_letter_topic, name),
                    "messages": messages,
                }
                self._environment.recorder.record(PROBE_PROCESS, "ok", "consume", value)

    async def _read_queue(
        self, group: str, topic: str, broker: str, limit: dict[str, int]
    ) -> Outcome:
        """Read a queue, and record the attempt."""
        environment = self._environment
        node = living_replicas(environment, broker)[0]
        request = {"f": "read_queue", "topic": topic, "queue": 0, **limit}
        for tries in range(TRIES):
            if tries:
                await asyncio.sleep(POLL_S)
            address = environment.server_address(node)
            outcome = await environment.request(ADMIN, {**request, "address": address})
            if outcome.type == "ok" and not outcome.value.get("refusal"):
                break
        type, error = _end_of(outcome, is_whole="limit" not in limit)
        value = _queue_fields(group, topic, broker)
        environment.recorder.record(PROBE_PROCESS, type, "try_read", value, error)
        return outcome


def _queue_fields(group: str, topic: str, broker: str) -> dict[str, object]:
    return {"group": group, "topic": topic, "broker": broker, "queue": 0}


def _end_of(outcome: Outcome, *, is_whole: bool) -> tuple[OpType, str | None]:
    """Return the type of an attempt's end; a refusal is `fail`. `is_whole`: all messages were requested."""
    if outcome.type != "ok":
        return "info", outcome.error or "no answer"
    if refusal := outcome.value.get("refusal"):
        return "fail", refusal
    incomplete = outcome.value.get("incomplete") if is_whole else None
    return ("ok", None) if incomplete is None else ("info", incomplete)
