"""Code 36: the retry ladder, dead letters, refusals, and honest answers."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.system_under_test.broker.metadata.topics import make_topic
from staticfire.system_under_test.configuration.mode import Mode
from staticfire.system_under_test.protocol.bodies import SubscriptionGroupConfig
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.header_fields import HeaderError
from staticfire.system_under_test.protocol.message import Message
from tests.system_under_test.broker.bench import Bench, Peer
from tests.system_under_test.store.forged_records import body_with_record

SEND_BACK = 36


def send_back(bench: Bench, offset: int, **fields: Any) -> RemotingCommand:
    ext = {"offset": str(offset), "group": "g", "delayLevel": "0"}
    ext |= {name: str(value) for name, value in fields.items()}
    answer = bench.ask_service(SEND_BACK, ext)
    assert answer is not None
    return answer


def waiting(bench: Bench) -> list[Message]:
    return [
        message for level in range(18) for message in bench.stored("SCHEDULE_TOPIC_XXXX", level)
    ]


def test_copy_waits_ten_seconds_for_its_group_alone(bench: Bench) -> None:
    sent = bench.send(queue_id=2, properties={"TAGS": "TagA", "KEYS": "k1"})
    assert send_back(bench, 0).code == ResponseCode.SUCCESS
    (copy,) = bench.stored("SCHEDULE_TOPIC_XXXX", 2)
    assert copy.properties == {
        "REAL_TOPIC": "%RETRY%g",
        "REAL_QID": "0",
        "ORIGIN_MESSAGE_ID": sent.ext_fields["msgId"],
        "RETRY_TOPIC": "TopicTest",
        "KEYS": "k1",
        "TAGS": "TagA",
        "CLUSTER": "DefaultCluster",
        "WAIT": "false",
        "DELAY": "3",
    }
    assert (copy.reconsume_times, copy.body, copy.born_timestamp_ms, copy.born_host) == (
        1,
        b"hello",
        1_600_000_000_000,
        ("10.0.0.9", 40_001),
    )
    topic = bench.topics.get("%RETRY%g")
    assert topic is not None
    assert topic.write_queue_nums == 1


def test_ladder_of_sixteen_retries_and_a_dead_letter(bench: Bench) -> None:
    sent = bench.send()
    offset = 0
    levels = []
    for retry in range(1, 17):
        assert send_back(bench, offset).code == ResponseCode.SUCCESS
        copy = max(waiting(bench), key=lambda message: message.physical_offset)
        assert copy.reconsume_times == retry
        assert copy.properties["ORIGIN_MESSAGE_ID"] == sent.ext_fields["msgId"]
        assert copy.properties["RETRY_TOPIC"] == "TopicTest"
        levels.append(copy.queue_id + 1)
        offset = copy.physical_offset
    assert levels == list(range(3, 19))
    assert send_back(bench, offset).code == ResponseCode.SUCCESS
    assert len(waiting(bench)) == 16
    (dead,) = bench.stored("%DLQ%g")
    assert dead.reconsume_times == 17
    assert dead.properties["DELAY"] == "0"
    assert dead.properties["ORIGIN_MESSAGE_ID"] == sent.ext_fields["msgId"]


@pytest.mark.parametrize("fields", [{"delayLevel": -1}, {"maxReconsumeTimes": 0}])
def test_dead_letter_at_once(bench: Bench, fields: dict[str, Any]) -> None:
    bench.send()
    assert send_back(bench, 0, **fields).code == ResponseCode.SUCCESS
    assert waiting(bench) == []
    assert len(bench.stored("%DLQ%g")) == 1


def test_level_that_the_consumer_asks_for(bench: Bench) -> None:
    bench.send()
    send_back(bench, 0, delayLevel=7)
    assert len(bench.stored("SCHEDULE_TOPIC_XXXX", 6)) == 1


def test_retried_transactional_message_keeps_its_type_and_is_no_half_message(bench: Bench) -> None:
    bench.send(sys_flag=8, properties={"TRAN_MSG": "false"})
    send_back(bench, 0)
    (copy,) = waiting(bench)
    assert copy.sys_flag == 8


def test_refusals(bench: Bench) -> None:
    bench.send()
    assert send_back(bench, 12345).code == ResponseCode.SYSTEM_ERROR
    assert send_back(bench, 1).code == ResponseCode.SYSTEM_ERROR  # inside a record
    bench.topics.put(make_topic("%RETRY%g", 1, 4))
    assert send_back(bench, 0).code == ResponseCode.NO_PERMISSION
    bench.is_ready = False
    assert send_back(bench, 0).code == ResponseCode.SYSTEM_ERROR
    bench.config.auto_create_groups = False
    answer = send_back(bench, 0, group="unknown")
    assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    with pytest.raises(HeaderError, match="delayLevel"):
        send_back(bench, 0, delayLevel="x")
    assert waiting(bench) == []


def test_broker_without_write_permission() -> None:
    bench = Bench(broker_permission=4)
    assert send_back(bench, 0).code == ResponseCode.NO_PERMISSION


def test_group_without_retry_queues(bench: Bench) -> None:
    bench.send()
    bench.groups.put(SubscriptionGroupConfig(group_name="g", retry_queue_nums=0))
    assert send_back(bench, 0).code == ResponseCode.SUCCESS
    assert waiting(bench) == []


def test_queue_is_one_that_the_retry_topic_has(bench: Bench) -> None:
    """RocketMQ issue 3953: it was drawn among the group's, which may be more."""
    bench.groups.put(SubscriptionGroupConfig(group_name="g", retry_queue_nums=8))
    bench.topics.put(make_topic("%RETRY%g", 2))
    for number in range(30):
        bench.send(queue_id=number % 4)
        send_back(bench, 0)
    assert {copy.properties["REAL_QID"] for copy in waiting(bench)} == {"0", "1"}


