"""The fields of common requests, with the values of an ordinary client."""

from __future__ import annotations

from collections.abc import Mapping

READ, WRITE = 4, 2  # permissions


def topic_fields(name: str, *, queues: int, perm: int = READ | WRITE) -> dict[str, object]:
    """Return the fields of request 17."""
    return {
        "topic": name,
        "defaultTopic": "TBW102",
        "readQueueNums": queues,
        "writeQueueNums": queues,
        "perm": perm,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
    }


def send_fields(
    topic: str, *, queue: int, properties: Mapping[str, str] | None = None, **fields: object
) -> dict[str, object]:
    """Return the fields of request 10."""
    return {
        "producerGroup": "staticfire-conformance",
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": 4,
        "queueId": queue,
        "sysFlag": 0,
        "bornTimestamp": 1_600_000_000_000,
        "flag": 0,
        "properties": property_text(properties or {}),
        "reconsumeTimes": 0,
        "unitMode": False,
        **fields,
    }


LONG_NAMES = (
    "producerGroup",
    "topic",
    "defaultTopic",
    "defaultTopicQueueNums",
    "queueId",
    "sysFlag",
    "bornTimestamp",
    "flag",
    "properties",
    "reconsumeTimes",
    "unitMode",
    "maxReconsumeTimes",
    "batch",
)
SHORT_NAMES = dict(zip(LONG_NAMES, "abcdefghijklm", strict=True))


def short_fields(fields: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of request 10 under the names of request 310."""
    return {SHORT_NAMES[name]: value for name, value in fields.items()}


def property_text(properties: Mapping[str, str]) -> str:
    return "\x02".join(f"{name}\x01{value}" for name, value in properties.items())


def pull_fields(
    topic: str, *, queue: int, offset: int, group: str, **fields: object
) -> dict[str, object]:
    """Return the fields of request 11: a pull that does not wait, with a subscription to everything."""
    return {
        "consumerGroup": group,
        "topic": topic,
        "queueId": queue,
        "queueOffset": offset,
        "maxMsgNums": 32,
        "sysFlag": 4,  # the request includes the subscription
        "commitOffset": 0,
        "suspendTimeoutMillis": 0,
        "subscription": "*",
        "subVersion": 0,
        "expressionType": "TAG",
        **fields,
    }
