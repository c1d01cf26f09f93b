"""Planted wrongs about what messages and routes hold: contents that changed on the way, topics that cannot be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from staticfire.checkers.model.message_contents import CONTENTS, digest_of_properties
from staticfire.spark_analysis.synthesis.story import RECORD_BYTES, WALL_EPOCH_MS, Story, StoryPlant

PROPERTIES = {"colour": "red"}
SENT: Mapping[str, Any] = {"tag": "x", "properties": PROPERTIES, "id": 77}
NS_PER_MS = 1_000_000
HOUR_MS = 3_600_000
RETRY_MS = 11_000  # after the send, when a retry that is given out at 12 s is stored


def _given(story: Story) -> list[Any]:
    """The contents of a message that was sent at 0 s. The wall clock began with the run (`WALL_EPOCH_MS`)."""
    sent_ms = WALL_EPOCH_MS + story.ns(0) // NS_PER_MS
    return [77, "x", digest_of_properties(PROPERTIES), sent_ms, sent_ms + 5, 100, None]


def _changed(story: Story, name: str, value: Any) -> list[Any]:
    """The contents that were sent, but for one; of a time, `value` says by how much it is wrong."""
    contents, place = _given(story), CONTENTS.index(name)
    contents[place] = contents[place] + value if name.endswith("_ms") else value
    return contents


def _delivered(anomaly: str, name: str, value: Any) -> StoryPlant:
    """The only delivery of a message does not hold what was sent."""

    def plant(story: Story, _sets: int) -> None:
        key = story.send(0, **SENT)
        story.consume(1, key, 0, contents=_changed(story, name, value))
        story.drained(2)
        story.tell(anomaly, key, 0)

    return plant


def _delivered_again(anomaly: str, name: str, value: Any) -> StoryPlant:
    """The listener fails, and the same record comes again with another time."""

    def plant(story: Story, _sets: int) -> None:
        key = story.send(0, **SENT)
        story.consume(1, key, 0, "info", contents=_given(story))
        story.consume(2, key, 0, contents=_changed(story, name, value))
        story.drained(3)
        story.tell(anomaly, key, 0)
        story.tell_again(key)

    return plant


def _origin_changed(story: Story, _sets: int) -> None:
    """A retry names a message that was never delivered as its original."""
    story.facts["retries_max"] = {story.group: 2}
    key = story.send(0, **SENT)
    story.consume(1, key, 0, "info", contents=_given(story))
    other = _changed(story, "origin", 7 * RECORD_BYTES)
    other[CONTENTS.index("stored_ms")] += RETRY_MS
    story.consume(12, key, 0, topic=story.retry_topic, tries=1, contents=other)
    story.drained(20)
    story.tell_again(key)
    story.tell("origin_changed", key, 0, topic=story.retry_topic)


def _unreadable_topic(story: Story, _sets: int) -> None:
    """The broker refuses to give out the dead letters of a group."""
    key = story.send(0)
    story.consume(1, key, 0)
    story.drained(2)
    value = {"group": story.group, "topic": story.dead_topic, "broker": story.broker, "queue": 0}
    story.op(3, "fail", "try_read", value, error="NO_PERMISSION")
    story.tell_of_run(
        "unreadable_topic", group=story.group, topic=story.dead_topic, broker=story.broker
    )


def _wrong_refusal(story: Story, _sets: int) -> None:
    """The broker refuses properties that are too long as if it did not know the topic."""
    key = story.send(0)
    story.consume(1, key, 0)
    story.drained(2)
    value = {"topic": story.topic, "key": key, "illegal": "properties", "code": 17}
    story.op(3, "ok", "refused", {**value, "broker": story.broker})
    story.tell_of_run("wrong_refusal", key=key, topic=story.topic, broker=story.broker)


def _route_mismatch(story: Story, _sets: int) -> None:
    """A name server has missed that the topic has more queues now."""
    story.observe(
        0,
        "topic_route",
        node=f"{story.name}-name-server",
        broker_name=story.broker,
        topic=story.topic,
        route=[4, 4, 6],
        master=[8, 8, 6],
    )
    story.tell_of_run("route_mismatch", topic=story.topic, broker=story.broker)


CONTENTS_PLANTS: Mapping[str, StoryPlant] = {
    "tag_changed": _delivered("tag_changed", "tag", "y"),
    "properties_changed": _delivered("properties_changed", "properties", 5),
    "size_changed": _delivered("size_changed", "size", 99),
    "id_changed": _delivered("id_changed", "message_id", 78),
    "born_time_changed": _delivered_again("born_time_changed", "born_ms", 1),
    "store_time_changed": _delivered_again("store_time_changed", "stored_ms", 1),
    "origin_changed": _origin_changed,
    "wrong_born_time": _delivered("wrong_born_time", "born_ms", -HOUR_MS),
    "wrong_store_time": _delivered("wrong_store_time", "stored_ms", HOUR_MS),
    "unreadable_topic": _unreadable_topic,
    "wrong_refusal": _wrong_refusal,
    "route_mismatch": _route_mismatch,
}