def test_full_disk(bench: Bench) -> None:
    bench.send()
    bench.groups.find("g")
    bench.topics.create_retry_topic("g", 1)
    bench.disk.fill()
    assert send_back(bench, 0).code == ResponseCode.SYSTEM_ERROR  # the level's queue needs a file


@pytest.mark.parametrize(
    ("safe", "code"), [(0, 0), (11, 0), (10, ResponseCode.SYSTEM_ERROR), (12, 1)]
)
def test_answer_comes_when_the_copy_is_safe(bench: Bench, safe: int, code: int) -> None:
    bench.send()
    peer = Peer()
    ext = {"offset": "0", "group": "g", "delayLevel": "0"}
    handler = bench.services.handlers(bench.send_processor)[SEND_BACK]
    assert handler(peer.connection, RemotingCommand.request(SEND_BACK, ext)) is None
    ((end_offset, answer, waits),) = bench.waiting
    assert (end_offset, waits) == (bench.store.end_offset, True)
    assert peer.sent == []
    answer(ResponseCode(safe))
    assert peer.take().code == code


def test_4_9_8_does_not_wait() -> None:
    bench = Bench(mode=Mode.FAITHFUL)
    bench.send()
    handler = bench.services.handlers(bench.send_processor)[SEND_BACK]
    ext = {"offset": "0", "group": "g", "delayLevel": "0"}
    handler(Peer().connection, RemotingCommand.request(SEND_BACK, ext))
    assert [waits for _, _, waits in bench.waiting] == [False]


@pytest.mark.parametrize(
    ("mode", "code", "status"),
    [
        (Mode.HARDENED, ResponseCode.SYSTEM_ERROR, "FLUSH_SLAVE_TIMEOUT"),
        (Mode.FAITHFUL, ResponseCode.SUCCESS, None),
    ],
)
def test_a_copy_that_no_slave_has_confirmed_counts_in_faithful_mode_alone(
    mode: Mode, code: int, status: str | None
) -> None:
    """R36: FLUSH_SLAVE_TIMEOUT, heard as success, lets the consumer move on."""
    bench = Bench(mode=mode)
    bench.send()
    peer = Peer()
    ext = {"offset": "0", "group": "g", "delayLevel": "0"}
    bench.services.handlers(bench.send_processor)[SEND_BACK](
        peer.connection, RemotingCommand.request(SEND_BACK, ext)
    )
    ((_, answer, _),) = bench.waiting
    answer(ResponseCode.FLUSH_SLAVE_TIMEOUT)
    answered = peer.take()
    assert (answered.code, answered.ext_fields.get("sendStatus")) == (code, status)


@pytest.mark.parametrize(("mode", "queues"), [(Mode.HARDENED, {0}), (Mode.FAITHFUL, {0, 1, 2, 3})])
def test_a_retry_goes_to_a_queue_that_there_is_in_hardened_mode_alone(
    mode: Mode, queues: set[int]
) -> None:
    """R48: the group's number has grown since the retry topic was made."""
    bench = Bench(mode=mode)
    bench.send()
    bench.topics.create_retry_topic("g", 1)
    bench.groups.put(SubscriptionGroupConfig(group_name="g", retry_queue_nums=4))
    for _ in range(40):
        send_back(bench, 0)
    assert {int(copy.properties["REAL_QID"]) for copy in waiting(bench)} == queues


@pytest.mark.parametrize("queue_offset", [0, 1, 7])
def test_a_record_inside_a_body_cannot_be_sent_back(bench: Bench, queue_offset: int) -> None:
    bench.send()
    inner = Message(topic="Denied", body=b"forged", queue_offset=queue_offset)
    body, offset = body_with_record(bench.store, inner)
    bench.send(body=body)
    answer = send_back(bench, offset)
    assert (answer.code, waiting(bench)) == (ResponseCode.SYSTEM_ERROR, [])
    assert answer.remark == f"look message by offset failed, {offset}"
