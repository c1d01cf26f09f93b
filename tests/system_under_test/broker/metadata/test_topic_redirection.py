"""The topics that store delayed, transactional and dead messages, and the properties written into them."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.broker.metadata.topic_redirection import (
    is_transactional,
    real_destination,
    retry_limit,
)
from staticfire.system_under_test.protocol.bodies import SubscriptionGroupConfig
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import Message, decode_record
from tests.system_under_test.broker.bench import Bench, Peer, send_ext


def stored(bench: Bench, answer: RemotingCommand) -> Message:
    assert answer.code == 0, answer
    record = bench.store.look_up(int(answer.ext_fields["msgId"][16:], 16))
    assert record is not None
    return decode_record(record, check_crc=True)


def test_delayed_message_waits_in_the_queue_of_its_level(bench: Bench) -> None:
    answer = bench.send(queue_id=3, properties={"DELAY": "5", "WAIT": "true", "TAGS": "a"})
    message = stored(bench, answer)
    assert (message.topic, message.queue_id) == ("SCHEDULE_TOPIC_XXXX", 4)
    assert message.properties == {
        "DELAY": "5",
        "WAIT": "true",
        "TAGS": "a",
        "REAL_TOPIC": "TopicTest",
        "REAL_QID": "3",
        "CLUSTER": "DefaultCluster",
    }
    assert answer.ext_fields["queueId"] == "3"  # as asked
    assert answer.ext_fields["queueOffset"] == "0"  # as stored
    assert bench.store.queue_bounds("TopicTest", 3) == (0, 0)


@pytest.mark.parametrize(("level", "queue_id"), [("1", 0), ("18", 17), ("19", 17), ("999", 17)])
def test_levels_beyond_the_last_are_the_last(bench: Bench, level: str, queue_id: int) -> None:
    message = stored(bench, bench.send(properties={"DELAY": level}))
    assert message.queue_id == queue_id
    assert message.properties["DELAY"] == str(queue_id + 1)


@pytest.mark.parametrize("level", ["0", "-1"])
def test_no_delay(bench: Bench, level: str) -> None:
    assert stored(bench, bench.send(properties={"DELAY": level})).topic == "TopicTest"


def test_levels_are_those_of_the_config() -> None:
    bench = Bench(delay_levels_ms=(1000, 2000))
    assert stored(bench, bench.send(properties={"DELAY": "7"})).queue_id == 1


def test_half_message_is_hidden(bench: Bench) -> None:
    properties = {"TRAN_MSG": "true", "PGROUP": "producers", "WAIT": "true", "DELAY": "3"}
    answer = bench.send(queue_id=1, sys_flag=0x4 | 0x1, properties=properties)
    message = stored(bench, answer)
    assert (message.topic, message.queue_id, message.sys_flag) == (
        "RMQ_SYS_TRANS_HALF_TOPIC",
        0,
        0x1,
    )
    assert message.properties == {
        **properties,
        "REAL_TOPIC": "TopicTest",
        "REAL_QID": "1",
        "CLUSTER": "DefaultCluster",
    }
    assert (answer.ext_fields["queueId"], answer.ext_fields["queueOffset"]) == ("1", "0")
    assert bench.store.queue_bounds("RMQ_SYS_TRANS_HALF_TOPIC", 0) == (0, 1)


def test_half_messages_may_be_refused() -> None:
    answer = Bench(reject_transactions=True).send(properties={"TRAN_MSG": "true"})
    assert answer.code == 16
    assert "sending transaction message is forbidden" in (answer.remark or "")


def test_retried_transactional_message_is_no_half_message(bench: Bench) -> None:
    """RocketMQ issue 1649."""
    answer = bench.send("%RETRY%g", j=1, properties={"TRAN_MSG": "true", "DELAY": "3"})
    assert stored(bench, answer).topic == "SCHEDULE_TOPIC_XXXX"
    message = Message(topic="T", body=b"", properties={"TRAN_MSG": "TRUE"})
    assert is_transactional(message)


def test_resent_message_that_was_tried_often_enough_is_a_dead_letter_at_once(bench: Bench) -> None:
    answer = bench.send("%RETRY%g", j=16, properties={"DELAY": "18", "RETRY_TOPIC": "TopicTest"})
    message = stored(bench, answer)
    assert (message.topic, message.queue_id, message.reconsume_times) == ("%DLQ%g", 0, 16)
    assert message.properties["DELAY"] == "0"
    topic = bench.topics.get("%DLQ%g")
    assert topic is not None
    assert (topic.write_queue_nums, topic.perm) == (1, 6)


@pytest.mark.parametrize(("version", "topic"), [(120, "%RETRY%g"), (121, "%DLQ%g")])
def test_own_limit_counts_since_3_4_9(bench: Bench, version: int, topic: str) -> None:
    peer = Peer()
    request = RemotingCommand.request(310, send_ext("%RETRY%g", j=3, l=3), b"x")
    request.version = version
    bench.send_processor.handle(peer.connection, request)
    bench.publish()
    assert stored(bench, peer.take()).topic == topic


@pytest.mark.parametrize(
    ("asked", "version", "limit"), [(None, 409, 16), (3, 409, 3), (3, 63, 16), (0, 409, 0)]
)
def test_retry_limit(asked: int | None, version: int, limit: int) -> None:
    assert retry_limit(SubscriptionGroupConfig(group_name="g"), asked, version) == limit


def test_destination_that_makes_no_sense() -> None:
    assert real_destination(Message(topic="T", body=b"")) is None
    broken = {"REAL_TOPIC": "T", "REAL_QID": "x"}
    assert real_destination(Message(topic="T", body=b"", properties=broken)) is None


def test_ordinary_messages_do_not_come_here(bench: Bench) -> None:
    assert "REAL_TOPIC" not in stored(bench, bench.send()).properties
