"""Scenarios about gaps: a producer, a consumer or a message that waits longer than promised.

Only clients that the campaign names can have gaps, and gaps end when the last send of the campaign's producers begins.
So these scenarios come first, and later sends do not affect them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from staticfire.spark_analysis.synthesis.scenario import Scenario, ScenarioInjection

GAP_MAX_S = 5.0
SEND_S = 3.0  # a client's time-out for a send
WAITED_S = 12.0


def _producer(scenario: Scenario) -> None:
    node = f"{scenario.name}-producer"
    scenario.op(0, "ok", "open", {}, node=node)
    scenario.facts["producers"] = (node,)


def _send_gap(scenario: Scenario, _sets: int) -> None:
    """The first send fails, and the next one is late."""
    _producer(scenario)
    failed = scenario.send(0.1, "fail")
    key = scenario.send(WAITED_S)
    scenario.consume(WAITED_S + 1, key, 1)
    scenario.drained(WAITED_S + 2)
    scenario.expect_of_run("send_gap", key=failed, topic=scenario.topic)


def _producer_stuck(scenario: Scenario, _sets: int) -> None:
    """Every send of a producer fails without a fault."""
    _producer(scenario)
    first, *_ = [scenario.send(number * WAITED_S, "fail") for number in range(1, 6)]
    key = scenario.send(6 * WAITED_S)
    scenario.consume(6 * WAITED_S + 1, key, 5)
    scenario.drained(6 * WAITED_S + 2)
    scenario.expect_of_run("producer_stuck", key=first, topic=scenario.topic)
    scenario.expect_of_run("send_gap", key=first, topic=scenario.topic)


def _overdue_send(scenario: Scenario, _sets: int) -> None:
    """A send fails long after its time-out."""
    _producer(scenario)
    failed = scenario.send(0.1, "fail", takes_s=WAITED_S)
    key = scenario.send(WAITED_S + 1)
    scenario.consume(WAITED_S + 2, key, 1)
    scenario.drained(WAITED_S + 3)
    scenario.expect_of_run("overdue_send", key=failed, topic=scenario.topic)
    scenario.expect_of_run("send_gap", key=failed, topic=scenario.topic)


def _refused_at_rest(scenario: Scenario, _sets: int) -> None:
    """Every other send of a producer is refused, while no fault is on."""
    first = _every_other(scenario, lambda at_s: scenario.send(at_s, "fail", attempts=1))
    scenario.expect_of_run("refused_at_rest", key=first, topic=scenario.topic)


def _weak_at_rest(scenario: Scenario, _sets: int) -> None:
    """Every other send of a producer gets a weak status, while no fault is on."""
    weak = "FLUSH_SLAVE_TIMEOUT"
    first = _every_other(scenario, lambda at_s: scenario.send(at_s, "info", status=weak))
    scenario.expect("weak_at_rest", first, 0, in_group=False)


def _every_other(scenario: Scenario, send: Callable[[float], str]) -> str:
    """Make sends by `send` once a second, each followed by a successful one; return the key of the first."""
    _producer(scenario)
    sent = [(send(second), scenario.send(second + 0.5, queue=1)) for second in range(1, 11)]
    for index, (_, key) in enumerate(sent):
        scenario.consume(index + 1.8, key, index, queue=1)
    scenario.drained(13)
    return sent[0][0]


def _lost_reply(scenario: Scenario, _sets: int) -> None:
    """A listener replies to a request, but the requester gets no answer within 5 s."""
    key = f"p{scenario.process}-0"
    value = {"topic": scenario.topic, "size": 100, "key": key}
    scenario.op(0, "invoke", "send", value)
    queue = {"broker": scenario.broker, "queue": 0}
    scenario.consume(0.4, key, 0)
    scenario.op(0.5, "ok", "reply", {"topic": scenario.topic, "group": scenario.group, "key": key})
    scenario.op(5, "info", "send", {**value, **queue}, error="no reply after 5 s")
    scenario.drained(6)
    scenario.expect_of_run("lost_reply", key=key)


def _start_gap(scenario: Scenario, _sets: int) -> None:
    """A consumer gets its queue long after its start."""
    scenario.opened(0, 0)
    scenario.facts["consumers"] = (f"{scenario.group}-0",)
    scenario.to_group(WAITED_S, "assign", "queues", [[scenario.broker, 0]])
    key = scenario.send(WAITED_S)
    scenario.consume(WAITED_S + 1, key, 0)
    scenario.drained(WAITED_S + 2)
    scenario.expect_of_run("start_gap")


def _delivery_gap(scenario: Scenario, _sets: int) -> None:
    """The first of two messages is delivered late, while the producer is still sending."""
    _producer(scenario)
    first = scenario.send(0.1)
    second = scenario.send(WAITED_S)
    scenario.consume(WAITED_S - 1, first, 0)
    scenario.consume(WAITED_S + 1, second, 1)
    scenario.drained(WAITED_S + 2)
    scenario.expect("delivery_gap", first, 0)


GAP_INJECTIONS: Mapping[str, ScenarioInjection] = {
    "send_gap": _send_gap,
    "producer_stuck": _producer_stuck,
    "overdue_send": _overdue_send,
    "refused_at_rest": _refused_at_rest,
    "weak_at_rest": _weak_at_rest,
    "lost_reply": _lost_reply,
    "start_gap": _start_gap,
    "delivery_gap": _delivery_gap,
}
