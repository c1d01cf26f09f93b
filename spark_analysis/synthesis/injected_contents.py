"""Scenarios about contents and routes: messages that changed on the way, topics that cannot be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from staticfire.checkers.model.message_contents import CONTENTS, digest_of_properties
from staticfire.spark_analysis.synthesis.scenario import (
    RECORD_BYTES,
    WALL_EPOCH_MS,
    Scenario,
    ScenarioInjection,
)

PROPERTIES = {"colour": "red"}
SENT: Mapping[str, Any] = {"tag": "x", "properties": PROPERTIES}
NS_PER_MS = 1_000_000
HOUR_MS = 3_600_000
RETRY_MS = 11_000  # store time of a retry that is delivered at 12 s, after the send


def _send(scenario: Scenario, number: int = 0) -> str:
    """Send a message with contents at 0 s; return its key."""
    return scenario.send(0, process=number, id=_id(scenario, number), **SENT)


def _id(scenario: Scenario, number: int = 0) -> int:
    """Return the digest of the unique message id of the message that process `number` sends."""
    return scenario.process + number


def _given(scenario: Scenario, number: int = 0) -> list[Any]:
    """Return the contents of a message sent at 0 s. The wall clock begins with the run (`WALL_EPOCH_MS`)."""
    sent_ms = WALL_EPOCH_MS + scenario.ns(0) // NS_PER_MS
    digest = digest_of_properties(PROPERTIES)
    return [_id(scenario, number), "x", digest, sent_ms, sent_ms + 5, 100, None]


def _changed(scenario: Scenario, name: str, value: Any, number: int = 0) -> list[Any]:
    """Return the sent contents with one change; for a time, `value` is added to it."""
    contents, index = _given(scenario, number), CONTENTS.index(name)
    contents[index] = contents[index] + value if name.endswith("_ms") else value
    return contents


def _delivered(anomaly: str, name: str, value: object) -> ScenarioInjection:
    """The only delivery of a message has other contents than the send."""

    def inject(scenario: Scenario, _sets: int) -> None:
        key = _send(scenario)
        scenario.consume(1, key, 0, contents=_changed(scenario, name, value))
        scenario.drained(2)
        scenario.expect(anomaly, key, 0)

    return inject


def _delivered_again(anomaly: str, name: str) -> ScenarioInjection:
    """The listener fails, and the same record is delivered again with another time."""

    def inject(scenario: Scenario, _sets: int) -> None:
        key = _send(scenario)
        scenario.consume(1, key, 0, "info", contents=_given(scenario))
        scenario.consume(2, key, 0, contents=_changed(scenario, name, 1))
        scenario.drained(3)
        scenario.expect(anomaly, key, 0)
        scenario.expect_again(key)

    return inject


def _origin_changed(scenario: Scenario, _sets: int) -> None:
    """A retry names a message that was never delivered as its original."""
    scenario.facts["retries_max"] = {scenario.group: 2}
    key = _send(scenario)
    scenario.consume(1, key, 0, "info", contents=_given(scenario))
    other = _changed(scenario, "origin", 7 * RECORD_BYTES)
    other[CONTENTS.index("stored_ms")] += RETRY_MS
    scenario.consume(12, key, 0, topic=scenario.retry_topic, tries=1, contents=other)
    scenario.drained(20)
    scenario.expect_again(key)
    scenario.expect("origin_changed", key, 0, topic=scenario.retry_topic)


def _unreadable_topic(scenario: Scenario, _sets: int) -> None:
    """The broker refuses to serve the dead-letter topic of a group."""
    key = scenario.send(0)
    scenario.consume(1, key, 0)
    scenario.drained(2)
    value = {
        "group": scenario.group,
        "topic": scenario.dead_topic,
        "broker": scenario.broker,
        "queue": 0,
    }
    scenario.op(3, "fail", "try_read", value, error="NO_PERMISSION")
    scenario.expect_of_run(
        "unreadable_topic", group=scenario.group, topic=scenario.dead_topic, broker=scenario.broker
    )


def _wrong_refusal(scenario: Scenario, _sets: int) -> None:
    """The broker refuses too long properties with the code for an unknown topic."""
    key = scenario.send(0)
    scenario.consume(1, key, 0)
    scenario.drained(2)
    value = {"topic": scenario.topic, "key": key, "illegal": "properties", "code": 17}
    scenario.op(3, "ok", "refused", {**value, "broker": scenario.broker})
    scenario.expect_of_run("wrong_refusal", key=key, topic=scenario.topic, broker=scenario.broker)


def _needless_refusal(scenario: Scenario, _sets: int) -> None:
    """A healthy broker refuses a legal send with the code for an unavailable service."""
    key = scenario.send(0)
    scenario.consume(1, key, 0)
    refused = scenario.send(2, "fail", code=14, refused_by=scenario.broker)
    scenario.drained(3)
    scenario.expect_of_run(
        "needless_refusal", key=refused, topic=scenario.topic, broker=scenario.broker
    )


def _route_mismatch(scenario: Scenario, _sets: int) -> None:
    """A name server does not know that the topic now has more queues."""
    scenario.observe(
        0,
        "topic_route",
        node=f"{scenario.name}-name-server",
        broker_name=scenario.broker,
        topic=scenario.topic,
        route=[4, 4, 6],
        master=[8, 8, 6],
    )
    scenario.expect_of_run("route_mismatch", topic=scenario.topic, broker=scenario.broker)


def _stored_before_its_neighbour(scenario: Scenario, _sets: int) -> None:
    """The second message of a queue has an earlier store time than the first one."""
    keys = [_send(scenario, number) for number in (0, 1)]
    contents = _given(scenario)
    earlier = _changed(scenario, "stored_ms", -3, number=1)
    for number, (key, expected) in enumerate(zip(keys, (contents, earlier), strict=True)):
        scenario.consume(1 + number, key, number, contents=expected)
    scenario.drained(3)
    scenario.expect("nonmonotonic_store_time", keys[1], 1)


def _shared_id(scenario: Scenario, _sets: int) -> None:
    """Two messages in two queues have the same unique message id."""
    keys = [scenario.send(at, queue=at, id=_id(scenario)) for at in (0, 1)]
    for queue, key in enumerate(keys):
        scenario.consume(2 + queue, key, 0, queue=queue)
    scenario.drained(4)
    scenario.expect("shared_id", keys[1], 0, queue=1, in_group=False)


CONTENTS_INJECTIONS: Mapping[str, ScenarioInjection] = {
    "tag_changed": _delivered("tag_changed", "tag", "y"),
    "properties_changed": _delivered("properties_changed", "properties", 5),
    "size_changed": _delivered("size_changed", "size", 99),
    "id_changed": _delivered("id_changed", "message_id", 78),
    "shared_id": _shared_id,
    "born_time_changed": _delivered_again("born_time_changed", "born_ms"),
    "store_time_changed": _delivered_again("store_time_changed", "stored_ms"),
    "origin_changed": _origin_changed,
    "wrong_born_time": _delivered("wrong_born_time", "born_ms", -HOUR_MS),
    "wrong_store_time": _delivered("wrong_store_time", "stored_ms", HOUR_MS),
    "nonmonotonic_store_time": _stored_before_its_neighbour,
    "unreadable_topic": _unreadable_topic,
    "wrong_refusal": _wrong_refusal,
    "needless_refusal": _needless_refusal,
    "route_mismatch": _route_mismatch,
}
