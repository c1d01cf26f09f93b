"""Scenarios in which a message is delivered to the wrong process, or late."""

from __future__ import annotations

from collections.abc import Mapping

from staticfire.spark_analysis.synthesis.scenario import Scenario, ScenarioInjection
from staticfire.spark_analysis.synthesis.workload_profile import BATCH_WAITS_S


def _unowned_delivery(scenario: Scenario, _sets: int) -> None:
    """The second message is delivered to a member that owns another queue."""
    keys = [scenario.send(0.1), scenario.send(0.2)]
    for member in (0, 1):
        scenario.to_group(0, "assign", "queues", [[scenario.broker, member]], member=member)
    for index, key in enumerate(keys):
        scenario.consume(1 + index, key, index, member=index)
    scenario.drained(4)
    scenario.expect("unowned_delivery", keys[1], 1)


def _unowned_commit(scenario: Scenario, _sets: int) -> None:
    """A member that owns another queue commits the offset of the queue."""
    key = scenario.send(0.1)
    for member in (0, 1):
        scenario.to_group(0, "assign", "queues", [[scenario.broker, member]], member=member)
    scenario.consume(1, key, 0)
    scenario.to_group(2, "commit", "offsets", [[scenario.broker, 0, 1]], member=1)
    scenario.drained(4)
    scenario.expect("unowned_commit")


def _unknown_consumer(scenario: Scenario, _sets: int) -> None:
    """A member opens; a message is delivered to another one, which never opened."""
    key = scenario.send(0.1)
    scenario.opened(0, 0)
    scenario.to_group(0.1, "assign", "queues", [[scenario.broker, 0]])
    scenario.consume(1, key, 0, member=1)
    scenario.drained(4)
    scenario.expect("unknown_consumer", key, 0)


def _delivery_after_exit(scenario: Scenario, _sets: int) -> None:
    """A node already runs its next process, but a message is delivered to the former one."""
    key = scenario.send(0.1)
    node = f"{scenario.group}-0"
    scenario.opened(0, 0)
    for at_s, queues in ((0.1, [[scenario.broker, 0]]), (2.5, [])):
        scenario.to_group(at_s, "assign", "queues", queues)
    value = {"group": scenario.group, "topic": scenario.topic, "expression": "*"}
    scenario.op(2, "ok", "open", value, process=scenario.consumer + 1, node=node)
    scenario.to_group(2.5, "assign", "queues", [[scenario.broker, 0]], member=1)
    scenario.consume(3, key, 0)
    scenario.drained(4)
    scenario.expect("delivery_after_exit", key, 0)


def _slow_delivery(scenario: Scenario, _sets: int) -> None:
    """The owner of the queue is idle, but gets the message much later."""
    scenario.to_group(0, "assign", "queues", [[scenario.broker, 0]])
    key = scenario.send(12)
    scenario.consume(BATCH_WAITS_S + 20, key, 0)
    scenario.drained(BATCH_WAITS_S + 21)
    scenario.expect("slow_delivery", key, 0)


OWNERSHIP_INJECTIONS: Mapping[str, ScenarioInjection] = {
    "unowned_delivery": _unowned_delivery,
    "unowned_commit": _unowned_commit,
    "unknown_consumer": _unknown_consumer,
    "delivery_after_exit": _delivery_after_exit,
    "slow_delivery": _slow_delivery,
}
