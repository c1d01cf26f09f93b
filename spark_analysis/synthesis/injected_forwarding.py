"""Scenarios in which a forwarding member omits a copy, or reports a copy without an original."""

from __future__ import annotations

from collections.abc import Mapping

from staticfire.spark_analysis.synthesis.scenario import Scenario, ScenarioInjection


def _forwarded(scenario: Scenario, given: int, expected: int) -> list[str]:
    """Let a forwarding member get `given` of two messages and report `expected` copies, in queue 1; return the keys."""
    for member in (0, 1):
        scenario.opened(0, member)
    scenario.facts["forwarders"] = (f"{scenario.group}-0",)
    keys = [scenario.send(0.1), scenario.send(0.2)]
    for index, key in enumerate(keys[given:], given):
        scenario.consume(0.5, key, index, member=1)
    also = tuple((key, index) for index, key in enumerate(keys[:given]))
    scenario.consume(1, *also[0], takes_s=1, also=also[1:])
    copies = [scenario.send(1.1 + index / 10, queue=1, process=8) for index in range(expected)]
    value = {
        "group": scenario.group,
        "topic": scenario.topic,
        "broker": scenario.broker,
        "queue": 0,
    }
    value |= {"originals": [[0, expected]], "key": copies[0]}
    scenario.op(1.5, "ok", "forward", value, process=scenario.consumer)
    for index, key in enumerate(copies):
        scenario.consume(3 + index, key, index, queue=1, member=1)
    scenario.drained(6)
    return keys


def _not_forwarded(scenario: Scenario, _sets: int) -> None:
    keys = _forwarded(scenario, given=2, expected=1)
    scenario.expect("not_forwarded", keys[1], 1)


def _phantom_copy(scenario: Scenario, _sets: int) -> None:
    _forwarded(scenario, given=1, expected=2)
    scenario.expect("phantom_copy", None, 1, in_log=False)


FORWARDING_INJECTIONS: Mapping[str, ScenarioInjection] = {
    "not_forwarded": _not_forwarded,
    "phantom_copy": _phantom_copy,
}
