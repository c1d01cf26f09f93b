"""Bodies of administration: what Java reads, and the way back."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.protocol.bodies import MessageQueue, SubscriptionData
from staticfire.system_under_test.protocol.bodies_clients import (
    BrokerStats,
    ClientConnection,
    ConsumerConnections,
    ConsumerRunningInfo,
    ConsumeStatus,
    ProcessQueueInfo,
)
from staticfire.system_under_test.protocol.bodies_queues import (
    BrokerConsumeStats,
    ConsumerStatus,
    ConsumeStats,
    CorrectionOffsets,
    LockedQueues,
    OffsetPosition,
    QueueTimeSpan,
    ResetOffsetBody,
    TopicOffset,
    TopicStats,
)
from staticfire.system_under_test.protocol.json_body import JsonBody
from staticfire.system_under_test.protocol.json_dialect import BodyError

QUEUE = MessageQueue("t", "b", 1)
QUEUE_TEXT = b'{"brokerName":"b","queueId":1,"topic":"t"}'


def test_queues_as_keys_are_written_as_objects() -> None:
    body = ResetOffsetBody(offset_table={QUEUE: 5, MessageQueue("t", "b", 2): 6})
    second = QUEUE_TEXT.replace(b"1", b"2")
    assert body.encode() == b'{"offsetTable":{' + QUEUE_TEXT + b":5," + second + b":6}}"


def test_queues_as_values_and_integer_keys() -> None:
    assert LockedQueues(queues=[QUEUE]).encode() == b'{"lockOKMQSet":[' + QUEUE_TEXT + b"]}"
    offsets = CorrectionOffsets(correction_offsets={3: 9})
    assert offsets.encode() == b'{"correctionOffsets":{3:9}}'


def test_names_that_follow_no_rule() -> None:
    info = ProcessQueueInfo(dropped=True, cached_msg_size_in_mi_b=2).to_json()
    assert (info["droped"], info["cachedMsgSizeInMiB"]) == (True, 2)
    assert ProcessQueueInfo().to_json()["droped"] is False
    assert set(ConsumeStatus().to_json()) == {
        "pullRT",
        "pullTPS",
        "consumeRT",
        "consumeOKTPS",
        "consumeFailedTPS",
        "consumeFailedMsgs",
    }


@pytest.mark.parametrize(
    "body",
    [
        TopicStats(offset_table={QUEUE: TopicOffset(min_offset=1, max_offset=2)}),
        ConsumeStats(offset_table={QUEUE: OffsetPosition(broker_offset=5)}, consume_tps=1.5),
        BrokerConsumeStats(
            broker_addr="a:1",
            consume_stats_list=[{"g": [ConsumeStats(offset_table={QUEUE: OffsetPosition()})]}],
        ),
        ConsumerStatus(consumer_table={"c": {QUEUE: 1}}, message_queue_table={QUEUE: 2}),
        QueueTimeSpan(message_queue=QUEUE, delay_time=3),
        ConsumerConnections(
            connection_set=[
                ClientConnection(client_id="c", client_addr="a:1", language="CPP", version=63)
            ],
            subscription_table={"t": SubscriptionData(topic="t")},
            consume_type="CONSUME_PASSIVELY",
        ),
        ConsumerRunningInfo(
            properties={"PROP_CONSUME_TYPE": "x"}, mq_table={QUEUE: ProcessQueueInfo()}
        ),
        BrokerStats(),
    ],
    ids=lambda body: type(body).__name__,
)
def test_bodies_are_read_back(body: JsonBody) -> None:
    assert type(body).from_bytes(body.encode()) == body


@pytest.mark.parametrize("key", ['{"topic":"t"}', '"text"', "5"])
def test_another_key_than_a_queue_is_refused(key: str) -> None:
    with pytest.raises(BodyError):
        ResetOffsetBody.from_bytes(b'{"offsetTable":{%s:1}}' % key.encode())


def test_a_whole_number_is_a_rate() -> None:
    assert ConsumeStats.from_bytes(b'{"consumeTps":0,"offsetTable":{}}') == ConsumeStats()
    with pytest.raises(BodyError, match="not a number"):
        ConsumeStats.from_bytes(b'{"consumeTps":true}')
