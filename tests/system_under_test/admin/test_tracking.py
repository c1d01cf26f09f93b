"""The fate of a message in a group, derived from its members and its offsets."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.admin.tracking import TrackType, track_type
from staticfire.system_under_test.protocol.bodies import MessageQueue, SubscriptionData
from staticfire.system_under_test.protocol.bodies_clients import ConsumerConnections
from staticfire.system_under_test.protocol.bodies_queues import ConsumeStats, OffsetPosition
from staticfire.system_under_test.protocol.message import Message

MESSAGE = Message(topic="T", body=b"", queue_id=3, queue_offset=7, properties={"TAGS": "A"})


def members(
    *tags: str, kind: str = "CONSUME_PASSIVELY", model: str = "CLUSTERING", topic: str = "T"
) -> ConsumerConnections:
    subscription = SubscriptionData(topic=topic, tags_set=list(tags))
    return ConsumerConnections(
        consume_type=kind, message_model=model, subscription_table={topic: subscription}
    )


def offsets(queue: MessageQueue, consumer_offset: int) -> ConsumeStats:
    position = OffsetPosition(broker_offset=100, consumer_offset=consumer_offset)
    return ConsumeStats(offset_table={queue: position})


HERE = MessageQueue("T", "broker-a", 3)


@pytest.mark.parametrize(
    ("online", "stats", "expected"),
    [
        (members(), offsets(HERE, 8), TrackType.CONSUMED),
        (members(), offsets(HERE, 7), TrackType.NOT_CONSUME_YET),
        (members(), ConsumeStats(), TrackType.NOT_CONSUME_YET),
        (members(), offsets(HERE._replace(queue_id=2), 8), TrackType.NOT_CONSUME_YET),
        (members(), offsets(HERE._replace(topic="U"), 8), TrackType.NOT_CONSUME_YET),
        (members(), offsets(HERE._replace(broker_name="broker-b"), 8), TrackType.NOT_CONSUME_YET),
        (members("A", "B"), offsets(HERE, 8), TrackType.CONSUMED),
        (members("*"), offsets(HERE, 8), TrackType.CONSUMED),
        (members("B"), offsets(HERE, 8), TrackType.CONSUMED_BUT_FILTERED),
        (members("B"), offsets(HERE, 7), TrackType.NOT_CONSUME_YET),
        (members("B", topic="U"), offsets(HERE, 8), TrackType.CONSUMED),
        (members(kind="CONSUME_ACTIVELY"), offsets(HERE, 8), TrackType.PULL),
        (members(model="BROADCASTING"), offsets(HERE, 8), TrackType.CONSUME_BROADCASTING),
        (ConsumerConnections(), offsets(HERE, 8), TrackType.UNKNOWN),
    ],
)
def test_track_type(online: ConsumerConnections, stats: ConsumeStats, expected: TrackType) -> None:
    assert track_type(MESSAGE, online, stats, ["broker-a"]) is expected
