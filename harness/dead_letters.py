"""What became a dead letter: read at the end of a run and written down as consumed by its group.

Nobody consumes dead letters by itself; for the checkers the group has got rid of them.
"""

from __future__ import annotations

from harness.environments.environment import ADMIN, Environment
from harness.probing import PROBE_PROCESS
from harness.workloads.membership import Membership


class DeadLetters:
    """Reads the dead-letter queues of groups, each once."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._read: dict[str, None] = {}

    async def read(self, told: Membership) -> None:
        """Record a `consume` for each broker that has dead letters of the group."""
        if told.group in self._read:
            return
        self._read[told.group] = None
        environment = self._environment
        topic = told.dead_letter_topic
        for name in environment.shape.broker_names:
            node = next(
                replica.node
                for replica in environment.shape.replicas(name)
                if not environment.is_lost(replica.node)
            )
            request = {"f": "read_queue", "topic": topic, "queue": 0}
            outcome = await environment.request(
                ADMIN, {**request, "address": environment.server_address(node)}
            )
            messages = outcome.value.get("messages", [])
            if messages:
                value = {
                    "group": told.group,
                    "topic": topic,
                    "broker": name,
                    "queue": 0,
                    "messages": messages,
                }
                environment.recorder.record(PROBE_PROCESS, "ok", "consume", value)
